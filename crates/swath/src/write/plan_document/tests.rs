//! A plan survives JSON and a binary format, and documents of strangers are refused, not trusted.

use serde_json::{Value as Json, json};
use swath_codec::jpeg::EncodeColour;
use swath_codec::{Compress, DType, Predictor, jpeg2000};
use swath_tiff::gdal_metadata::{Item, Statistics as StoredStatistics};
use swath_tiff::geo::{Gcp, GeoKeys, GeoTransform, RasterType, Rpc};
use swath_tiff::geodata_xform::Resolution;
use swath_tiff::nodata::NoData;
use swath_tiff::palette::Palette;
use swath_tiff::{FieldType, Planar, Tag, Value};

use super::PlanDocument;
use crate::dataset::metadata::{BandMetadata, ImageMetadata};
use crate::read::request::Layout;
use crate::write::config::WriteConfig;
use crate::write::error::PlanError;
use crate::write::options::{BigTiff, BlockSize, FileLayout, Overviews, Statistics, WriteOptions};
use crate::write::plan::{ImageShape, WritePlan};
use crate::write::reduce::Resampling;
use crate::write::source::ArraySource;

/// Metadata that uses every field, with numbers that text formats lose easily.
fn metadata() -> ImageMetadata {
    let mut metadata = ImageMetadata::default();
    metadata.transform = Some(GeoTransform([0.1, 1.0 / 3.0, 0.0, 5e6, -0.0, -1e-300]));
    metadata.raster_type = RasterType::Point;
    metadata.gcps = vec![Gcp { id: "a".into(), x: f64::MIN_POSITIVE, y: 4503599627370496.5, ..Gcp::default() }];
    metadata.rpc = Rpc::from_tag(&(0..92).map(|i| 1.0 / f64::from(i + 3)).collect::<Vec<_>>()).ok();
    metadata.geo_keys = GeoKeys::from_epsg(32633, RasterType::Point).ok();
    metadata.nodata = Some(NoData::Float(f64::NAN));
    metadata.metadata = vec![Item { name: "ä <&>\"".into(), value: "\u{1F600}\n".into(), ..Item::default() }];
    metadata.texts = vec![(Tag(305), "a program".into())];
    metadata.resolution = Some(Resolution { x: 72.1, y: 300.0, unit: 2 });
    let statistics = StoredStatistics { minimum: Some(f64::NEG_INFINITY), mean: Some(0.1), ..Default::default() };
    metadata.bands = vec![
        BandMetadata { scale: Some(0.1), offset: Some(f64::NAN), color: "red", ..BandMetadata::default() },
        BandMetadata { statistics: Some(statistics), categories: vec!["water".into()], ..BandMetadata::default() },
    ];
    metadata
}

