//! Files whose parts contradict each other: levels and masks that do not belong to their image.

use swath::tiff::{Builder, ByteOrder, Tag, Value};
use swath::{DType, Dataset, ReadRequest};

/// A directory of sparse tiles.
fn directory(kind: u32, width: u32, height: u32, bits: u16, format: u16) -> Vec<(Tag, Value)> {
    vec![
        (Tag::NEW_SUBFILE_TYPE, Value::Long(vec![kind])),
        (Tag::IMAGE_WIDTH, Value::Long(vec![width])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![height])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![bits])),
        (Tag::SAMPLE_FORMAT, Value::Short(vec![format])),
        (Tag::TILE_WIDTH, Value::Short(vec![16])),
        (Tag::TILE_LENGTH, Value::Short(vec![16])),
        (Tag::TILE_OFFSETS, Value::Long(vec![0])),
        (Tag::TILE_BYTE_COUNTS, Value::Long(vec![0])),
    ]
}

#[test]
fn overview_with_another_sample_type_is_ignored() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    let mut full = directory(0, 8, 8, 8, 1);
    full.push((Tag::GDAL_NODATA, Value::Text("7".into())));
    builder.ifd(&full);
    builder.ifd(&directory(1, 4, 4, 128, 6));
    builder.ifd(&directory(1, 2, 2, 8, 1));
    let image = Dataset::from_bytes(builder.finish()).unwrap().image(0).unwrap();
    assert_eq!((image.dtype(), image.levels().len()), (DType::U8, 2));
    let raster = image.read(&ReadRequest::new().level(1)).unwrap();
    assert_eq!(raster.pixels.as_slice::<u8>(), Some([7; 4].as_slice()));
}

#[test]
fn mask_of_another_size_is_scaled_without_overflow() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.ifd(&directory(0, u32::MAX, u32::MAX, 8, 1));
    builder.ifd(&directory(4, u32::MAX - 1, u32::MAX - 1, 8, 1));
    let image = Dataset::from_bytes(builder.finish()).unwrap().image(0).unwrap();
    let end = u64::from(u32::MAX);
    let mask = image.read_mask(&ReadRequest::new().window(end - 3..end, end - 5..end)).unwrap();
    assert_eq!((mask.height, mask.width, mask.values), (3, 5, vec![0; 15]));
}
