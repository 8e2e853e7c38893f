"""From what users call a source (a path, a URL, bytes, a file object) to an opened file."""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from typing import Any, BinaryIO

from .._swath import File
from ..errors import SourceChangedError
from ..remote.open import open_identified, open_remote

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""What can be opened."""

Identity = tuple[str | int | None, ...]
"""What changes when the content of a file does: device, inode, size, time of change; of a URL what its server says."""

Beside = tuple[tuple[str, Identity], ...]
"""Paths of the files that lie beside one and are read with it, and their identities."""

KEPT_OPEN = 64
"""How many files a worker process keeps open for tasks to come."""


def is_file_like(source: object) -> bool:
    """Whether a source is an object to read from, not a name."""
    return hasattr(source, "read") and hasattr(source, "seek") and hasattr(source, "tell")


def is_remote(source: object) -> bool:
    """Whether a source is a URL that leads away from this machine's file system."""
    return isinstance(source, str) and "://" in source and not source.lower().startswith("file://")


def is_content(source: object) -> bool:
    """Whether a source is the bytes of a file. Other bytes are a path, as for `os`."""
    return isinstance(source, bytearray | memoryview) or isinstance(source, bytes) and source[:2] in (b"II", b"MM")


def local_path(source: object) -> str | None:
    """The absolute path of a source that is a local file by name; None for URLs, bytes and file objects."""
    if is_content(source) or is_file_like(source) or is_remote(source):
        return None
    path = os.fsdecode(source)  # type: ignore[arg-type]
    if path.lower().startswith("file://"):
        path = _path_of_uri(path)
    return os.path.abspath(path)


def _path_of_uri(uri: str) -> str:
    path = uri[len("file://") :]
    if path.lower().startswith("localhost/"):
        path = path[len("localhost") :]
    # A name may have a percent sign in it: programs that build URIs by gluing strings do not quote it.
    if os.path.exists(path):
        return path
    # It takes 1.4 ms to import, and only such names need it.
    from urllib.parse import unquote

    return unquote(path)


def open_source(source: Source, **remote: Any) -> File:
    """Open a TIFF: only its headers are read. `remote` goes to `open_remote` when the source is a URL."""
    if is_content(source):
        return File.from_bytes(bytes(source))  # type: ignore[arg-type]
    if isinstance(source, str) and is_remote(source):
        return open_remote(source, **remote)
    path = local_path(source)
    if path is not None:
        return File.open(path)
    if type(source) is io.BytesIO:
        return File.from_bytes(source.getvalue())
    return File.from_ranges(FileObject(source))  # type: ignore[arg-type]


class FileObject:
    """A Python file object as the engine reads it: it has one position, so reads take turns."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._turn = threading.Lock()
        name = getattr(file, "name", None)
        self.name = name if isinstance(name, str) else "<file object>"
        with self._turn:
            position = file.tell()
            self.size = file.seek(0, os.SEEK_END) or file.tell()
            file.seek(position)

    def fetch(self, spans: list[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of all (offset, length) spans. The position of the file object is as before afterwards."""
        with self._turn:
            position = self._file.tell()
            try:
                return [self._read(offset, length) for offset, length in spans]
            finally:
                self._file.seek(position)

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"{self.name} gives {type(data).__name__} where bytes are needed: open it in binary mode")
        # A raw file may give less than it was asked for and have more.
        while 0 < len(data) < length and (more := self._file.read(length - len(data))):
            data = bytes(data) + more
        if len(data) != length:
            raise OSError(f"{self.name} ends at byte {offset + len(data)}, before byte {offset + length}")
        return bytes(data)

    def sibling(self, name: str) -> None:
        """Nothing lies beside a file object."""


