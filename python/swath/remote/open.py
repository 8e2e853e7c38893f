"""Files that are elsewhere: http(s) URLs and whatever fsspec has a name for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, BinaryIO, Final, TypeVar
from weakref import WeakKeyDictionary

from .._settings import number
from .._swath import File
from .fsspec import ObjectFile, write_object
from .ranges import OVERVIEWS, RemoteFile, Store

T = TypeVar("T")

MAX_CLOUD_BYTES = 256 << 20


class Default(Enum):
    """What stands for a limit that nobody gave."""

    LIMIT = "SWATH_MAX_CLOUD_BYTES, or 256 MiB"


DEFAULT_LIMIT: Final = Default.LIMIT

Identity = tuple[str | int | None, ...]
"""What changes when the content of a remote file does: its size, and the marks that its server puts on it."""

_identities: WeakKeyDictionary[File, Identity] = WeakKeyDictionary()


def is_http(url: str) -> bool:
    """Whether a URL is one of http or https, or was one before pathlib took a slash away."""
    return url.lower().startswith(("http:/", "https:/"))


def cloud_limit(given: int | None | Default) -> int | None:
    """How large an object may be that is read at once; None for any size."""
    return number("MAX_CLOUD_BYTES", MAX_CLOUD_BYTES) if isinstance(given, Default) else given


def open_store(
    url: str,
    *,
    max_cloud_bytes: int | None | Default = DEFAULT_LIMIT,
    storage_options: Mapping[str, Any] | None = None,
) -> Store:
    """Find a remote file and fetch its head."""
    if is_http(url):
        # Only http(s) URLs need it, and it imports http.client and ssl: 26 ms.
        from .http import HttpFile

        options = dict(storage_options or {})
        headers = options.pop("headers", None)
        if options:
            raise ValueError(f"storage_options: http knows only headers, not {', '.join(map(repr, options))}")
        return HttpFile(url, headers, companion=OVERVIEWS)
    return ObjectFile(url, cloud_limit(max_cloud_bytes), storage_options)


def open_remote(
    url: str,
    *,
    max_cloud_bytes: int | None | Default = DEFAULT_LIMIT,
    storage_options: Mapping[str, Any] | None = None,
) -> File:
    """Open a remote TIFF: only its headers are fetched.

    `max_cloud_bytes` is for fsspec URLs; None is for lazy reads and for users who know what is there.
    `storage_options` are those of the filesystem; http(s) URLs take {"headers": {name: value}}, which go to that server
    and to no other that it redirects to.
    """
    store = open_store(url, max_cloud_bytes=max_cloud_bytes, storage_options=storage_options)
    file = File.from_ranges(RemoteFile(store))
    _identities[file] = store.identity
    return file


def open_identified(url: str, file: File | None = None, **how: Any) -> tuple[File, Identity]:
    """Open a remote TIFF for tasks to come, if it is not open, and tell what its content was known by then."""
    if file is None or file not in _identities:
        file = open_remote(url, **({"max_cloud_bytes": None} | how))
    return file, _identities[file]


def write_remote(url: str, write: Callable[[BinaryIO], T], storage_options: Mapping[str, Any] | None = None) -> T:
    """Let `write` write a remote file from its begin to its end.

    It is there when all of it is; on an error, what was there before is still there.
    """
    if is_http(url):
        raise NotImplementedError(
            f"Writes are not supported over HTTP(S). Got {url!r}. Write to a local path or an fsspec-supported cloud "
            "URL (s3://, gs://, az://, ...) instead."
        )
    return write_object(url, write, storage_options)
