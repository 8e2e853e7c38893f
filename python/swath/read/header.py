"""Opens files and caches their headers for the next read of the same file."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import OrderedDict
from functools import lru_cache
from itertools import islice
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

import numpy as np

from .._warn import warn
from ..remote.open import DEFAULT_LIMIT
from ..remote.ranges import OVERVIEWS
from .attrs import file_attrs
from .georef import Georef, georef_of
from .request import check_level_type, level_of
from .sidecars import class_attrs
from .source import Handle, is_remote, open_source

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._swath import File
    from .georef import Affine
    from .nodata import Number

KEPT = 32
"""The number of headers that a process caches."""
FRESH_NS = 50_000_000
"""The clock of file times ticks every few milliseconds: a younger file may change again without a new time."""
COARSE_FRESH_NS = 2_000_000_000
"""The same for file systems whose times have a resolution of seconds."""
LONG_AXES = 1 << 18
"""Coordinates of images with more rows and columns than this are not cached."""
BESIDE = (".aux.xml", ".ovr", ".msk")
"""Suffixes of sidecars that are appended to the whole name; world files and tables replace the suffix."""
IN_PLACE_OF_SUFFIX = (".wld", ".tab", ".tfw", ".tifw", ".TFW", ".WLD", ".TAB")
SIDECAR_SUFFIXES = tuple({suffix.lower() for suffix in BESIDE + IN_PLACE_OF_SUFFIX})
LISTED_FROM = 8
"""The number of files of an unchanged folder that are opened before the folder is listed."""
LONGEST_LISTING = 20_000
"""Folders with more entries than this are not listed."""

Identity = tuple[int, ...]

_MISSING: Identity = (-1, -1, -1, -1)
"""The identity of a file that does not exist."""


class Header:
    """An opened file and its metadata. It is shared: callers must not change it."""

    def __init__(self, file: File, handle: Handle | None = None) -> None:
        self.file = file
        self.handle = handle
        self.description = description = file.describe()
        self.shape = description["height"], description["width"]
        self.bands = description["bands"]
        self.levels = description["levels"]
        self.dtype = np.dtype(description["dtype"])
        self.nodata: Number | None = description["nodata_stated"]
        self.has_mask = description["mask"] == "mask"
        self.attrs = file_attrs(description)
        self.attrs.update(class_attrs(description["category_names"], description["category_colors"]))
        self.unreadable = file.unreadable_sidecars()
        """Overview and mask files that exist but cannot be read, with the reasons."""
        self._georefs: dict[tuple[bool, int], Georef] = {}

    def level_of(self, overview_level: Any) -> int:
        """Returns the level to read.

        Warns about a broken chain of directories and about each sidecar that cannot be read. Raises ValueError for a
        level that only the unreadable `.ovr` could have.
        """
        check_level_type(overview_level)
        is_beyond = overview_level is not None and overview_level >= len(self.levels)
        self.warn_of_chain()
        for name, cause in self.unreadable:
            why = f"{type(cause).__name__}: {str(cause).removeprefix(f'{name}: ')}"
            if is_beyond and name.endswith(OVERVIEWS):
                raise ValueError(
                    f"Cannot read overview_level={overview_level} from external sidecar {name!r}, which cannot be "
                    f"parsed: {why}"
                ) from cause
            warn(
                f"Ignoring unreadable sidecar {name!r}: {why}. The file is read without it: repair or delete it.",
                RuntimeWarning,
            )
        return level_of(overview_level, len(self.levels))

    def warn_of_chain(self) -> None:
        """Warns if the chain of directories is broken, because overviews or pages may be missing."""
        broken = self.description["broken_chain"]
        if broken is not None:
            warn(broken, RuntimeWarning)

    def georef(self, level: int, allow_unparseable_crs: object) -> Georef:
        """Returns the georeferencing of a level."""
        key = bool(allow_unparseable_crs), level
        place = self._georefs.get(key)
        if place is None:
            whole = georef_of(self.description, allow_unparseable_crs=allow_unparseable_crs)
            height, width = self.levels[level][:2]
            place = whole.coarser(self.shape[0] / height, self.shape[1] / width)
            self._georefs[key] = place
        return place

    def axes(self, level: int, place: Georef) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Returns y and x of a whole level, from which windows take their parts; None if that costs too much for a
        small window. The arrays are read-only and shared.
        """
        height, width = self.levels[level][:2]
        return None if height + width > LONG_AXES else _axes(place.transform, place.point, height, width)


