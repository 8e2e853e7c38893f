"""The engine, written in Rust. The Python modules of the package build the public interface on it."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypedDict, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

class Ranges(Protocol):
    """A source that Python reads for the engine: a file object or a URL."""

    name: str
    size: int
    def fetch(self, spans: list[tuple[int, int]]) -> Sequence[bytes]:
        """Returns the complete bytes of all (offset, length) spans.

        The engine calls it from any thread, once at a time per batch.
        """
    def sibling(self, name: str) -> Ranges | None:
        """Returns the file of that name (a path or URL in the same folder), or None if there is none."""

class BandInfo(TypedDict):
    description: str | None
    units: str | None
    scale: float | None
    offset: float | None
    color: str
    categories: list[str]

class Description(TypedDict):
    """The metadata of a file. Transforms are (a, b, c, d, e, f) as in rasterio's Affine."""

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
    """From pixel corners to coordinates, as in GDAL: PixelIsPoint is shifted by half a pixel."""
    raw_transform: tuple[float, float, float, float, float, float] | None
    """The transform of the tags, without that shift; None if the georeferencing comes from a sidecar."""
    transform_source: Literal["tags", "pam", "world", "tab"] | None
    raster_type: Literal["area", "point"]
    gcps: list[tuple[float, float, float, float, float]]
    """(pixel, line, x, y, z)"""
    epsg: int | None
    horizontal_epsg: int | None
    """The code of the horizontal part of a compound CRS. None also if other keys modify the CRS of the code."""
    wkt: str | None
    """WKT 1 as GDAL writes it."""
    crs_from_pam: bool
    """Whether `epsg` and `wkt` come from the sidecar, which takes precedence over the GeoKeys."""
    geo_keys: dict[int, int | str | tuple[float, ...]]
    nodata: int | float | None
    """In the type of the samples: rounded to float32, exact for 64-bit integers."""
    nodata_stated: int | float | None
    """The number in the file, independent of the sample type: an int if the text has digits only.

    None if the text is not just a number.
    """
    nodata_text: str | None
    """The text of the GDAL_NODATA tag. None also if a sidecar states another value."""
    colormap: tuple[int, ...] | None
    """The unchanged ColorMap tag: all reds, all greens, all blues."""
    metadata: list[tuple[str, str, int | None, str | None, str | None]]
    """(name, value, band from 0, domain, role) of the items in GDAL_METADATA and in the .aux.xml file."""
    metadata_xml: str | None
    """The text of the GDAL_METADATA tag, if it can be parsed."""
    gdal_metadata_xml: str | None
    """The text of the GDAL_METADATA tag, parseable or not.

    It contains the items for scale, offset and unit of a band even if a sidecar or the vertical CRS states them.
    """
    gdal_metadata: dict[str | tuple[str, int], str] | None
    """The items of `gdal_metadata_xml` by name, or by name and band (from 0). None if it cannot be parsed."""
    category_names: list[str] | None
    """The names of the classes 0, 1, 2, ... in the .aux.xml file: from its attribute table, else from its list."""
    category_colors: list[tuple[int, int, int, int]] | None
    """Red, green, blue and alpha of each class, if the attribute table has all four."""
    texts: dict[int, str]
    """ImageDescription (270), Software (305) and other texts by tag number."""
    resolution: tuple[float, float, int] | None
    """x, y and the ResolutionUnit tag."""
    band_info: list[BandInfo]
    tags: list[tuple[int, int, int, Any]]
    """(id, type, count, value) of every tag of the full resolution except those that locate blocks.

    One value is a scalar, several are a tuple; ASCII is str, BYTE and UNDEFINED are bytes; a RATIONAL is (numerator,
    denominator).
    """
    mask: str
    warnings: list[str]
    broken_chain: str | None
    """Why the chain of directories is incomplete, with the name of the file."""

UnpackRule = tuple[int | float | None, bool, Sequence[tuple[float, float]], str]
"""How a device converts samples: the nodata value, whether it becomes NaN, scale and offset of each band (one pair for
all bands, none for no scaling), and the type of the result.
"""

