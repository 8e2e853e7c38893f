//! The validity of pixels, compared with the rules of GDAL and rasterio.

use swath::dataset::MaskOrigin;
use swath::tiff::{Builder, ByteOrder, Tag, Value};
use swath::{Dataset, ReadRequest};

const RGB: u16 = 2;
const GRAY: u16 = 1;
const UNASSOCIATED_ALPHA: u16 = 2;

/// Two pixels of interleaved samples in one strip.
fn two_pixels(photometric: u16, samples: &[&[u8]], extra: &[u16], more: &[(Tag, Value)]) -> Vec<u8> {
    let mut builder = Builder::new(ByteOrder::Little, false);
    let data = builder.append(&samples.concat());
    let bands = samples[0].len();
    let mut tags = vec![
        (Tag::IMAGE_WIDTH, Value::Short(vec![2])),
        (Tag::IMAGE_LENGTH, Value::Short(vec![1])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![8; bands])),
        (Tag::PHOTOMETRIC, Value::Short(vec![photometric])),
        (Tag::STRIP_OFFSETS, Value::offsets(&[data.offset])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![bands as u16])),
        (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[data.len])),
        (Tag::EXTRA_SAMPLES, Value::Short(extra.to_vec())),
    ];
    tags.extend_from_slice(more);
    builder.ifd(&tags);
    builder.finish()
}

fn mask(file: Vec<u8>) -> (MaskOrigin, Vec<u8>) {
    let image = Dataset::from_bytes(file).unwrap().image(0).unwrap();
    let mask = image.read_mask(&ReadRequest::new()).unwrap();
    (mask.origin, mask.values)
}

#[test]
fn alpha_is_a_mask_only_as_the_last_of_two_or_four_bands() {
    let alpha = [UNASSOCIATED_ALPHA, 0, 0, 0];
    let masked = (MaskOrigin::Alpha, vec![255, 0]);
    let ignored = (MaskOrigin::AllValid, vec![255, 255]);
    assert_eq!(mask(two_pixels(GRAY, &[&[7, 3], &[7, 0]], &alpha[..1], &[])), masked);
    assert_eq!(mask(two_pixels(GRAY, &[&[7, 3, 9], &[7, 0, 9]], &alpha[..2], &[])), ignored);
    assert_eq!(mask(two_pixels(RGB, &[&[7, 7, 7, 3], &[7, 7, 7, 0]], &alpha[..1], &[])), masked);
    assert_eq!(mask(two_pixels(RGB, &[&[7, 7, 7, 3, 9], &[7, 7, 7, 0, 9]], &alpha[..2], &[])), ignored);
}

#[test]
fn metadata_can_declare_an_alpha_band_that_the_tags_do_not() {
    let xml = r#"<GDALMetadata><Item name="COLORINTERP" sample="1" role="colorinterp">Alpha</Item></GDALMetadata>"#;
    let items = [(Tag::GDAL_METADATA, Value::Text(xml.into()))];
    assert_eq!(mask(two_pixels(GRAY, &[&[7, 3], &[7, 0]], &[0], &items)), (MaskOrigin::Alpha, vec![255, 0]));
}

#[test]
fn nodata_of_rgba_means_transparent_not_black() {
    let nodata = [(Tag::GDAL_NODATA, Value::Text("0".into()))];
    let file = two_pixels(RGB, &[&[0, 0, 0, 255], &[9, 9, 9, 0]], &[UNASSOCIATED_ALPHA], &nodata);
    assert_eq!(mask(file), (MaskOrigin::NoData, vec![255, 0]));
}