/// Plans of many kinds, each with the samples of its image.
fn plans() -> Vec<(String, WritePlan, Vec<u8>)> {
    let small = BlockSize::Tiles { height: 16, width: 32 };
    let raw = Value::Raw(FieldType::SHORT, 2, vec![1, 2, 3, 4]);
    let floats = WriteOptions::new()
        .cog()
        .blocks(small)
        .metadata(metadata())
        .extra_tag(Tag(65000), raw)
        .extra_tag(Tag(65001), Value::Double(vec![f64::INFINITY, 0.1]))
        .statistics(Statistics::Embed)
        .resampling(Resampling::Cubic);
    let mut palette = ImageMetadata::default();
    palette.palette = Some(Palette { entries: (0..=255).map(|i| [i, 255 - i, 7, 255]).collect() });
    let mut cases = vec![
        ("every kind of metadata".to_owned(), 2, DType::F32, floats.clone()),
        ("auto of everything".to_owned(), 3, DType::U8, WriteOptions::new().cog().blocks(small)),
        ("palette".to_owned(), 1, DType::U8, WriteOptions::new().cog().blocks(small).metadata(palette)),
        ("strips".to_owned(), 2, DType::I16, WriteOptions::new().blocks(BlockSize::Strips { rows: 7 })),
        (
            "planar, masked, big".to_owned(),
            4,
            DType::U16,
            WriteOptions::new().blocks(small).planar(Planar::Separate).mask(true).big_tiff(BigTiff::Yes).bits(12),
        ),
        ("nodata".to_owned(), 1, DType::U64, WriteOptions::new().nodata(NoData::Uint(u64::MAX)).skip_empty(true)),
        (
            "factors".to_owned(),
            1,
            DType::F64,
            WriteOptions::new().blocks(small).overviews(Overviews::Factors(vec![2, 3, 6])).predictor(Predictor::None),
        ),
    ];
    let mut compressions: Vec<Compress> = Compress::names().map(|name| name.parse::<Compress>().unwrap()).collect();
    compressions.extend([
        Compress::Jpeg { quality: 93, colour: EncodeColour::YCbCr { subsampling: (2, 1) } },
        Compress::Jpeg2000(jpeg2000::Quality::Percent(33.3)),
        Compress::Jpeg2000(jpeg2000::Quality::Psnr(41.7)),
        Compress::WebP { quality: Some(80.1) },
        Compress::Zstd { level: 19 },
    ]);
    for compress in compressions {
        let options = WriteOptions::new().blocks(small).compression(compress).layout(FileLayout::Cog);
        cases.push((format!("{compress:?}"), 3, DType::U8, options));
    }
    let plan = |(name, bands, dtype, options): (String, usize, DType, WriteOptions)| {
        let plan = WritePlan::new(ImageShape::new(75, 90, bands, dtype), options).expect(&name);
        let count = 75 * 90 * bands * dtype.size();
        // Values of a few bits, which every codec and every width of samples takes.
        let samples = (0..count).map(|i| if i % dtype.size() == 0 { (i / 40 % 16) as u8 } else { 0 }).collect();
        (name, plan, samples)
    };
    cases.into_iter().map(plan).collect()
}

fn file(plan: &WritePlan, samples: &[u8]) -> Vec<u8> {
    let ImageShape { height, width, bands, dtype } = plan.shape();
    let mut source = ArraySource::from_bytes(samples, dtype, bands, height, width, Layout::BandsLast).unwrap();
    plan.to_bytes(&mut source, &WriteConfig::new().threads(2)).unwrap().0
}

#[test]
fn plan_that_was_json_or_binary_writes_the_same_bytes() {
    for (name, plan, samples) in plans() {
        let expected = file(&plan, &samples);
        let text = serde_json::to_string(&plan).expect(&name);
        let from_text: WritePlan = serde_json::from_str(&text).expect(&name);
        assert!(file(&from_text, &samples) == expected, "{name}: JSON changes the file");
        assert_eq!(serde_json::to_string(&from_text).unwrap(), text, "{name}: the document stays the same");
        let bytes = postcard::to_allocvec(&plan).expect(&name);
        let from_bytes: WritePlan = postcard::from_bytes(&bytes).expect(&name);
        assert!(file(&from_bytes, &samples) == expected, "{name}: the binary form changes the file");
        assert_eq!(postcard::to_allocvec(&from_bytes).unwrap(), bytes, "{name}: the binary form stays the same");
    }
}

#[test]
fn plan_has_no_choice_left_open() {
    let options = WriteOptions::new().cog().blocks(BlockSize::Tiles { height: 16, width: 16 });
    let plan = WritePlan::new(ImageShape::new(70, 40, 4, DType::U8), options).unwrap();
    let document = serde_json::to_value(&plan).unwrap();
    let options = &document["options"];
    assert_eq!(options["overviews"], json!([2, 4, 8]));
    assert_eq!((&options["predictor"], &options["bits"]), (&json!(2), &json!(8)));
    assert_eq!((&options["photometric"], &options["extra_samples"]), (&json!(2), &json!([2])));
    assert_eq!(options["resampling"], "mean");
}

fn document() -> Json {
    let options = WriteOptions::new().cog().blocks(BlockSize::Tiles { height: 16, width: 16 }).metadata(metadata());
    serde_json::to_value(WritePlan::new(ImageShape::new(70, 40, 2, DType::F32), options).unwrap()).unwrap()
}

