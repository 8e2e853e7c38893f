//! The layout of the pixels of one IFD: size, sample type, compression, blocks.

use crate::bytes::{ByteOrder, ReadAt};
use crate::error::{Error, Result};
use crate::field::Fields;
use crate::grid::BlockGrid;
use crate::ifd::Ifd;
use crate::limits::Limits;
use crate::sample_format::SampleFormat;
use crate::table::BlockTable;
use crate::tag::Tag;

/// Defines a number whose values have names. A value without a name is kept and is not an error.
macro_rules! named_numbers {
    ($(#[$doc:meta])* $type:ident { $($constant:ident = $number:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $type(pub u16);

        impl $type {
            $(#[doc = $name] pub const $constant: $type = $type($number);)*

            /// All values that have a name.
            pub const NAMED: &[$type] = &[$($type($number)),*];

            /// The name of the value, `unknown` if it has none.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($number => $name,)*
                    _ => "unknown",
                }
            }
        }
    };
}

named_numbers! {
    /// The Compression tag.
    Compression {
        NONE = 1, "none";
        CCITT_RLE = 2, "CCITT RLE";
        CCITT_G3 = 3, "CCITT Group 3";
        CCITT_G4 = 4, "CCITT Group 4";
        LZW = 5, "LZW";
        OLD_JPEG = 6, "old-style JPEG";
        JPEG = 7, "JPEG";
        DEFLATE = 8, "Deflate";
        T85_JBIG = 9, "JBIG (T.85)";
        T43_JBIG = 10, "JBIG (T.43)";
        NEXT = 32766, "NeXT";
        CCITT_RLE_WORD = 32771, "CCITT RLE, word aligned";
        PACKBITS = 32773, "PackBits";
        THUNDERSCAN = 32809, "ThunderScan";
        IT8_CT_PAD = 32895, "IT8 CT with padding";
        IT8_LW = 32896, "IT8 linework";
        IT8_MP = 32897, "IT8 monochrome picture";
        IT8_BL = 32898, "IT8 binary line art";
        PIXAR_FILM = 32908, "PixarFilm";
        PIXAR_LOG = 32909, "PixarLog";
        OLD_DEFLATE = 32946, "Deflate";
        DCS = 32947, "Kodak DCS";
        APERIO_J2K_YCBCR = 33003, "Aperio JPEG 2000 YCbCr";
        APERIO_J2K_RGB = 33005, "Aperio JPEG 2000 RGB";
        JBIG = 34661, "JBIG";
        SGI_LOG = 34676, "SGI LogLuv";
        SGI_LOG_24 = 34677, "SGI LogLuv 24";
        JPEG_2000 = 34712, "JPEG 2000";
        NIKON_NEF = 34713, "Nikon NEF";
        JBIG2 = 34715, "JBIG2";
        LERC = 34887, "LERC";
        LOSSY_JPEG_DNG = 34892, "DNG lossy JPEG";
        LZMA = 34925, "LZMA";
        JPEG_XR = 34934, "JPEG XR";
        ZSTD = 50000, "ZSTD";
        WEBP = 50001, "WebP";
        JPEG_XL = 50002, "JPEG XL";
        LZ4 = 50004, "LZ4";
        JPEG_XL_DNG = 52546, "JPEG XL (DNG 1.7)";
    }
}

impl Compression {
    /// Whether the codec compresses pictures: it may convert colours, and it decodes to whole samples. The
    /// other codecs compress bytes.
    pub fn is_picture(self) -> bool {
        matches!(
            self,
            Compression::JPEG
                | Compression::OLD_JPEG
                | Compression::JPEG_2000
                | Compression::APERIO_J2K_RGB
                | Compression::APERIO_J2K_YCBCR
                | Compression::JPEG_XL
                | Compression::JPEG_XL_DNG
                | Compression::WEBP
                | Compression::LOSSY_JPEG_DNG
        )
    }
}