class ReadKeywords(TypedDict, total=False):
    """What to read and how; the comments state the defaults. An unknown keyword raises TypeError."""

    window: tuple[int, int, int, int] | None  # None: all; row start, column start, row stop, column stop
    bands: Sequence[int] | None  # None: all; counted from 0
    level: int  # 0: the full resolution
    bands_last: bool  # True
    threads: int | None  # None: by the amount of work
    max_pixels: int | None  # None: the limit of the environment
    device: str | None  # None: the CPU
    strict: bool  # False
    decoder: str | None  # None: SWATH_DECODER, or else "auto"
    storage: str | None  # None: SWATH_STORAGE, or else "auto"
    gpu_memory: int | None  # None: SWATH_GPU_MEMORY, or else a quarter of the free memory; in millions of bytes

class DeviceReadKeywords(ReadKeywords, total=False):
    """`ReadKeywords`, and what only a device does."""

    out: Any  # None: a new array; else the array on a device that receives the pixels. Not with unpack
    stream: Any  # None: no stream; else the CUDA stream of the caller
    unpack: UnpackRule | None  # None: the samples of the file

@final
class File:
    """An opened TIFF. Opening reads only headers. All threads may read at the same time."""

    @staticmethod
    def open(path: str, limits: dict[str, int] | None = None) -> File: ...
    @staticmethod
    def from_bytes(data: bytes, limits: dict[str, int] | None = None) -> File: ...
    @staticmethod
    def from_ranges(ranges: Ranges, limits: dict[str, int] | None = None) -> File: ...
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
        """Returns the overview and mask files that exist but cannot be read, each with the reason."""
    def describe(self) -> Description: ...
    def read_into(self, out: npt.NDArray[Any], **keywords: Unpack[ReadKeywords]) -> Report:
        """Decodes into `out`, on the device if one is given.

        `out` is C-contiguous, of the file's type, and (y, x), (y, x, band) or, with bands_last=False, (band, y, x).
        """
    def read_mask_into(
        self, out: npt.NDArray[np.uint8], *, window: tuple[int, int, int, int] | None = None, level: int = 0
    ) -> bool:
        """Stores 255 for valid and 0 for invalid pixels, from the mask in the file or its .msk file.

        Returns False if there is no mask.
        """
    def read_to_device(self, **keywords: Unpack[DeviceReadKeywords]) -> tuple[Any, Report]:
        """Decodes to the memory of a device, "cuda" if none is given. Returns a DeviceArray, or `out`.

        With a nodata value in `unpack`, "nodata_found" of the report says whether it occurs.
        """

Report = dict[str, Any]
"""The report of a read or a write: device, codec, threads, blocks, bytes, seconds per stage, fallbacks ([{stage,
reason, blocks}]).
"""

@final
class DeviceArray:
    """Pixels on a device. CuPy and PyTorch use it without a copy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(y, x) for one band, (y, x, band) or (band, y, x) for several."""
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
        """The name of the device as in `device=`: cuda:0, opencl:0."""
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
    """The layout and the metadata of a new file; the comments state the defaults. An unknown key raises TypeError."""

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
    """(a, b, c, d, e, f) for the tags, without any shift by half a pixel."""
    raster_type: Literal["area", "point"]  # area
    gcps: list[tuple[float, float, float, float, float]]
    epsg: int | None
    wkt: str | None
    geo_keys: dict[int, int | str | tuple[float, ...]] | None
    """Written unchanged if given; epsg and wkt are then ignored."""
    colormap: tuple[int, ...] | None
    metadata: list[tuple[str, str, int | None, str | None, str | None]]
    metadata_xml: str | None
    """Written unchanged if its content equals that of metadata and band_info."""
    band_info: list[BandInfo]
    texts: dict[int, str]
    resolution: tuple[float, float, int] | None
    extra_tags: list[tuple[int, int, int, Any]]
    """In the form of `Description.tags`."""

Producer = Callable[[int, int], npt.NDArray[Any] | tuple[Any, npt.NDArray[np.uint8]]]
"""Returns rows from start to stop as a C-contiguous (row, column, band) array.

With mask=True it returns a pair of that array and the rows of the mask, a C-contiguous uint8 (row, column) array. The
engine calls it in the thread that called write(), once for each row.
"""

class RequiredWriteKeywords(TypedDict):
    shape: tuple[int, int, int]  # bands, height, width
    dtype: str
    options: Options

