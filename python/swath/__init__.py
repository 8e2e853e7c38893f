"""Swath reads and writes GeoTIFF and Cloud Optimized GeoTIFF (COG) files.

    import swath

    dem = swath.open_geotiff("dem.tif")                    # an xarray.DataArray
    lazy = swath.open_geotiff("dem.tif", chunks="auto")    # a dask array; chunks consist of whole tiles
    swath.to_geotiff(lazy, "dem_cog.tif", cog=True)        # streams in bounded memory

`import swath` imports only numpy. Swath imports xarray, dask, CuPy and pyproj when a call needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._features import SUPPORTED_FEATURES
from ._limits import get_limits, limits, set_limits
from ._report import last_report
from ._swath import DeviceArray, __version__, devices
from .errors import (
    CloudSizeLimitError,
    ConflictingCRSError,
    ConflictingNodataError,
    CorruptGeoTIFFError,
    DegeneratePixelSizeError,
    DeviceError,
    DeviceMemoryError,
    DuplicateIFDTagError,
    GeoTIFFAmbiguousMetadataError,
    GeoTIFFFallbackWarning,
    InconsistentGeoKeysError,
    InvalidCRSCodeError,
    InvalidIntegerNodataError,
    MalformedScaleOffsetError,
    MixedBandMetadataError,
    NonRepresentableEPSGCRSError,
    NonUniformCoordsError,
    OutOfMemoryError,
    PixelSafetyLimitError,
    RemoteStableSourcesOnlyError,
    RotatedTransformError,
    SourceChangedError,
    UnknownCRSModelTypeError,
    UnparseableCRSError,
    UnsafeURLError,
    UnsupportedGeoTIFFFeatureError,
    VRTStableSourcesOnlyError,
    VRTUnsupportedError,
)
from .gpu.allocator import set_allocator
from .gpu.read_device import read_device
from .read.georef import STATUS_CRS_ONLY as GEOREF_STATUS_CRS_ONLY
from .read.georef import STATUS_FULL as GEOREF_STATUS_FULL
from .read.georef import STATUS_NONE as GEOREF_STATUS_NONE
from .read.georef import STATUS_ROTATED_DROPPED as GEOREF_STATUS_ROTATED_DROPPED
from .read.georef import STATUS_TRANSFORM_ONLY as GEOREF_STATUS_TRANSFORM_ONLY
from .read.info import read_info
from .read.open_geotiff import open_geotiff
from .read.windows import read_windows
from .rioxarray.open_rasterio import open_rasterio
from .write.to_geotiff import to_geotiff
from .xarray.accessor import register_with_xarray as _register_with_xarray

if TYPE_CHECKING:
    from .xarray.engine import SwathBackendEntrypoint

__all__ = [
    "GEOREF_STATUS_CRS_ONLY",
    "GEOREF_STATUS_FULL",
    "GEOREF_STATUS_NONE",
    "GEOREF_STATUS_ROTATED_DROPPED",
    "GEOREF_STATUS_TRANSFORM_ONLY",
    "GEOREF_STATUS_VALUES",
    "SUPPORTED_FEATURES",
    "CloudSizeLimitError",
    "ConflictingCRSError",
    "ConflictingNodataError",
    "CorruptGeoTIFFError",
    "DegeneratePixelSizeError",
    "DeviceArray",
    "DeviceError",
    "DeviceMemoryError",
    "DuplicateIFDTagError",
    "GeoTIFFAmbiguousMetadataError",
    "GeoTIFFFallbackWarning",
    "InconsistentGeoKeysError",
    "InvalidCRSCodeError",
    "InvalidIntegerNodataError",
    "MalformedScaleOffsetError",
    "MixedBandMetadataError",
    "NonRepresentableEPSGCRSError",
    "NonUniformCoordsError",
    "OutOfMemoryError",
    "PixelSafetyLimitError",
    "RemoteStableSourcesOnlyError",
    "RotatedTransformError",
    "SourceChangedError",
    "SwathBackendEntrypoint",
    "UnknownCRSModelTypeError",
    "UnparseableCRSError",
    "UnsafeURLError",
    "UnsupportedGeoTIFFFeatureError",
    "VRTStableSourcesOnlyError",
    "VRTUnsupportedError",
    "__version__",
    "devices",
    "get_limits",
    "last_report",
    "limits",
    "open_geotiff",
    "open_rasterio",
    "read_device",
    "read_info",
    "read_windows",
    "set_allocator",
    "set_limits",
    "to_geotiff",
]


GEOREF_STATUS_VALUES = frozenset(
    {
        GEOREF_STATUS_FULL,
        GEOREF_STATUS_TRANSFORM_ONLY,
        GEOREF_STATUS_CRS_ONLY,
        GEOREF_STATUS_NONE,
        GEOREF_STATUS_ROTATED_DROPPED,
    }
)

_register_with_xarray()


def __getattr__(name: str) -> Any:
    if name == "SwathBackendEntrypoint":
        # The base class of this class is xarray's.
        from .xarray.engine import SwathBackendEntrypoint

        return SwathBackendEntrypoint
    raise AttributeError(f"module 'swath' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
