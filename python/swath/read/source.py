"""Opens a source: a path, a URL, bytes or a file object."""

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
"""The types that `open_geotiff` accepts as a source."""

Identity = tuple[str | int | None, ...]
"""Values that change with the content of a file: device, inode, size and modification time; for a URL, what the
server reports.
"""

Beside = tuple[tuple[str, Identity], ...]
"""Paths and identities of the sidecars that are read with a file."""

KEPT_OPEN = 64
"""The number of files that a worker process keeps open for later tasks."""


def is_file_like(source: object) -> bool:
    """Whether a source is a file object."""
    return hasattr(source, "read") and hasattr(source, "seek") and hasattr(source, "tell")


def is_remote(source: object) -> bool:
    """Whether a source is a URL of a remote file."""
    return isinstance(source, str) and "://" in source and not source.lower().startswith("file://")


def is_content(source: object) -> bool:
    """Whether a source is the content of a file. Other bytes are a path, as in `os`."""
    return isinstance(source, bytearray | memoryview) or isinstance(source, bytes) and source[:2] in (b"II", b"MM")


def local_path(source: object) -> str | None:
    """Returns the absolute path of a local file; None for URLs, content and file objects."""
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
    # A name may contain a percent sign: programs that build URIs by joining strings do not quote it.
    if os.path.exists(path):
        return path
    # Importing this takes 1.4 ms, and only such names need it.
    from urllib.parse import unquote

    return unquote(path)


def open_source(source: Source, limits: dict[str, int] | None = None, **remote: Any) -> File:
    """Opens a TIFF and reads only its headers.

    `remote` holds the arguments for `open_remote` if the source is a URL.
    """
    if is_content(source):
        return File.from_bytes(bytes(source), limits)  # type: ignore[arg-type]
    if isinstance(source, str) and is_remote(source):
        return open_remote(source, limits=limits, **remote)
    path = local_path(source)
    if path is not None:
        return File.open(path, limits)
    if type(source) is io.BytesIO:
        return File.from_bytes(source.getvalue(), limits)
    return File.from_ranges(FileObject(source), limits)  # type: ignore[arg-type]


class FileObject:
    """Adapts a Python file object for the engine. The object has one position, so a lock serializes the reads."""

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
        """Returns the bytes of all (offset, length) spans and restores the position of the file object."""
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
            raise TypeError(f"{self.name} returns {type(data).__name__} instead of bytes: open it in binary mode")
        # A raw file may return fewer bytes than requested although it has more.
        while 0 < len(data) < length and (more := self._file.read(length - len(data))):
            data = bytes(data) + more
        if len(data) != length:
            raise OSError(f"{self.name} ends at byte {offset + len(data)}, before byte {offset + length}")
        return bytes(data)

    def sibling(self, name: str) -> None:
        """Returns None: a file object has no sidecars."""


def identity_of(path: str) -> Identity:
    """Returns values that identify the current content of a local file."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


class Handle:
    """An opened file for tasks that run later, in any thread or process.

    It is pickled as a path and the result of `os.stat`, and each process that uses it opens the file once. Content is
    pickled whole; a file object cannot be pickled.
    """

    __slots__ = ("_file", "_process", "beside", "identity", "name", "remote", "source")

    def __init__(self, source: Source, file: File | None = None, **remote: Any) -> None:
        path = local_path(source)
        self.remote = remote
        self.beside: Beside = ()
        self.source: str | bytes | None
        self._file: File | None
        if path is not None:
            # The identity is taken before the file is opened, so that a replacement in between is detected.
            self.source, self.identity = path, identity_of(path)
            self._file = File.open(path, remote.get("limits")) if file is None else file
        elif isinstance(source, str):
            self.source = source
            self._file, self.identity = open_identified(source, file, **remote)
        else:
            self.source = None if is_file_like(source) else bytes(source)  # type: ignore[arg-type]
            self._file = open_source(source, remote.get("limits")) if file is None else file
            self.identity = (0 if self.source is None else len(self.source),)
        self.name = self.source if isinstance(self.source, str) else str(getattr(source, "name", "bytes"))
        self._process = os.getpid()

    @classmethod
    def opened(cls, path: str, identity: Identity, file: File) -> Handle:
        """Returns the handle of a local file with this absolute path that had this identity before it was opened."""
        handle = _restore(path, identity, (), {})
        handle._file, handle._process = file, os.getpid()
        return handle

    def file(self) -> File:
        """Returns the file and opens it if this process has not done so.

        Raises SourceChangedError if it has changed.
        """
        if isinstance(self.source, str) and not is_remote(self.source):
            for path, identity in ((self.source, self.identity), *self.beside):
                _check_unchanged(path, identity)
        if self._file is not None and self._process == os.getpid():
            return self._file
        if self.source is None:
            raise TypeError(f"{self.name} is a file object of another process: open it by path to read it here")
        if isinstance(self.source, bytes):
            return File.from_bytes(self.source, self.remote.get("limits"))
        return _opened.get(self.source, self.identity, self.beside, self.remote)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is None:
            raise TypeError(f"{self.name} is a file object, which cannot be sent to another process: open it by path")
        return _restore, (self.source, self.identity, self.beside, self.remote)

    def with_sidecar(self, suffix: str) -> Handle:
        """Returns a handle that also counts as changed if the sidecar, if any, has changed."""
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
    """Files that this process has opened for handles from other processes, least recently used first."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Any, ...], File] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, source: str, identity: Identity, beside: Beside, remote: dict[str, Any]) -> File:
        key = source, identity, beside, tuple(sorted(remote.get("limits", {}).items()))
        with self._lock:
            file = self._files.pop(key, None)
            if file is None:
                # Under the lock: all tasks of a graph start at once, and one of them must open the file for all.
                file = self._open(source, identity, remote)
            self._files[key] = file
            if len(self._files) > KEPT_OPEN:
                self._files.popitem(last=False)
            return file

    @staticmethod
    def _open(source: str, identity: Identity, remote: dict[str, Any]) -> File:
        if not is_remote(source):
            return File.open(source, remote.get("limits"))
        file, now = open_identified(source, **remote)
        if now != identity:
            raise SourceChangedError(source)
        return file


_opened = _Opened()


def _after_fork() -> None:
    # Another thread may have held the lock at the time of the fork, and connections must not be shared with the parent.
    global _opened
    _opened = _Opened()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
