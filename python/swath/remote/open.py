"""Opens and writes remote files: http(s) URLs and fsspec URLs."""

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
    """The type of the marker for a limit that the caller did not pass."""

    LIMIT = "SWATH_MAX_CLOUD_BYTES, or 256 MiB"


DEFAULT_LIMIT: Final = Default.LIMIT

Identity = tuple[str | int | None, ...]
"""Values that change with the content of a remote file: its size, and the validators that its server reports."""

_identities: WeakKeyDictionary[File, Identity] = WeakKeyDictionary()


def is_http(url: str) -> bool:
    """Whether a URL is http or https, even if pathlib removed one of its slashes."""
    return url.lower().startswith(("http:/", "https:/"))


def cloud_limit(given: int | None | Default) -> int | None:
    """Returns the size limit of an object that is read at once; None for no limit."""
    return number("MAX_CLOUD_BYTES", MAX_CLOUD_BYTES) if isinstance(given, Default) else given


def open_store(
    url: str,
    *,
    max_cloud_bytes: int | None | Default = DEFAULT_LIMIT,
    storage_options: Mapping[str, Any] | None = None,
) -> Store:
    """Opens a remote file and fetches its first bytes."""
    if is_http(url):
        # Only http(s) URLs need this module, and importing it costs 26 ms (http.client, ssl).
        from .http import HttpFile

        options = dict(storage_options or {})
        headers = options.pop("headers", None)
        if options:
            raise ValueError(f"storage_options: http(s) URLs support only headers, not {', '.join(map(repr, options))}")
        return HttpFile(url, headers, companion=OVERVIEWS)
    return ObjectFile(url, cloud_limit(max_cloud_bytes), storage_options)


def open_remote(
    url: str,
    *,
    max_cloud_bytes: int | None | Default = DEFAULT_LIMIT,
    storage_options: Mapping[str, Any] | None = None,
    limits: dict[str, int] | None = None,
) -> File:
    """Opens a remote TIFF and fetches only its headers.

    `max_cloud_bytes` applies to fsspec URLs; None, for lazy reads and on request of the user, means no limit.
    `storage_options` are those of the filesystem. http(s) URLs accept {"headers": {name: value}}; these headers go to
    that server only, not to targets of redirects.
    """
    store = open_store(url, max_cloud_bytes=max_cloud_bytes, storage_options=storage_options)
    file = File.from_ranges(RemoteFile(store), limits)
    _identities[file] = store.identity
    return file


def open_identified(url: str, file: File | None = None, **how: Any) -> tuple[File, Identity]:
    """Opens a remote TIFF for later tasks, if it is not open, and returns the identity of its content at that time."""
    if file is None or file not in _identities:
        file = open_remote(url, **({"max_cloud_bytes": None} | how))
    return file, _identities[file]


def write_remote(url: str, write: Callable[[BinaryIO], T], storage_options: Mapping[str, Any] | None = None) -> T:
    """Lets `write` write a remote file sequentially.

    The file appears when it is complete; on an error the old file is unchanged.
    """
    if is_http(url):
        raise NotImplementedError(
            f"Writes are not supported over HTTP(S). Got {url!r}. Write to a local path or an fsspec-supported cloud "
            "URL (s3://, gs://, az://, ...) instead."
        )
    return write_object(url, write, storage_options)