@lru_cache(maxsize=KEPT)
def _axes(transform: Affine | None, point: bool, height: int, width: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Files of a series have the same coordinates."""
    y, x = Georef(transform=transform, point=point).coords((0, 0, height, width))
    y.flags.writeable = x.flags.writeable = False
    return y, x


class _Kept:
    """Cached headers of local files, least recently used first."""

    def __init__(self) -> None:
        self._headers: OrderedDict[str, tuple[Identity, tuple[str, ...], Header]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Header:
        with self._lock:
            kept = self._headers.pop(path, None)
            if kept is not None and kept[0] == _identity(path, kept[1]):
                self._headers[path] = kept
                return kept[2]
        folder, listed = _folders.look(_folder(path))
        beside = _beside(path, listed)
        stat = os.stat(path)
        identity = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, *folder)
        for name in beside:
            identity += _stat_or_missing(name)
        if S_ISDIR(stat.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        file = open_source(path)
        header = Header(file, Handle.opened(os.path.abspath(path), identity[:4], file))
        if _settled(identity):
            with self._lock:
                self._headers[path] = identity, beside, header
                if len(self._headers) > KEPT:
                    self._headers.popitem(last=False)
        return header


def _identity(path: str, beside: tuple[str, ...]) -> Identity:
    """Returns values that change when the file or a sidecar changes: the folder changes when files appear or
    disappear.
    """
    identity = _stat(path)
    for name in (_folder(path), *beside):
        identity += _stat_or_missing(name)
    return identity


def _stat_or_missing(path: str) -> Identity:
    try:
        return _stat(path)
    except OSError:
        return _MISSING


def _stat(path: str) -> Identity:
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _folder(path: str) -> str:
    return os.path.dirname(path) or "."


def _settled(identity: Identity) -> bool:
    """Whether a later change of any of the files would show in its modification time."""
    now = time.time_ns()
    for changed in identity[3::4]:
        if now - changed <= (COARSE_FRESH_NS if changed % 1_000_000_000 == 0 else FRESH_NS):
            return False
    return True


class _Folders:
    """Lists the sidecars of folders from which many files are opened, instead of ten `stat` calls for each file. With
    `_index` in `dataarray.py`, this opens 1.3 times as many small files per second.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Identity, int, frozenset[str] | None]] = OrderedDict()
        """The identity of a folder, the number of files opened since, and its sidecars in lower case."""
        self._lock = threading.Lock()

    def look(self, folder: str) -> tuple[Identity, frozenset[str] | None]:
        """Returns the identity of a folder, and the names of all its sidecars in lower case or None if they are not
        known.
        """
        identity = _stat_or_missing(folder)
        if identity == _MISSING:
            return identity, None
        with self._lock:
            known, opened, names = self._known.pop(folder, (identity, 0, None))
            if known != identity:
                opened, names = 0, None
            if names is None and opened >= LISTED_FROM and _settled(identity):
                # A folder that is too large is tried again after as many files.
                opened, names = 0, _listed(folder)
            self._known[folder] = identity, opened + 1, names
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return identity, names


def _listed(folder: str) -> frozenset[str] | None:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name.lower() for entry in islice(entries, LONGEST_LISTING + 1)]
    except OSError:
        return None
    if len(names) > LONGEST_LISTING:
        return None
    return frozenset(name for name in names if name.endswith(SIDECAR_SUFFIXES))


def _beside(path: str, listed: frozenset[str] | None) -> tuple[str, ...]:
    """Returns the sidecars of a file that exist; `listed` has those of its folder, or is None."""
    if listed is not None and not listed:
        return ()
    stem = os.path.splitext(path)[0]
    names = [path + suffix for suffix in BESIDE] + [stem + suffix for suffix in IN_PLACE_OF_SUFFIX]
    if listed is not None:
        # On some file systems a name exists in any case.
        names = [name for name in names if os.path.basename(name).lower() in listed]
    return tuple(name for name in names if os.path.exists(name))


_kept = _Kept()
_folders = _Folders()


def _after_fork() -> None:
    # Another thread may have held the locks at the time of the fork.
    global _kept, _folders
    _kept, _folders = _Kept(), _Folders()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def forget() -> None:
    """Drops all cached headers."""
    global _kept
    _kept = _Kept()


def header_of(source: Any, limits: dict[str, int] | None = None, **remote: Any) -> Header:
    """Opens a source or returns its cached header. Headers that are read with limits of their own are not cached."""
    if limits is not None:
        if is_remote(source):
            remote = {"max_cloud_bytes": DEFAULT_LIMIT, **remote}
        handle = Handle(source, limits=limits, **remote)
        return Header(handle.file(), handle)
    if isinstance(source, str) and "://" not in source:
        return _kept.get(source)
    if is_remote(source):
        # Through the handle: opening the file again for later tasks would read its headers again.
        handle = Handle(source, **{"max_cloud_bytes": DEFAULT_LIMIT, **remote})
        return Header(handle.file(), handle)
    return Header(open_source(source))