named_numbers! {
    /// The PhotometricInterpretation tag.
    Photometric {
        MIN_IS_WHITE = 0, "MinIsWhite";
        MIN_IS_BLACK = 1, "MinIsBlack";
        RGB = 2, "RGB";
        PALETTE = 3, "Palette";
        MASK = 4, "Mask";
        SEPARATED = 5, "CMYK";
        YCBCR = 6, "YCbCr";
        CIELAB = 8, "CIELab";
        ICCLAB = 9, "ICCLab";
        ITULAB = 10, "ITULab";
        CFA = 32803, "CFA";
        LOG_L = 32844, "LogL";
        LOG_LUV = 32845, "LogLuv";
        LINEAR_RAW = 34892, "LinearRaw";
    }
}

/// How the samples of a pixel are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planar {
    /// Interleaved: the samples of a pixel are adjacent.
    Chunky,
    /// Planar: each band has its own blocks.
    Separate,
}

/// The layout of the pixels of one IFD. It is already checked: code that has an `ImageLayout` does not check
/// its numbers again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageLayout {
    /// Samples per pixel.
    pub samples: u16,
    /// Bits per sample, the same for all samples.
    pub bits: u16,
    /// The SampleFormat tag: 1 unsigned, 2 signed, 3 float, 4 undefined, 5 complex integer, 6 complex float.
    pub sample_format: u16,
    /// Compression scheme.
    pub compression: Compression,
    /// Predictor tag: 1 none, 2 horizontal differencing, 3 floating point.
    pub predictor: u16,
    /// What the samples mean.
    pub photometric: Photometric,
    /// Chunky or planar.
    pub planar: Planar,
    /// FillOrder 2: bits of each byte of the file are in reverse order.
    pub lsb_first: bool,
    /// Orientation tag, 1 (top left) if the tag is absent. Swath reports it and never rotates pixels.
    pub orientation: u16,
    /// Meaning of the samples beyond those of the photometric interpretation: 0 unspecified, 1 associated alpha,
    /// 2 unassociated alpha.
    pub extra_samples: Vec<u16>,
    /// NewSubfileType: bit 0 reduced resolution, bit 1 page, bit 2 mask.
    pub subfile_type: u32,
    /// The grid of blocks, which includes the width and height of the image.
    pub grid: BlockGrid,
    /// The offsets and sizes of the blocks.
    pub table: BlockTable,
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Offset of the IFD, for error messages.
    pub ifd_offset: u64,
}

impl ImageLayout {
    /// Reads and checks the layout of an IFD.
    ///
    /// # Errors
    /// [`Error::MissingTag`], [`Error::TagValue`], [`Error::Overflow`], [`Error::Limit`], and the errors of reading tags.
    pub fn read<R: ReadAt + ?Sized>(ifd: &Ifd, source: &R, limits: &Limits) -> Result<ImageLayout> {
        let fields = ifd.fields(source, limits);
        let size = (length(&fields, Tag::IMAGE_WIDTH)?, length(&fields, Tag::IMAGE_LENGTH)?);
        let photometric = Photometric(short(&fields, Tag::PHOTOMETRIC, 1)?);
        let compression = Compression(short(&fields, Tag::COMPRESSION, 1)?);
        // Writers of old-style JPEG omitted these tags and assumed that colour pictures have three samples of
        // eight bits.
        let colour_jpeg =
            compression == Compression::OLD_JPEG && matches!(photometric, Photometric::RGB | Photometric::YCBCR);
        let (usual_samples, usual_bits) = if colour_jpeg { (3, 8) } else { (1, 1) };
        let samples = match short(&fields, Tag::SAMPLES_PER_PIXEL, usual_samples)? {
            0 => return Err(invalid(&fields, Tag::SAMPLES_PER_PIXEL, 0, "but an image must have at least one band")),
            samples => samples,
        };
        let bits = match per_sample(&fields, Tag::BITS_PER_SAMPLE, samples, usual_bits)? {
            bits @ 1..=128 => bits as u16,
            value => return Err(invalid(&fields, Tag::BITS_PER_SAMPLE, value, "only 1 to 128 bits are defined")),
        };
        let sample_format = match per_sample(&fields, Tag::SAMPLE_FORMAT, samples, 1)? {
            format @ 1..=6 => format as u16,
            value => return Err(invalid(&fields, Tag::SAMPLE_FORMAT, value, "only 1 to 6 are defined")),
        };
        let planar = planar(&fields, samples)?;
        let grid = block_grid(&fields, size, planar, samples, bits)?;
        // More values than samples have no meaning.
        let extra_samples = fields.first_uints(Tag::EXTRA_SAMPLES, u64::from(samples)).ok().flatten();
        let extra_samples = extra_samples.unwrap_or_default();
        Ok(ImageLayout {
            samples,
            bits,
            sample_format,
            compression,
            predictor: short(&fields, Tag::PREDICTOR, 1)?,
            photometric,
            planar,
            lsb_first: short(&fields, Tag::FILL_ORDER, 1).unwrap_or(1) == 2,
            orientation: short(&fields, Tag::ORIENTATION, 1).unwrap_or(1),
            extra_samples: extra_samples.into_iter().map(|kind| kind.min(u64::from(u16::MAX)) as u16).collect(),
            subfile_type: subfile_type(&fields),
            grid,
            table: block_table(&fields, &grid, limits)?,
            order: ifd.order,
            ifd_offset: ifd.offset,
        })
    }