#[test]
fn another_version_is_a_typed_error_whatever_else_the_document_holds() {
    for other in [json!({"version": 2}), json!({"version": 7, "levels": [1], "options": 3}), json!([3, "a"])] {
        let document: PlanDocument = serde_json::from_value(other).unwrap();
        let error = WritePlan::try_from(document).unwrap_err();
        assert!(matches!(error, PlanError::Version { version: 2 | 3 | 7, supported: 1 }), "{error}");
    }
    let binary: PlanDocument = postcard::from_bytes(&[2, 255, 255]).unwrap();
    assert!(matches!(WritePlan::try_from(binary), Err(PlanError::Version { version: 2, .. })));
    let error = serde_json::from_value::<WritePlan>(json!({"version": 2})).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
    assert!(serde_json::from_value::<WritePlan>(json!({"shape": {}})).is_err());
}

#[test]
fn fields_may_come_in_any_order_but_not_be_unknown() {
    let mut known = document();
    let text =
        format!("{{\"options\":{},\"shape\":{},\"version\":1}}", known["options"].clone(), known["shape"].clone());
    serde_json::from_str::<WritePlan>(&text).unwrap();
    known["options"]["surprise"] = json!(1);
    assert!(serde_json::from_value::<WritePlan>(known).is_err());
}

#[test]
fn hostile_documents_are_errors_not_panics() {
    let huge = u64::MAX;
    let changes: Vec<(&[&str], Json)> = vec![
        (&["shape", "height"], json!(0)),
        (&["shape", "width"], json!(huge)),
        (&["shape", "bands"], json!(huge)),
        (&["shape", "bands"], json!(0)),
        (&["shape", "dtype"], json!("float128")),
        (&["options", "blocks"], json!({"tiles": {"height": 0, "width": 16}})),
        (&["options", "blocks"], json!({"tiles": {"height": 4294967280_u32, "width": 4294967280_u32}})),
        (&["options", "blocks"], json!({"strips": {"rows": 0}})),
        (&["options", "predictor"], json!(9)),
        (&["options", "bits"], json!(0)),
        (&["options", "bits"], json!(65535)),
        (&["options", "overviews"], json!([0])),
        (&["options", "overviews"], json!([4, 2])),
        (&["options", "overviews"], json!([4294967295_u32])),
        (&["options", "resampling"], json!("magic")),
        (&["options", "photometric"], json!(5)),
        (&["options", "extra_tags"], json!([[65000, {"raw": [3, huge, [1]]}]])),
        (&["options", "extra_tags"], json!([[65000, {"raw": [99, 1, [1]]}]])),
        (&["options", "metadata", "rpc"], json!(["1.0"])),
        (&["options", "metadata", "transform"], json!(["x", "1", "1", "1", "1", "1"])),
        (&["options", "codec", "name"], json!("rot13")),
        (&["options", "codec", "level"], json!(i32::MIN)),
        (&["options", "codec", "psnr"], json!("40.0")),
        (&["options", "codec", "quality"], json!("NaN")),
        (&["options", "codec", "jpeg_colour"], json!({"ycbcr": [0, 0]})),
    ];
    for (path, value) in changes {
        let mut hostile = document();
        let last = path.iter().fold(&mut hostile, |at, name| &mut at[*name]);
        *last = value.clone();
        let error = serde_json::from_value::<WritePlan>(hostile);
        assert!(error.is_err(), "{path:?} = {value} is refused");
    }
}

#[test]
fn documents_with_changed_bytes_are_read_or_refused() {
    let plan: WritePlan = serde_json::from_value(document()).unwrap();
    let bytes = postcard::to_allocvec(&plan).unwrap();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            // Whatever it says: it must not panic, and a plan that is read can be stored again.
            if let Ok(plan) = postcard::from_bytes::<WritePlan>(&changed) {
                postcard::to_allocvec(&plan).unwrap();
            }
        }
        assert!(postcard::from_bytes::<WritePlan>(&bytes[..at]).is_err(), "cut off at {at}");
    }
}
