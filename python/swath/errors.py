"""What can go wrong, as classes to catch. All of them are exported by the package."""

from __future__ import annotations


class GeoTIFFFallbackWarning(UserWarning):
    """Something else was done than what was asked for: the CPU in place of a device, a parameter without effect."""


class GeoTIFFAmbiguousMetadataError(ValueError):
    """The metadata can be read in more than one way, or in none."""


class InvalidCRSCodeError(GeoTIFFAmbiguousMetadataError):
    """The code is not that of a coordinate reference system."""


class UnparseableCRSError(GeoTIFFAmbiguousMetadataError):
    """The text of a coordinate reference system cannot be understood."""


class RotatedTransformError(GeoTIFFAmbiguousMetadataError):
    """The image is rotated or sheared, so that rows and columns have no coordinates of their own."""


class DegeneratePixelSizeError(GeoTIFFAmbiguousMetadataError):
    """Pixels have no size, or one that is not a number."""


class NonUniformCoordsError(GeoTIFFAmbiguousMetadataError):
    """The coordinates are not evenly spaced."""


class MixedBandMetadataError(GeoTIFFAmbiguousMetadataError):
    """The bands disagree where one answer is needed."""


class ConflictingCRSError(GeoTIFFAmbiguousMetadataError):
    """Two attributes name different coordinate reference systems."""


class ConflictingNodataError(GeoTIFFAmbiguousMetadataError):
    """Two attributes name different nodata values."""


class InconsistentGeoKeysError(GeoTIFFAmbiguousMetadataError):
    """The GeoKeys contradict each other."""


class InvalidIntegerNodataError(GeoTIFFAmbiguousMetadataError):
    """The nodata value of an integer image is not a whole number."""


class MalformedScaleOffsetError(GeoTIFFAmbiguousMetadataError):
    """Scale or offset cannot be used."""


class VRTUnsupportedError(GeoTIFFAmbiguousMetadataError):
    """The VRT asks for something that is not a simple mosaic."""


class VRTStableSourcesOnlyError(GeoTIFFAmbiguousMetadataError):
    """A VRT was given where only stable sources are allowed."""


class RemoteStableSourcesOnlyError(GeoTIFFAmbiguousMetadataError):
    """A remote file was given where only stable sources are allowed."""


class UnknownCRSModelTypeError(GeoTIFFAmbiguousMetadataError):
    """Nobody knows whether the code is of a geographic or a projected system."""


class NonRepresentableEPSGCRSError(GeoTIFFAmbiguousMetadataError):
    """GeoKeys have no place for this kind of system."""


class DuplicateIFDTagError(ValueError):
    """A tag appears twice in a directory, with different values."""


class UnsupportedGeoTIFFFeatureError(ValueError):
    """The file uses something that cannot be read or written."""


class PixelSafetyLimitError(ValueError):
    """The image has more pixels than the limit allows."""


class CloudSizeLimitError(ValueError):
    """The remote object is larger than the limit allows, or does not tell its size."""


class UnsafeURLError(ValueError):
    """The URL leads where it must not: another scheme, a private address."""

    def __init__(self, message: str, url: str | None = None) -> None:
        super().__init__(message)
        self.url = url


class DeviceError(RuntimeError):
    """There is no such device, it failed, or it cannot do what was left to it alone."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device has not enough memory."""


class CorruptGeoTIFFError(ValueError):
    """The file is broken: the message says where."""


class SourceChangedError(OSError):
    """A file is not the one any more that a lazy array was made from."""

    def __init__(self, name: str, what: str = "has changed") -> None:
        super().__init__(f"{name} {what} since it was opened: open it again to read what is there now")
        self._arguments = name, what

    def __reduce__(self) -> tuple[type[SourceChangedError], tuple[str, str]]:
        return SourceChangedError, self._arguments
