"""The exceptions and warnings of Swath. The package exports all of them."""

from __future__ import annotations


class GeoTIFFFallbackWarning(UserWarning):
    """Swath did something other than requested: it used the CPU instead of a device, or ignored a parameter."""


class GeoTIFFAmbiguousMetadataError(ValueError):
    """The metadata is ambiguous or contradictory."""


class InvalidCRSCodeError(GeoTIFFAmbiguousMetadataError):
    """The code is not the code of a coordinate reference system."""


class UnparseableCRSError(GeoTIFFAmbiguousMetadataError):
    """The text of a coordinate reference system cannot be parsed."""


class RotatedTransformError(GeoTIFFAmbiguousMetadataError):
    """The image is rotated or sheared, so its rows and columns have no one-dimensional coordinates."""


class DegeneratePixelSizeError(GeoTIFFAmbiguousMetadataError):
    """The pixel size is zero or not a finite number."""


class NonUniformCoordsError(GeoTIFFAmbiguousMetadataError):
    """The coordinates are not evenly spaced."""


class MixedBandMetadataError(GeoTIFFAmbiguousMetadataError):
    """The bands have different metadata where the file needs one value for all."""


class ConflictingCRSError(GeoTIFFAmbiguousMetadataError):
    """Two attributes name different coordinate reference systems."""


class ConflictingNodataError(GeoTIFFAmbiguousMetadataError):
    """Two attributes name different nodata values."""


class InconsistentGeoKeysError(GeoTIFFAmbiguousMetadataError):
    """The GeoKeys contradict each other."""


class InvalidIntegerNodataError(GeoTIFFAmbiguousMetadataError):
    """The nodata value of an integer image is not a whole number."""


class MalformedScaleOffsetError(GeoTIFFAmbiguousMetadataError):
    """The scale or the offset is not a usable number."""


class VRTUnsupportedError(GeoTIFFAmbiguousMetadataError):
    """The VRT uses a feature that Swath does not support; Swath reads VRT mosaics only."""


class VRTStableSourcesOnlyError(GeoTIFFAmbiguousMetadataError):
    """`stable_only=True` does not allow VRT files."""


class RemoteStableSourcesOnlyError(GeoTIFFAmbiguousMetadataError):
    """`stable_only=True` does not allow remote files."""


class UnknownCRSModelTypeError(GeoTIFFAmbiguousMetadataError):
    """The EPSG code is known neither as a geographic nor as a projected system."""


class NonRepresentableEPSGCRSError(GeoTIFFAmbiguousMetadataError):
    """GeoKeys cannot represent this kind of coordinate reference system."""


class DuplicateIFDTagError(ValueError):
    """A directory of the file has the same tag twice, with different values."""


class UnsupportedGeoTIFFFeatureError(ValueError):
    """Swath cannot read or write a feature of the file."""


class PixelSafetyLimitError(ValueError):
    """The image has more pixels than the limit allows."""


class CloudSizeLimitError(ValueError):
    """The remote object is larger than the limit allows, or its size is unknown."""


class UnsafeURLError(ValueError):
    """The URL is not allowed: its scheme is not supported or its host has a private address."""

    def __init__(self, message: str, url: str | None = None) -> None:
        super().__init__(message)
        self.url = url


class DeviceError(RuntimeError):
    """The device does not exist, has failed, or cannot do work for which CPU fallback is disabled."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The memory of the device is too small."""


class OutOfMemoryError(MemoryError):
    """The system does not have the memory that a read or a write needs."""


class CorruptGeoTIFFError(ValueError):
    """The file is corrupt; the message names the location."""


class SourceChangedError(OSError):
    """A file has changed since a lazy array was made from it."""

    def __init__(self, name: str, what: str = "has changed") -> None:
        super().__init__(f"{name} {what} since it was opened: open it again to read what is there now")
        self._arguments = name, what

    def __reduce__(self) -> tuple[type[SourceChangedError], tuple[str, str]]:
        return SourceChangedError, self._arguments
