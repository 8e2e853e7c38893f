"""Reads byte ranges of objects that fsspec opens, and writes such objects."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar

from .._settings import words
from ..errors import CloudSizeLimitError, SourceChangedError, UnsafeURLError
from .ranges import HEAD_BYTES

T = TypeVar("T")

SCHEMES = ("abfs", "abfss", "adl", "az", "file", "gcs", "gs", "memory", "oss", "s3", "s3a")
"""The URL schemes that are passed to fsspec: object stores, whose host the URL cannot choose, memory, and files, which
a path without a scheme reaches too.

Other filesystems can reach the network of this machine on behalf of a URL.
"""
_MARKS = (
    "ETag",
    "etag",
    "e_tag",
    "generation",
    "md5Hash",
    "content_md5",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)
"""The names under which filesystems report values that change with the content."""
_STREAMED = {"s3", "s3a", "gs", "gcs"}
"""Filesystems on which an object appears when its upload is complete, and not at all if the upload is aborted."""


def _marks(info: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(info[mark]) for mark in _MARKS if info.get(mark) is not None)


def check_scheme(url: str) -> None:
    """Raises UnsafeURLError if a URL has a scheme that is not allowed, or is a chain of such schemes."""
    allowed = {*SCHEMES, *words("ALLOW_SCHEMES")}
    parts = url.split("::")
    schemes = [part.partition("://")[0].lower() for part in parts]
    refused = [scheme for scheme in schemes if scheme not in allowed]
    if not refused and (len(parts) == 1 or words("ALLOW_SCHEMES")):
        return
    if len(parts) > 1:
        raise UnsafeURLError(
            f"{url!r} is a chained URL, which is not allowed; set SWATH_ALLOW_SCHEMES to all its schemes "
            f"({','.join(schemes)}) if it comes from a trusted source",
            url,
        )
    raise UnsafeURLError(
        f"URL scheme {refused[0]!r} of {url!r} is not allowed; allowed are http, https, {', '.join(sorted(allowed))} "
        f"(set SWATH_ALLOW_SCHEMES={refused[0]} if the URL comes from a trusted source)",
        url,
    )


def filesystem_of(url: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """Returns the filesystem of a URL and the path in it."""
    check_scheme(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"{url!r} is opened by fsspec, which is not installed: pip install 'swath[cloud]'") from error
    filesystem, path = url_to_fs(url, **(storage_options or {}))
    return filesystem, path


class ObjectFile:
    """An object of an fsspec filesystem. The constructor requests its size and its first bytes."""

    def __init__(self, url: str, limit: int | None, storage_options: Mapping[str, Any] | None = None) -> None:
        self.name = url
        self._fs, self._path = filesystem_of(url, storage_options)
        info = self._info(self._path)
        self._open(info, limit)

    @classmethod
    def _of(cls, name: str, fs: Any, path: str, info: Mapping[str, Any]) -> ObjectFile:
        file = cls.__new__(cls)
        file.name, file._fs, file._path = name, fs, path
        file._open(info, None)
        return file

    def _open(self, info: Mapping[str, Any], limit: int | None) -> None:
        if info.get("type") == "directory":
            raise FileNotFoundError(f"{self.name} is a directory, not a file")
        size = info.get("size")
        if size is None and limit is not None:
            raise CloudSizeLimitError(
                f"Cloud source {self.name!r} reports unknown size; refusing to download to avoid an unbounded read. "
                "Pass max_cloud_bytes=None to disable the size check for this source. Raising the byte limit does not "
                "help when the source size is unknown."
            )
        if size is not None and limit is not None and size > limit:
            raise CloudSizeLimitError(
                f"Cloud source {self.name!r} is {size:,} bytes, which exceeds max_cloud_bytes={limit}. Raise "
                "max_cloud_bytes (or set SWATH_MAX_CLOUD_BYTES) if the file is legitimate, pass max_cloud_bytes=None "
                "to disable the check, or use chunks=... for a lazy read."
            )
        self._marks = _marks(info)
        # The end of an object of unknown size is found only by reading it, so it is fetched whole.
        self.head: bytes = self._fs.cat_file(self._path, 0, None if size is None else min(HEAD_BYTES, size))
        self.size: int = len(self.head) if size is None else int(size)
        if len(self.head) != min(self.size, HEAD_BYTES) and size is not None:
            raise OSError(
                f"{self.name}: {len(self.head):,} bytes were received instead of {min(self.size, HEAD_BYTES):,}"
            )

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """Values that change with the content."""
        return (self.size, *self._marks)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Returns the complete bytes from start to stop of each range, with one call to the filesystem."""
        if len(self.head) == self.size:
            return [self.head[start:stop] for start, stop in ranges]
        starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
        found: list[bytes] = self._fs.cat_ranges([self._path] * len(ranges), starts, stops, on_error="raise")
        for (start, stop), data in zip(ranges, found, strict=True):
            if isinstance(data, BaseException):
                raise data
            if len(data) != stop - start:
                raise OSError(f"{self.name}: {len(data):,} bytes were received for the range {start}-{stop - 1}")
        self._check_unchanged()
        return found

    def _check_unchanged(self) -> None:
        """Raises SourceChangedError if the object is another one than at the start.

        fsspec does not return what identifies the object together with its bytes, so this is a request of its own.
        """
        if not self._marks:
            return
        try:
            info = self._fs.info(self._path)
        except FileNotFoundError:
            raise SourceChangedError(self.name, "was removed") from None
        if (info.get("size"), *_marks(info)) != (self.size, *self._marks):
            raise SourceChangedError(self.name)

    def beside(self, suffix: str) -> ObjectFile | None:
        """Returns the object whose name is this one plus a suffix, or None if it cannot be read."""
        path = self._path + suffix
        try:
            info = self._fs.info(path)
            return None if info.get("size") is None else ObjectFile._of(self.name + suffix, self._fs, path, info)
        except Exception:
            # Filesystems raise exceptions of their libraries if the object does not exist and if access is denied.
            return None

    def _info(self, path: str) -> Mapping[str, Any]:
        try:
            info: Mapping[str, Any] = self._fs.info(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.name}: the file does not exist") from error
        return info


def write_object(url: str, write: Callable[[BinaryIO], T], storage_options: Mapping[str, Any] | None = None) -> T:
    """Lets `write` write an object. The object appears when it is complete; until then the old one stays."""
    filesystem, path = filesystem_of(url, storage_options)
    protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
    if protocols & _STREAMED:
        return _write_streamed(filesystem, path, write)
    return _write_aside(filesystem, path, write)


def _write_streamed(filesystem: Any, path: str, write: Callable[[BinaryIO], T]) -> T:
    """Uploads in parts; if the last step does not happen, the store discards them."""
    file = filesystem.open(path, "wb")
    try:
        result = write(file)
        file.close()
    except BaseException:
        with suppress(Exception):
            file.discard()
        # Closing the file completes the object, and it also happens when the file is garbage-collected.
        file.closed = True
        raise
    return result


def _write_aside(filesystem: Any, path: str, write: Callable[[BinaryIO], T]) -> T:
    """Writes to a temporary name and renames it, because these filesystems show files that are still being written."""
    aside = f"{path}.tmp-{os.urandom(16).hex()}"
    try:
        with filesystem.open(aside, "wb") as file:
            result = write(file)
        filesystem.mv(aside, path)
    except BaseException:
        with suppress(Exception):
            filesystem.rm_file(aside)
        raise
    return result