    /// The number of samples per pixel in one block: 1 in a planar file.
    pub fn block_samples(&self) -> u16 {
        if self.planar == Planar::Separate { 1 } else { self.samples }
    }

    /// The interpretation of the bits of a sample.
    pub fn format(&self) -> SampleFormat {
        SampleFormat::from_tag(self.sample_format)
    }

    /// The index of the alpha band, if the file declares one: the first extra sample with an alpha type.
    pub fn alpha_band(&self) -> Option<u16> {
        let first_extra = self.samples.checked_sub(u16::try_from(self.extra_samples.len()).ok()?)?;
        let alpha = self.extra_samples.iter().position(|kind| matches!(kind, 1 | 2))?;
        Some(first_extra + alpha as u16)
    }
}

fn invalid<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, tag: Tag, value: u64, rule: &'static str) -> Error {
    Error::TagValue { ifd: fields.ifd, tag, value, rule }
}

/// Reads a 16-bit tag.
fn short<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, tag: Tag, default: u16) -> Result<u16> {
    let value = fields.uint(tag)?.unwrap_or(u64::from(default));
    u16::try_from(value).map_err(|_| invalid(fields, tag, value, "which is larger than 65535"))
}

/// Reads a width or height, which must be present and not 0.
fn length<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, tag: Tag) -> Result<u64> {
    match fields.uint(tag)?.ok_or(Error::MissingTag { ifd: fields.ifd, tag })? {
        0 => Err(invalid(fields, tag, 0, "but it must be at least 1")),
        value if value > u64::from(u32::MAX) => Err(invalid(fields, tag, value, "which is larger than 4294967295")),
        value => Ok(value),
    }
}

fn planar<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, samples: u16) -> Result<Planar> {
    match short(fields, Tag::PLANAR_CONFIGURATION, 1)? {
        // With one sample per pixel both configurations are the same, and some writers store other values.
        _ if samples == 1 => Ok(Planar::Chunky),
        1 => Ok(Planar::Chunky),
        2 => Ok(Planar::Separate),
        value => {
            let rule = "only 1 (chunky) and 2 (planar) are defined";
            Err(invalid(fields, Tag::PLANAR_CONFIGURATION, value.into(), rule))
        }
    }
}