def identity_of(path: str) -> Identity:
    """What tells this content of a local file from what it was or will be."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


class Handle:
    """An opened file for tasks that run later, in any thread or process.

    It pickles as a path and what `os.stat` said of it, and is opened once in each process that uses it. Bytes are
    pickled whole; a file object stays where it is.
    """

    __slots__ = ("_file", "_process", "beside", "identity", "name", "remote", "source")

    def __init__(self, source: Source, file: File | None = None, **remote: Any) -> None:
        path = local_path(source)
        self.remote = remote
        self.beside: Beside = ()
        self.source: str | bytes | None
        self._file: File | None
        if path is not None:
            # The identity is taken before the file is opened: a file replaced in between is then noticed, not missed.
            self.source, self.identity = path, identity_of(path)
            self._file = File.open(path) if file is None else file
        elif isinstance(source, str):
            self.source = source
            self._file, self.identity = open_identified(source, file, **remote)
        else:
            self.source = None if is_file_like(source) else bytes(source)  # type: ignore[arg-type]
            self._file = open_source(source) if file is None else file
            self.identity = (0 if self.source is None else len(self.source),)
        self.name = self.source if isinstance(self.source, str) else str(getattr(source, "name", "bytes"))
        self._process = os.getpid()

    def file(self) -> File:
        """The file, opened now if it is not open in this process; SourceChangedError when it is another than it was."""
        if isinstance(self.source, str) and not is_remote(self.source):
            for path, identity in ((self.source, self.identity), *self.beside):
                _check_unchanged(path, identity)
        if self._file is not None and self._process == os.getpid():
            return self._file
        if self.source is None:
            raise TypeError(f"{self.name} is a file object of another process: open it by path to read it here")
        if isinstance(self.source, bytes):
            return File.from_bytes(self.source)
        return _opened.get(self.source, self.identity, self.beside, self.remote)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is None:
            raise TypeError(f"{self.name} is a file object, which cannot be sent to another process: open it by path")
        return _restore, (self.source, self.identity, self.beside, self.remote)

    def with_sidecar(self, suffix: str) -> Handle:
        """The same file, which has changed too when the one beside it has, if there is one."""
        if not isinstance(self.source, str) or not os.path.exists(self.source + suffix):
            return self
        both = copy(self)
        both._file, both._process = self._file, self._process
        both.beside = ((self.source + suffix, identity_of(self.source + suffix)),)
        return both

    def __dask_tokenize__(self) -> object:
        source = id(self._file) if self.source is None else self.source
        return "swath.Handle", source, self.identity, self.beside

    def __repr__(self) -> str:
        return f"<swath file {self.name!r}>"


def _check_unchanged(path: str, identity: Identity) -> None:
    try:
        now = identity_of(path)
    except FileNotFoundError:
        raise SourceChangedError(path, "was removed") from None
    if now != identity:
        raise SourceChangedError(path)


def _restore(source: str | bytes, identity: Identity, beside: Beside, remote: dict[str, Any]) -> Handle:
    handle = Handle.__new__(Handle)
    handle.source, handle.identity, handle.beside, handle.remote = source, identity, beside, remote
    handle.name = source if isinstance(source, str) else "bytes"
    handle._file, handle._process = None, -1
    return handle


class _Opened:
    """The files that handles from elsewhere were opened as here, the longest unused first."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, Identity, Beside], File] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, source: str, identity: Identity, beside: Beside, remote: dict[str, Any]) -> File:
        key = source, identity, beside
        with self._lock:
            file = self._files.pop(key, None)
            if file is None:
                # Under the lock: all tasks of a graph start at once, and one of them shall open the file for all.
                file = self._open(source, identity, remote)
            self._files[key] = file
            if len(self._files) > KEPT_OPEN:
                self._files.popitem(last=False)
            return file

    @staticmethod
    def _open(source: str, identity: Identity, remote: dict[str, Any]) -> File:
        if not is_remote(source):
            return File.open(source)
        file, now = open_identified(source, **remote)
        if now != identity:
            raise SourceChangedError(source)
        return file


_opened = _Opened()


def _after_fork() -> None:
    # Another thread may have held the lock, and connections must not be shared with the parent.
    global _opened
    _opened = _Opened()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
