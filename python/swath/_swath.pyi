"""The engine. Everything here is Rust; the modules beside it say what users see."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypedDict, final

import numpy as np
import numpy.typing as npt

class Ranges(Protocol):
    """A place to read from that Python knows: a file object, a URL."""

    name: str
    size: int
    def fetch(self, spans: list[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of all (offset, length) spans, each in full. Called from any thread, one call at a time for each
        batch."""
    def sibling(self, name: str) -> Ranges | None:
        """The file of that name (a path or URL beside this one), or None when there is none."""

class BandInfo(TypedDict):
    description: str | None
    units: str | None
    scale: float | None
    offset: float | None
    color: str
    categories: list[str]

class Description(TypedDict):
    """All that is known of a file but its pixels. Transforms are (a, b, c, d, e, f) as rasterio's Affine has them."""

    name: str
    file_bytes: int
    big_tiff: bool
    byte_order: Literal["little", "big"]
    images: int
    width: int
    height: int
    bands: int
    dtype: str
    bits: int
    sample_format: int
    compression: str
    compression_code: int
    predictor: int
    planar: Literal["chunky", "separate"]
    photometric: int
    orientation: int
    extra_samples: list[int]
    tiled: bool
    block: tuple[int, int]
    """Rows and columns of a block."""
    levels: list[tuple[int, int, int, int]]
    """(height, width, rows of a block, columns of a block) of each level; 0 is the full resolution."""
    transform: tuple[float, float, float, float, float, float] | None
    """From pixel corners to coordinates, as GDAL has it: PixelIsPoint moved by half a pixel."""
    raw_transform: tuple[float, float, float, float, float, float] | None
    """What the tags say, without that shift; None when a sidecar places the image."""
    transform_source: Literal["tags", "pam", "world", "tab"] | None
    raster_type: Literal["area", "point"]
    gcps: list[tuple[float, float, float, float, float]]
    """(pixel, line, x, y, z)"""
    epsg: int | None
    horizontal_epsg: int | None
    """Without the heights of a compound; None too where other keys change what the code says."""
    wkt: str | None
    """WKT 1 as GDAL writes it."""
    crs_from_pam: bool
    """Whether `epsg` and `wkt` are the sidecar's, whatever the GeoKeys say."""
    geo_keys: dict[int, int | str | tuple[float, ...]]
    nodata: int | float | None
    """In the type of the samples: rounded to float32, exact for 64-bit integers."""
    nodata_stated: int | float | None
    """The number as the file states it, for no particular type: an int where the text has digits only. None where the
    text has more than a number."""
    nodata_text: str | None
    """The text of the GDAL_NODATA tag. None also where a sidecar states another value."""
    colormap: tuple[int, ...] | None
    """The ColorMap tag as it stands: all reds, all greens, all blues."""
    metadata: list[tuple[str, str, int | None, str | None, str | None]]
    """(name, value, band from 0, domain, role) of GDAL_METADATA and of the .aux.xml file."""
    metadata_xml: str | None
    """The text of the GDAL_METADATA tag, if it can be parsed."""
    gdal_metadata_xml: str | None
    """The text of the GDAL_METADATA tag, parseable or not. It has items for the scale, offset and unit of a band also
    where a sidecar or the height system states them."""
    gdal_metadata: dict[str | tuple[str, int], str] | None
    """The items of `gdal_metadata_xml` by name, or by name and band (from 0). None where it cannot be parsed."""
    category_names: list[str] | None
    """The names of the classes 0, 1, 2 ... in the .aux.xml file: those of its attribute table, or else of its list."""
    category_colors: list[tuple[int, int, int, int]] | None
    """Red, green, blue and alpha of each class, where the attribute table has all four."""
    texts: dict[int, str]
    """ImageDescription (270), Software (305) ... by tag."""
    resolution: tuple[float, float, int] | None
    """x, y and the ResolutionUnit tag"""
    band_info: list[BandInfo]
    tags: list[tuple[int, int, int, Any]]
    """(id, type, count, value) of every tag of the full resolution but those that locate blocks. One value is a
    scalar, more are a tuple; ASCII is str, BYTE and UNDEFINED are bytes; a RATIONAL is (numerator, denominator)."""
    mask: str
    warnings: list[str]