/// Returns the grid of tiles or strips, after checking that the number of blocks and their bits fit in 64 bits.
fn block_grid<R: ReadAt + ?Sized>(
    fields: &Fields<'_, R>,
    (width, height): (u64, u64),
    planar: Planar,
    samples: u16,
    bits: u16,
) -> Result<BlockGrid> {
    let tiled = fields.entry(Tag::TILE_WIDTH).is_some() && fields.entry(Tag::TILE_LENGTH).is_some();
    let (block_width, block_height) = if tiled {
        (length(fields, Tag::TILE_WIDTH)?, length(fields, Tag::TILE_LENGTH)?)
    } else {
        // An absent RowsPerStrip, 0, and the largest value ("infinite") all mean one strip.
        let rows = fields.uint(Tag::ROWS_PER_STRIP)?.filter(|&rows| rows != 0).unwrap_or(height);
        (width, rows.min(height))
    };
    let (planes, block_samples) = match planar {
        Planar::Separate => (u64::from(samples), 1),
        Planar::Chunky => (1, u64::from(samples)),
    };
    let grid = BlockGrid { width, height, block_width, block_height, planes, tiled };
    let overflow = || Error::Overflow { ifd: fields.ifd, width, height, samples: samples.into(), bits: bits.into() };
    block_width
        .checked_mul(block_samples)
        .and_then(|samples| samples.checked_mul(u64::from(bits).max(64)))
        .and_then(|bits| bits.checked_mul(block_height))
        .ok_or_else(overflow)?;
    grid.count().ok_or_else(overflow)?;
    Ok(grid)
}

/// Returns NewSubfileType, or its equivalent for the older SubfileType tag.
pub(crate) fn subfile_type<R: ReadAt + ?Sized>(fields: &Fields<'_, R>) -> u32 {
    if let Ok(Some(bits)) = fields.uint(Tag::NEW_SUBFILE_TYPE) {
        return bits as u32;
    }
    match fields.uint(Tag::SUBFILE_TYPE) {
        Ok(Some(2)) => 1,
        Ok(Some(3)) => 2,
        _ => 0,
    }
}

/// Reads a tag that has one value per sample, all equal. Many writers store a single value for all samples.
fn per_sample<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, tag: Tag, samples: u16, default: u64) -> Result<u64> {
    let values = fields.uints(tag)?.unwrap_or_default();
    let first = values.first().copied().unwrap_or(default);
    match values.iter().take(usize::from(samples)).find(|&&value| value != first) {
        Some(&value) => {
            let rule = "which differs from that of the first sample";
            Err(Error::TagValue { ifd: fields.ifd, tag, value, rule })
        }
        None => Ok(first),
    }
}

/// Returns the block table. Tiled files that use the strip tags, and striped files that use the tile tags,
/// exist and are unambiguous.
///
/// A table that is too short omits blocks at the bottom of a chunky image; libtiff treats them as sparse. In a
/// planar image it omits whole bands, so there it is an error.
fn block_table<R: ReadAt + ?Sized>(fields: &Fields<'_, R>, grid: &BlockGrid, limits: &Limits) -> Result<BlockTable> {
    let tiled = grid.tiled;
    let pick = |tile: Tag, strip: Tag| {
        let (first, second) = if tiled { (tile, strip) } else { (strip, tile) };
        fields.entry(first).or_else(|| fields.entry(second)).cloned()
    };
    let wanted = if tiled { Tag::TILE_OFFSETS } else { Tag::STRIP_OFFSETS };
    let offsets =
        pick(Tag::TILE_OFFSETS, Tag::STRIP_OFFSETS).ok_or(Error::MissingTag { ifd: fields.ifd, tag: wanted })?;
    let counts = pick(Tag::TILE_BYTE_COUNTS, Tag::STRIP_BYTE_COUNTS);
    for entry in [Some(&offsets), counts.as_ref()].into_iter().flatten() {
        let unsigned = entry.uint_at(&[0; 8], 0).is_some();
        if !unsigned {
            let (tag, found) = (entry.tag, entry.field_type);
            return Err(Error::TagType { ifd: fields.ifd, tag, found, wanted: "file offsets and sizes" });
        }
        if entry.count > limits.max_blocks {
            let (value, limit) = (entry.count, limits.max_blocks);
            return Err(Error::Limit { what: "the size of the block table", name: "max_blocks", value, limit });
        }
        if let Some(wanted) = grid.count().filter(|&wanted| grid.planes > 1 && entry.count < wanted) {
            return Err(Error::ShortTable { ifd: fields.ifd, tag: entry.tag, found: entry.count, wanted });
        }
    }
    Ok(BlockTable { ifd: fields.ifd, offsets, counts })
}