class WriteKeywords(RequiredWriteKeywords, total=False):
    """What to write and how; the comments state the defaults. An unknown keyword raises TypeError."""

    bands_last: bool  # True
    chunk_rows: Sequence[int] | None
    threads: int | None
    buffer_bytes: int | None
    overwrite: bool  # True
    sync: bool | None  # None: if the file replaces another one
    device: str | None  # None: the CPU, or the device that holds the pixels
    strict: bool  # False
    encoder: str | None  # None: SWATH_ENCODER, or else "auto"
    storage: str | None  # None: SWATH_STORAGE, or else "auto"
    gpu_memory: int | None  # None: SWATH_GPU_MEMORY, or else no limit; in millions of bytes
    stream: Any  # the CUDA stream in which the array on a device is ready
    rows_on_device: bool  # False
    mask: npt.NDArray[np.uint8] | bool | None
    progress: Callable[[int, int], object] | None
    sidecars: Callable[
        [Report],
        tuple[tuple[list[str], list[tuple[int, int, int, int]] | None] | None, list[tuple[str, str]], bytes | None],
    ]

def write(
    target: str | Any,
    source: npt.NDArray[Any] | Producer | DeviceArray | Any,
    **keywords: Unpack[WriteKeywords],
) -> Report:
    """Writes a file atomically.

    An array is C-contiguous and in native byte order. `target` is a path or an
    object with write(bytes). `chunk_rows` are the row counts of the producer's chunks: the engine requests whole
    chunks, each once.

    A device source is a DeviceArray, or an object with __cuda_array_interface__ or __dlpack__ that is contiguous on a
    CUDA device. The device splits it into tiles. The same happens to the rows of a producer on a device, which
    `rows_on_device` announces.

    `mask` writes an internal mask, also for each overview. It is a C-contiguous uint8 (height, width) array on the
    host for an array or a device source, or True for a producer that returns (pixels, mask); 0 is missing, any other
    value valid. Overviews and statistics ignore missing pixels. The CPU writes files with a mask: with a device, the
    report lists that as a fallback, and with `strict` it is an error.

    `progress` receives the rows done and the total; an exception that it raises stops the write.

    `sidecars` receives the report when all pixels are written, and returns what is stored beside the file: classes
    and statistics in `.aux.xml`, and the style in `.qml`. They get their names together with the file.
    """

def has_window(window: tuple[int, int, int, int], height: int, width: int) -> bool:
    """Whether a window is inside an image of this size and not empty."""

def within_max_pixels(height: int, width: int, samples: int, max_pixels: int) -> bool:
    """Whether a read of this many samples of each pixel is within a limit."""

def set_limits(limits: dict[str, int] | None) -> dict[str, int]:
    """Replaces the limits that this process has set, and returns those that it had set before. None removes them."""

def process_limits() -> dict[str, int]:
    """Returns the limits that `set_limits` has set."""

def changed_limits(limits: dict[str, int] | None = None) -> dict[str, int]:
    """Returns the limits that the environment, `set_limits` or the argument has changed."""

def get_limits(limits: dict[str, int] | None = None) -> list[tuple[str, int]]:
    """Returns all limits that are in force for a file that is opened with these limits."""

def coalesce(spans: Sequence[tuple[int, int]], gap: int, max_bytes: int) -> list[tuple[int, int, list[int]]]:
    """Returns ranges (start, stop) that contain all (offset, length) spans, and the indices of the spans in each range.

    Spans with at most `gap` bytes between them share a range of at most `max_bytes` bytes; with a negative gap, no
    spans are merged.
    """

def read_windows(
    jobs: Sequence[tuple[File, tuple[int, int, int, int], int]],
    out: npt.NDArray[Any],
    *,
    level: int = 0,
    threads: int | None = None,
) -> Report:
    """Decodes one band of one window of a file for each job into `out`, (job, y, x), in parallel."""

def unpack(
    source: npt.NDArray[Any],
    out: npt.NDArray[Any],
    *,
    sentinel: int | float | None = None,
    scale: float = 1.0,
    offset: float = 0.0,
) -> bool:
    """Computes `out` (float32 or float64, same shape) = source * scale + offset, with NaN where the source equals the
    sentinel. Returns whether the sentinel occurred. `out` may be `source`.
    """

