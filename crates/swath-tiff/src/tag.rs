//! Tag numbers and their names.

/// A TIFF tag number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

/// Defines the constants, the numbers and the names of all tags in one table.
macro_rules! tags {
    ($($constant:ident = $number:literal, $name:literal;)*) => {
        impl Tag {
            $(#[doc = concat!($name, " (", stringify!($number), ")")] pub const $constant: Tag = Tag($number);)*

            /// The name of the tag in its specification.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

tags! {
    NEW_SUBFILE_TYPE = 254, "NewSubfileType";
    SUBFILE_TYPE = 255, "SubfileType";
    IMAGE_WIDTH = 256, "ImageWidth";
    IMAGE_LENGTH = 257, "ImageLength";
    BITS_PER_SAMPLE = 258, "BitsPerSample";
    COMPRESSION = 259, "Compression";
    PHOTOMETRIC = 262, "PhotometricInterpretation";
    FILL_ORDER = 266, "FillOrder";
    DOCUMENT_NAME = 269, "DocumentName";
    IMAGE_DESCRIPTION = 270, "ImageDescription";
    MAKE = 271, "Make";
    MODEL = 272, "Model";
    STRIP_OFFSETS = 273, "StripOffsets";
    ORIENTATION = 274, "Orientation";
    SAMPLES_PER_PIXEL = 277, "SamplesPerPixel";
    ROWS_PER_STRIP = 278, "RowsPerStrip";
    STRIP_BYTE_COUNTS = 279, "StripByteCounts";
    MIN_SAMPLE_VALUE = 280, "MinSampleValue";
    MAX_SAMPLE_VALUE = 281, "MaxSampleValue";
    X_RESOLUTION = 282, "XResolution";
    Y_RESOLUTION = 283, "YResolution";
    PLANAR_CONFIGURATION = 284, "PlanarConfiguration";
    PAGE_NAME = 285, "PageName";
    T4_OPTIONS = 292, "T4Options";
    T6_OPTIONS = 293, "T6Options";
    RESOLUTION_UNIT = 296, "ResolutionUnit";
    PAGE_NUMBER = 297, "PageNumber";
    TRANSFER_FUNCTION = 301, "TransferFunction";
    SOFTWARE = 305, "Software";
    DATE_TIME = 306, "DateTime";
    ARTIST = 315, "Artist";
    HOST_COMPUTER = 316, "HostComputer";
    PREDICTOR = 317, "Predictor";
    WHITE_POINT = 318, "WhitePoint";
    PRIMARY_CHROMATICITIES = 319, "PrimaryChromaticities";
    COLOR_MAP = 320, "ColorMap";
    TILE_WIDTH = 322, "TileWidth";
    TILE_LENGTH = 323, "TileLength";
    TILE_OFFSETS = 324, "TileOffsets";
    TILE_BYTE_COUNTS = 325, "TileByteCounts";
    SUB_IFDS = 330, "SubIFDs";
    INK_SET = 332, "InkSet";
    EXTRA_SAMPLES = 338, "ExtraSamples";
    SAMPLE_FORMAT = 339, "SampleFormat";
    JPEG_TABLES = 347, "JPEGTables";
    JPEG_PROC = 512, "JPEGProc";
    JPEG_INTERCHANGE_FORMAT = 513, "JPEGInterchangeFormat";
    JPEG_INTERCHANGE_FORMAT_LENGTH = 514, "JPEGInterchangeFormatLength";
    JPEG_RESTART_INTERVAL = 515, "JPEGRestartInterval";
    JPEG_Q_TABLES = 519, "JPEGQTables";
    JPEG_DC_TABLES = 520, "JPEGDCTables";
    JPEG_AC_TABLES = 521, "JPEGACTables";
    YCBCR_COEFFICIENTS = 529, "YCbCrCoefficients";
    YCBCR_SUBSAMPLING = 530, "YCbCrSubSampling";
    YCBCR_POSITIONING = 531, "YCbCrPositioning";
    REFERENCE_BLACK_WHITE = 532, "ReferenceBlackWhite";
    XMP = 700, "XMP";
    COPYRIGHT = 33432, "Copyright";
    MODEL_PIXEL_SCALE = 33550, "ModelPixelScale";
    MODEL_TIEPOINT = 33922, "ModelTiepoint";
    MODEL_TRANSFORMATION = 34264, "ModelTransformation";
    PHOTOSHOP = 34377, "Photoshop";
    EXIF_IFD = 34665, "ExifIFD";
    ICC_PROFILE = 34675, "ICCProfile";
    GEO_KEY_DIRECTORY = 34735, "GeoKeyDirectory";
    GEO_DOUBLE_PARAMS = 34736, "GeoDoubleParams";
    GEO_ASCII_PARAMS = 34737, "GeoAsciiParams";
    GPS_IFD = 34853, "GPSIFD";
    GDAL_METADATA = 42112, "GDAL_METADATA";
    GDAL_NODATA = 42113, "GDAL_NODATA";
    LERC_PARAMETERS = 50674, "LercParameters";
    RPC_COEFFICIENT = 50844, "RPCCoefficient";
    ESRI_METADATA = 50839, "ESRIMetadata";
}

impl Tag {
    /// Whether the tag describes how pixels are stored. Code that stores the pixels again writes such tags
    /// anew.
    pub fn describes_storage(self) -> bool {
        self.decides_layout()
            || matches!(
                self,
                Tag::NEW_SUBFILE_TYPE
                    | Tag::SUBFILE_TYPE
                    | Tag::PHOTOMETRIC
                    | Tag::FILL_ORDER
                    | Tag::T4_OPTIONS
                    | Tag::T6_OPTIONS
                    | Tag::COLOR_MAP
                    | Tag::SUB_IFDS
                    | Tag::INK_SET
                    | Tag::EXTRA_SAMPLES
                    | Tag::JPEG_TABLES
                    | Tag::JPEG_PROC
                    | Tag::JPEG_INTERCHANGE_FORMAT
                    | Tag::JPEG_INTERCHANGE_FORMAT_LENGTH
                    | Tag::JPEG_RESTART_INTERVAL
                    | Tag::JPEG_Q_TABLES
                    | Tag::JPEG_DC_TABLES
                    | Tag::JPEG_AC_TABLES
                    | Tag::YCBCR_COEFFICIENTS
                    | Tag::YCBCR_SUBSAMPLING
                    | Tag::YCBCR_POSITIONING
                    | Tag::REFERENCE_BLACK_WHITE
                    | Tag::EXIF_IFD
                    | Tag::GPS_IFD
                    | Tag::LERC_PARAMETERS
                    // FreeOffsets and FreeByteCounts describe gaps in the old file; InteroperabilityIFD is an
                    // offset in it.
                    | Tag(288 | 289 | 40965)
            )
    }

    /// Whether the tag describes the image. Swath reads and writes such tags as metadata.
    pub fn is_about(self) -> bool {
        matches!(
            self,
            Tag::DOCUMENT_NAME
                | Tag::IMAGE_DESCRIPTION
                | Tag::PAGE_NAME
                | Tag::SOFTWARE
                | Tag::DATE_TIME
                | Tag::ARTIST
                | Tag::HOST_COMPUTER
                | Tag::COPYRIGHT
                | Tag::X_RESOLUTION
                | Tag::Y_RESOLUTION
                | Tag::RESOLUTION_UNIT
                | Tag::MODEL_PIXEL_SCALE
                | Tag::MODEL_TIEPOINT
                | Tag::MODEL_TRANSFORMATION
                | Tag::GEO_KEY_DIRECTORY
                | Tag::GEO_DOUBLE_PARAMS
                | Tag::GEO_ASCII_PARAMS
                | Tag::GDAL_METADATA
                | Tag::GDAL_NODATA
                | Tag::RPC_COEFFICIENT
        )
    }

    /// Whether the value of the tag determines where pixels are stored or how they are decoded. If such a tag
    /// appears with two different values, a reader cannot decide which one is right.
    pub(crate) fn decides_layout(self) -> bool {
        matches!(
            self,
            Tag::IMAGE_WIDTH
                | Tag::IMAGE_LENGTH
                | Tag::BITS_PER_SAMPLE
                | Tag::COMPRESSION
                | Tag::STRIP_OFFSETS
                | Tag::SAMPLES_PER_PIXEL
                | Tag::ROWS_PER_STRIP
                | Tag::STRIP_BYTE_COUNTS
                | Tag::PLANAR_CONFIGURATION
                | Tag::PREDICTOR
                | Tag::TILE_WIDTH
                | Tag::TILE_LENGTH
                | Tag::TILE_OFFSETS
                | Tag::TILE_BYTE_COUNTS
                | Tag::SAMPLE_FORMAT
        )
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