@final
class File:
    """An opened TIFF. Opening reads headers only; all threads may read at once."""

    @staticmethod
    def open(path: str) -> File: ...
    @staticmethod
    def from_bytes(data: bytes) -> File: ...
    @staticmethod
    def from_ranges(ranges: Ranges) -> File: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def bands(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def levels(self) -> list[tuple[int, int, int, int]]: ...
    def unreadable_sidecars(self) -> list[tuple[str, Exception]]:
        """Overview and mask files beside the file that exist but cannot be read: the name of each, and why."""
    def describe(self) -> Description: ...
    def read_into(
        self,
        out: npt.NDArray[Any],
        *,
        window: tuple[int, int, int, int] | None = None,
        bands: Sequence[int] | None = None,
        level: int = 0,
        bands_last: bool = True,
        threads: int | None = None,
        max_pixels: int | None = None,
        device: str | None = None,
        strict: bool = False,
    ) -> Report:
        """Decode into `out`: C-contiguous, of the file's type, (y, x), (y, x, band) or with bands_last=False (band,
        y, x). The window is (row start, column start, row stop, column stop). With a device the decoding happens
        there."""
    def read_mask_into(
        self, out: npt.NDArray[np.uint8], *, window: tuple[int, int, int, int] | None = None, level: int = 0
    ) -> bool:
        """Which pixels are valid, 255 or 0, by a mask in the file or beside it (.msk). False when there is none."""
    def read_to_device(
        self,
        *,
        window: tuple[int, int, int, int] | None = None,
        bands: Sequence[int] | None = None,
        level: int = 0,
        bands_last: bool = True,
        max_pixels: int | None = None,
        device: str = "cuda",
        strict: bool = False,
    ) -> tuple[DeviceArray, Report]: ...

Report = dict[str, Any]
"""What a read or a write did: device, codec, threads, blocks, bytes, seconds per stage, fallbacks ([{stage, reason,
blocks}])."""

@final
class DeviceArray:
    """Pixels on a device. CuPy and PyTorch take it without a copy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one band (y, x), of more (y, x, band) or (band, y, x)."""
    @property
    def ndim(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> str:
        """As `device=` takes it: cuda:0, opencl:0."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def to_host(self) -> npt.NDArray[Any]: ...
    def __array__(self, *args: object, **kwargs: object) -> NoReturn: ...
    def __len__(self) -> int: ...

class Codec(TypedDict):
    """One row of the engine's table of codecs."""

    name: str
    label: str  # as the authors of the codec write it: "JPEG 2000"
    aliases: list[str]
    tags: list[int]  # values of the Compression tag; Swath writes the first one
    read: bool
    write: bool
    levels: tuple[int, int] | None  # lowest and highest; None: the codec has no levels
    default_level: int | None
    qualities: tuple[float, float] | None
    lowest_quality_excluded: bool
    default_quality: float | None  # None: lossless
    max_z_error: bool
    predictors: list[int]  # values of the Predictor tag
    feature: str | None  # the Cargo feature that includes the codec

class Options(TypedDict, total=False):
    """The layout and the metadata of a new file, with the defaults. Another key is a TypeError."""

    cog: bool  # False
    tile: int  # 256; 0 for strips
    strip_rows: int  # 256
    planar: Literal["chunky", "separate"]  # chunky
    compression: str  # zstd
    level: int | None
    quality: float | None
    max_z_error: float  # 0
    predictor: int  # 1; 0 chooses by the type
    overviews: Literal["auto"] | list[int] | None  # None
    resampling: str | None
    big_tiff: bool | None  # None: as needed
    statistics: bool  # False; into the file and the report
    measure: bool  # False; into the report only
    skip_empty: bool  # False
    nan_to_nodata: bool  # False
    nodata: int | float | None
    photometric: int | None
    extra_samples: list[int] | None
    transform: tuple[float, float, float, float, float, float] | None
    """(a, b, c, d, e, f) as the tags are to say it: no half pixel is taken off or added."""
    raster_type: Literal["area", "point"]  # area
    gcps: list[tuple[float, float, float, float, float]]
    epsg: int | None
    wkt: str | None
    geo_keys: dict[int, int | str | tuple[float, ...]] | None
    """Written as they are, where given; epsg and wkt are not looked at then."""
    colormap: tuple[int, ...] | None
    metadata: list[tuple[str, str, int | None, str | None, str | None]]
    metadata_xml: str | None
    """Written as it is where it says just what metadata and band_info say."""
    band_info: list[BandInfo]
    texts: dict[int, str]
    resolution: tuple[float, float, int] | None
    extra_tags: list[tuple[int, int, int, Any]]
    """As `Description.tags` has them."""

Producer = Callable[[int, int], npt.NDArray[Any] | tuple[Any, npt.NDArray[np.uint8]]]
"""Rows from start to stop as a C-contiguous (row, column, band) array; with mask=True a pair of that array and of the
rows of the mask, a C-contiguous uint8 (row, column) array. Called in the thread that called write(), once for each
row."""

def write(
    target: str | Any,
    source: npt.NDArray[Any] | Producer | DeviceArray | Any,
    *,
    shape: tuple[int, int, int],
    dtype: str,
    bands_last: bool = True,
    options: Options,
    chunk_rows: Sequence[int] | None = None,
    threads: int | None = None,
    buffer_bytes: int | None = None,
    overwrite: bool = True,
    device: str | None = None,
    strict: bool = False,
    gpu_memory: int | None = None,
    rows_on_device: bool = False,
    mask: npt.NDArray[np.uint8] | bool | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Report:
    """Write a file, complete or not at all. `shape` is (bands, height, width); an array is C-contiguous and in
    native byte order. `target` is a path or an object with write(bytes). `chunk_rows` are the row counts of the
    producer's chunks: it is always asked for whole ones, once each. A device source is a DeviceArray, or has
    __cuda_array_interface__ or __dlpack__ and lies on a CUDA device without gaps; it is cut there. So are the rows
    of a producer that makes them on one, which `rows_on_device` says. `mask` writes an internal mask, with one for each
    overview: a C-contiguous uint8 (height, width) array on the host for an array or a device source, or True for a
    producer that returns (pixels, mask); 0 is missing, any other value valid. Overviews and statistics leave missing
    pixels out. A file with a mask is made by the CPU: with a device the report says so among its fallbacks, and with
    `strict` it is an error. `progress` gets rows done and in all; what it raises stops the write."""

def read_windows(
    jobs: Sequence[tuple[File, tuple[int, int, int, int], int]],
    out: npt.NDArray[Any],
    *,
    level: int = 0,
    threads: int | None = None,
) -> Report:
    """Decode one band of one window of a file for each job into `out`, (job, y, x), in parallel."""

def unpack(
    source: npt.NDArray[Any],
    out: npt.NDArray[Any],
    *,
    sentinel: int | float | None = None,
    scale: float = 1.0,
    offset: float = 0.0,
) -> bool:
    """`out` (float32 or float64, same shape) = source * scale + offset, NaN where the source has the sentinel. Tells
    whether it was seen. `out` may be `source`."""

def contains(source: npt.NDArray[Any], value: int | float) -> bool:
    """Whether a value (NaN too) is in an array."""

Item = tuple[str, str, int | None, str | None, str | None]
"""An item of GDAL_METADATA: name, value, band from 0, domain, role."""

def metadata_items(xml: str) -> list[Item]:
    """The items of a GDAL_METADATA text. An item whose value is not a finite number has no role scale or offset.

    ValueError when the text cannot be parsed."""

def items_by_name(entries: Sequence[tuple[str, str, int | None]]) -> list[Item]:
    """Items of the default domain from (name, value, band). Those of bands have the roles that their names say: SCALE,
    OFFSET, UNITTYPE, DESCRIPTION, COLORINTERP."""

def bands_of_items(items: Sequence[Item], bands: int) -> list[BandInfo]:
    """What items say of bands by their roles. A dict lacks the keys that no item has."""

def nodata_number(text: str) -> int | float | None:
    """The number that a nodata text is, as it is written: an int where it has digits only. None for other texts."""

def match_nodata(
    nodata: int | float, dtype: str
) -> tuple[Literal["value", "out of range", "fractional", "non-finite"], int | float | None]:
    """Whether samples of a type can have a nodata value ("value"), and the sample that is nodata; otherwise why not."""

def nodata_in_range(nodata: int | float, dtype: str) -> bool:
    """Whether a nodata value lies between the least and the greatest number of a type."""

def read_classes(path: str) -> tuple[list[str], list[tuple[int, int, int, int]] | None] | None:
    """The names and colours of classes in the .aux.xml file of an image; None where there are none."""

def write_classes(path: str, names: Sequence[str], colors: Sequence[tuple[int, int, int, int]] | None = None) -> None:
    """Write the classes of band 1 into the .aux.xml file of an image, complete or not at all. The rest of the file
    stays."""

def write_statistics(path: str, items: Sequence[tuple[str, str]]) -> None:
    """Write statistics of band 1, (name, text), into the .aux.xml file of an image, complete or not at all. They
    replace the statistics that the file has; the rest of it stays."""

def wkt_of_epsg(code: int) -> str | None: ...
def epsg_of_wkt(text: str) -> int | None: ...
def crs_kind(code: int) -> str | None:
    """geographic, projected, geocentric, vertical, compound; None for an unknown code."""

def geo_keys_of_crs(text: str) -> dict[int, int | str | tuple[float, ...]]:
    """The GeoKeys of WKT, "EPSG:..." and the like; UnparseableCRSError where there are none."""

def devices() -> list[dict[str, Any]]:
    """What `swath devices` prints: name, api, memory, why a device cannot be used."""

def trim_devices() -> bool:
    """Give back the device memory that is kept for operations to come; whether there was any."""

def codecs() -> list[Codec]:
    """The engine's table of codecs: all that it can read, those that it can also write first."""

def features() -> dict[str, dict[str, bool]]:
    """{codec name: {read, write}} from the engine's own table."""

def resampling_methods() -> list[str]:
    """The names of the resampling methods for overviews, aliases included."""

def search_libraries_in(folder: str) -> None:
    """Search NVIDIA's libraries in this folder (site-packages) too."""

def default_threads() -> int: ...

MAX_CLASSES: int
"""Images with more classes than this are read without them."""

__version__: str