def contains(source: npt.NDArray[Any], value: int | float) -> bool:
    """Whether an array contains a value, which may be NaN."""

Item = tuple[str, str, int | None, str | None, str | None]
"""An item of GDAL_METADATA: name, value, band from 0, domain, role."""

def metadata_items(xml: str) -> list[Item]:
    """Returns the items of a GDAL_METADATA text. An item whose value is not a finite number does not get the role
    scale or offset.

    Raises ValueError if the text cannot be parsed.
    """

def items_by_name(entries: Sequence[tuple[str, str, int | None]]) -> list[Item]:
    """Returns items of the default domain from (name, value, band).

    The names SCALE, OFFSET, UNITTYPE, DESCRIPTION and COLORINTERP give the items of bands their roles.
    """

def bands_of_items(items: Sequence[Item], bands: int) -> list[BandInfo]:
    """Returns the band metadata that the roles of the items define.

    A dict lacks the keys for which there is no item.
    """

def nodata_number(text: str) -> int | float | None:
    """Returns the number in a nodata text as written: an int if it has digits only. None for other texts."""

def match_nodata(
    nodata: int | float, dtype: str
) -> tuple[Literal["value", "out of range", "fractional", "non-finite"], int | float | None]:
    """Returns "value" and the sample that is nodata if samples of a type can equal it, else the reason why not."""

def nodata_in_range(nodata: int | float, dtype: str) -> bool:
    """Whether a nodata value is between the minimum and the maximum of a type."""

def read_classes(path: str) -> tuple[list[str], list[tuple[int, int, int, int]] | None] | None:
    """Returns the names and colours of the classes in the .aux.xml file of an image; None if there are none."""

def write_classes(path: str, names: Sequence[str], colors: Sequence[tuple[int, int, int, int]] | None = None) -> None:
    """Writes the classes of band 1 to the .aux.xml file of an image atomically. The rest of the file stays."""

def write_statistics(path: str, items: Sequence[tuple[str, str]]) -> None:
    """Writes statistics of band 1, (name, text), to the .aux.xml file of an image atomically.

    They replace the statistics in the file; the rest of it stays.
    """

def wkt_of_epsg(code: int) -> str | None: ...
def epsg_of_wkt(text: str) -> int | None: ...
def crs_kind(code: int) -> str | None:
    """Returns geographic, projected, geocentric, vertical or compound; None for an unknown code."""

def geo_keys_of_crs(text: str) -> dict[int, int | str | tuple[float, ...]]:
    """Returns the GeoKeys of WKT, "EPSG:..." and similar texts. Raises UnparseableCRSError if there are none."""

def devices() -> list[dict[str, Any]]:
    """Returns the devices that `swath devices` prints: name, api, memory, why a device cannot be used."""

def set_allocator(allocator: Any) -> None:
    """Takes the memory of all CUDA devices from `allocator`, or from the driver again if it is None.

    Methods: `allocate(nbytes, stream, device)` returns an address, `free(address, nbytes, stream, device)`,
    `free_bytes(device)` returns a number or None.
    """

def trim_devices() -> bool:
    """Frees the device memory that is cached for later operations. Returns whether there was any."""

def read_again_on_cpu(strict: bool) -> str | None:
    """Returns the part of a read that the CPU takes over after the device failed as a whole, as reports name it.

    None means that the error of the device is final.
    """

def write_again_on_cpu(strict: bool) -> str | None:
    """Returns the part of a write that the CPU takes over after the device failed as a whole, as reports name it.

    None means that the error of the device is final.
    """

def codecs() -> list[Codec]:
    """Returns the engine's table of codecs: all that it can read; those that it can also write come first."""

def features() -> dict[str, dict[str, bool]]:
    """Returns {codec name: {read, write}} from the engine's table."""

def resampling_methods() -> list[str]:
    """Returns the names of the resampling methods for overviews, including aliases."""

def search_libraries_in(folder: str) -> None:
    """Adds a folder (site-packages) to the search path for NVIDIA's libraries."""

def default_threads() -> int: ...

MAX_CLASSES: int
"""Classes are ignored if an image has more than this."""

MAX_PIXELS: int
"""The default limit of samples in one read: a small compressed file may decode to a very large array."""

__version__: str
