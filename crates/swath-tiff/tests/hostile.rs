//! Containers with wrong numbers, cycles or missing ends. Each is a typed error before any large allocation.

use swath_tiff::{
    Builder, ByteOrder, Chain, Error, FieldType, Header, Ifd, ImageLayout, Limits, Roles, Tag, Value, read_chain,
};

const ORDERS: [(ByteOrder, bool); 4] =
    [(ByteOrder::Little, false), (ByteOrder::Big, false), (ByteOrder::Little, true), (ByteOrder::Big, true)];

/// The smallest set of tags that describes an image.
fn image(width: u32, height: u32) -> Vec<(Tag, Value)> {
    vec![
        (Tag::IMAGE_WIDTH, Value::Long(vec![width])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![height])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![8])),
        (Tag::STRIP_OFFSETS, Value::Long(vec![8])),
        (Tag::STRIP_BYTE_COUNTS, Value::Long(vec![width.wrapping_mul(height)])),
    ]
}

/// Returns `image` with one tag replaced or added.
fn with(tag: Tag, value: Value) -> Vec<(Tag, Value)> {
    let mut tags = image(4, 4);
    tags.retain(|(other, _)| *other != tag);
    tags.push((tag, value));
    tags
}

fn layout(tags: &[(Tag, Value)]) -> Result<ImageLayout, Error> {
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.ifd(tags);
    let bytes = builder.finish();
    let header = Header::read(bytes.as_slice())?;
    let ifd = Ifd::read(bytes.as_slice(), header, header.first_ifd, &Limits::default())?;
    ImageLayout::read(&ifd, bytes.as_slice(), &Limits::default())
}

fn chain(bytes: &[u8]) -> Chain {
    read_chain(bytes, Header::read(bytes).unwrap(), &Limits::default()).unwrap()
}

fn chain_error(bytes: &[u8]) -> Error {
    let header = Header::read(bytes).unwrap();
    read_chain(bytes, header, &Limits::default()).unwrap_err()
}

#[test]
fn built_file_is_read_back_in_every_byte_order_and_offset_width() {
    for (order, big) in ORDERS {
        let mut builder = Builder::new(order, big);
        let mut tags = image(300, 200);
        tags.push((Tag::MODEL_PIXEL_SCALE, Value::Double(vec![0.5, -0.25, 1e300])));
        tags.push((Tag::SOFTWARE, Value::Text("swath".into())));
        builder.ifd(&tags);
        builder.ifd(&image(7, 5));
        let bytes = builder.finish();
        let header = Header::read(bytes.as_slice()).unwrap();
        assert_eq!((header.order, header.big), (order, big));
        let limits = Limits::default();
        let chain = read_chain(bytes.as_slice(), header, &limits).unwrap();
        assert_eq!(chain.links.len(), 2);
        let fields = chain.links[0].ifd.fields(bytes.as_slice(), &limits);
        assert_eq!(fields.uint(Tag::IMAGE_WIDTH).unwrap(), Some(300));
        assert_eq!(fields.floats(Tag::MODEL_PIXEL_SCALE).unwrap().unwrap(), [0.5, -0.25, 1e300]);
        assert_eq!(fields.text(Tag::SOFTWARE).unwrap().unwrap(), "swath");
        assert_eq!(fields.uint(Tag::ARTIST).unwrap(), None);
    }
}

#[test]
fn signed_float_and_rational_fields_keep_their_values() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = |value: i32| if order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let float = if order == ByteOrder::Big { 1.5_f32.to_be_bytes() } else { 1.5_f32.to_le_bytes() };
        let mut builder = Builder::new(order, false);
        builder.ifd(&[
            (Tag(65000), Value::Raw(FieldType::SLONG, 1, bytes(-7).to_vec())),
            (Tag(65001), Value::Raw(FieldType::SBYTE, 2, vec![0xff, 2])),
            (Tag(65002), Value::Raw(FieldType::FLOAT, 1, float.to_vec())),
            (Tag(65003), Value::Raw(FieldType::SRATIONAL, 1, [bytes(-1), bytes(4)].concat())),
            (Tag(65004), Value::Raw(FieldType::RATIONAL, 1, [bytes(1), bytes(0)].concat())),
            (Tag(65005), Value::Raw(FieldType(99), 1, vec![1])),
        ]);
        let bytes = builder.finish();
        let header = Header::read(bytes.as_slice()).unwrap();
        let ifd = Ifd::read(bytes.as_slice(), header, header.first_ifd, &Limits::default()).unwrap();
        let limits = Limits::default();
        let fields = ifd.fields(bytes.as_slice(), &limits);
        assert_eq!(fields.ints(Tag(65000)).unwrap().unwrap(), [-7]);
        assert_eq!(fields.ints(Tag(65001)).unwrap().unwrap(), [-1, 2]);
        assert_eq!(fields.floats(Tag(65002)).unwrap().unwrap(), [1.5]);
        assert_eq!(fields.floats(Tag(65003)).unwrap().unwrap(), [-0.25]);
        assert!(fields.floats(Tag(65004)).unwrap().unwrap()[0].is_infinite());
        assert!(matches!(fields.uints(Tag(65000)), Err(Error::TagType { .. })), "-7 is not an unsigned number");
        assert!(matches!(fields.bytes(Tag(65005)), Err(Error::TagType { .. })), "type 99 has no size");
    }
}

#[test]
fn file_that_is_not_a_tiff_is_an_error() {
    assert!(matches!(Header::read(b"".as_slice()), Err(Error::TooShort { size: 0 })));
    assert!(matches!(Header::read(b"II*\0\x08\0\0".as_slice()), Err(Error::TooShort { size: 7 })));
    assert!(matches!(Header::read(b"\x89PNG\r\n\x1a\n".as_slice()), Err(Error::NotTiff { .. })));
    assert!(matches!(Header::read(b"II+\0\x08\0\0\0".as_slice()), Err(Error::TooShort { size: 8 })));
    let other_width = b"II+\0\x10\0\0\0\x10\0\0\0\0\0\0\0";
    assert!(matches!(Header::read(other_width.as_slice()), Err(Error::OffsetSize { size: 16 })));
}

#[test]
fn ifd_past_the_end_is_an_error() {
    assert!(matches!(chain_error(b"II*\0\xff\xff\xff\xff"), Error::PastEnd { .. }));
    assert!(matches!(chain_error(b"II*\0\x00\0\0\0"), Error::NoIfd));
    assert!(matches!(chain_error(b"II*\0\x08\0\0\0\xff\x0f"), Error::PastEnd { .. }), "4095 entries do not fit");
}

#[test]
fn ifd_with_too_many_entries_is_refused_before_they_are_read() {
    let too_many = |error| matches!(error, Error::Limit { name: "max_ifd_entries", .. });
    assert!(too_many(chain_error(b"II*\0\x08\0\0\0\xff\xff")), "65535");
    let mut huge = b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0".to_vec();
    huge.extend(u64::MAX.to_le_bytes());
    assert!(too_many(chain_error(&huge)), "2^64");
}

#[test]
fn chain_that_returns_to_itself_is_a_cycle() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    let first = builder.ifd(&image(1, 1));
    builder.ifd(&image(1, 1));
    let mut bytes = builder.finish();
    let link = bytes.len() - 4;
    bytes[link..].copy_from_slice(&(first as u32).to_le_bytes());
    let chain = chain(&bytes);
    assert_eq!(chain.links.len(), 2, "both images can be read");
    assert!(matches!(*chain.broken.unwrap(), Error::Cycle { offset } if offset == first));
}

#[test]
fn chain_that_ends_in_nonsense_keeps_the_images_before_it() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.ifd(&image(1, 1));
    let bytes = builder.finish();
    let link = bytes.len() - 4;
    let with_next = |next: u32, tail: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[link..].copy_from_slice(&next.to_le_bytes());
        bytes.extend_from_slice(tail);
        bytes
    };
    let end = bytes.len() as u32;
    let is_past_end = |error: &Error| matches!(error, Error::PastEnd { .. });
    let is_no_ifd = |error: &Error| matches!(error, Error::NotAnIfd { .. });
    let is_limit = |error: &Error| matches!(error, Error::Limit { name: "max_ifd_entries", .. });
    let cases = [
        (with_next(end + 100, &[]), is_past_end as fn(&Error) -> bool),
        (with_next(u32::MAX, &[]), is_past_end),
        (with_next(end, &[0; 40]), is_no_ifd),
        (with_next(end, &[0xff; 40]), is_limit),
        (with_next(end, &[&[2, 0][..], &[0xee; 40]].concat()), is_no_ifd),
    ];
    for (number, (bytes, expected)) in cases.iter().enumerate() {
        let chain = chain(bytes);
        assert_eq!(chain.links.len(), 1);
        let broken = chain.broken.unwrap();
        assert!(expected(&broken), "case {number}: {broken}");
    }
    assert!(chain(&bytes).broken.is_none());
}

#[test]
fn sub_ifd_that_is_its_own_parent_is_a_cycle() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.append(&[0; 2]);
    let offset = 10;
    let first = builder.ifd(&[(Tag::SUB_IFDS, Value::Ifd(vec![offset]))]);
    assert_eq!(first, u64::from(offset));
    let chain = chain(&builder.finish());
    assert_eq!((chain.links.len(), chain.links[0].subs.len()), (1, 0));
    assert!(matches!(*chain.broken.unwrap(), Error::Cycle { .. }));
}

#[test]
fn endless_chain_stops_at_the_limit() {
    let mut builder = Builder::new(ByteOrder::Big, false);
    for _ in 0..300 {
        builder.ifd(&image(1, 1));
    }
    let bytes = builder.finish();
    assert!(matches!(chain_error(&bytes), Error::Limit { name: "max_ifds", .. }));
    let mut limits = Limits::default();
    limits.max_ifds = 300;
    let header = Header::read(bytes.as_slice()).unwrap();
    assert_eq!(read_chain(bytes.as_slice(), header, &limits).unwrap().links.len(), 300);
}

#[test]
fn two_different_widths_are_an_error_but_two_comments_are_not() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    let mut tags = image(4, 4);
    tags.push((Tag::SOFTWARE, Value::Text("one".into())));
    tags.push((Tag::SOFTWARE, Value::Text("two".into())));
    builder.ifd(&tags);
    let bytes = builder.finish();
    let header = Header::read(bytes.as_slice()).unwrap();
    assert!(read_chain(bytes.as_slice(), header, &Limits::default()).is_ok());
    tags.push((Tag::IMAGE_WIDTH, Value::Long(vec![5])));
    let mut builder = Builder::new(ByteOrder::Little, false);
    builder.ifd(&tags);
    assert!(matches!(chain_error(&builder.finish()), Error::DuplicateTag { tag: Tag::IMAGE_WIDTH, .. }));
}

#[test]
fn value_longer_than_the_limit_or_the_file_is_not_allocated() {
    let limits = Limits::default();
    for (count, over_limit) in [(1_000_u32, false), (u32::MAX, true)] {
        let mut builder = Builder::new(ByteOrder::Little, false);
        builder.ifd(&[(Tag::GEO_DOUBLE_PARAMS, Value::Raw(FieldType::DOUBLE, count.into(), vec![0; 16]))]);
        let bytes = builder.finish();
        let header = Header::read(bytes.as_slice()).unwrap();
        let ifd = Ifd::read(bytes.as_slice(), header, header.first_ifd, &Limits::default()).unwrap();
        match ifd.fields(bytes.as_slice(), &limits).floats(Tag::GEO_DOUBLE_PARAMS) {
            Err(Error::Limit { name: "max_tag_bytes", .. }) => assert!(over_limit),
            Err(Error::PastEnd { .. }) => assert!(!over_limit),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn layout_without_pixels_or_with_absurd_numbers_is_refused() {
    assert!(layout(&image(4, 4)).is_ok());
    for (tag, value) in [
        (Tag::IMAGE_WIDTH, 0),
        (Tag::IMAGE_LENGTH, 0),
        (Tag::SAMPLES_PER_PIXEL, 0),
        (Tag::BITS_PER_SAMPLE, 0),
        (Tag::BITS_PER_SAMPLE, 65535),
        (Tag::SAMPLE_FORMAT, 9),
    ] {
        let result = layout(&with(tag, Value::Long(vec![value])));
        assert!(matches!(result, Err(Error::TagValue { .. })), "{tag} {value}: {result:?}");
    }
    let mut tiled = with(Tag::TILE_WIDTH, Value::Short(vec![0]));
    tiled.push((Tag::TILE_LENGTH, Value::Short(vec![16])));
    assert!(matches!(layout(&tiled), Err(Error::TagValue { tag: Tag::TILE_WIDTH, .. })));
    let mut missing = image(4, 4);
    missing.retain(|(tag, _)| *tag != Tag::STRIP_OFFSETS);
    assert!(matches!(layout(&missing), Err(Error::MissingTag { tag: Tag::STRIP_OFFSETS, .. })));
    let mixed = vec![
        (Tag::IMAGE_WIDTH, Value::Long(vec![4])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![4])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![3])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![5, 6, 5])),
        (Tag::STRIP_OFFSETS, Value::Long(vec![8])),
    ];
    assert!(matches!(layout(&mixed), Err(Error::TagValue { tag: Tag::BITS_PER_SAMPLE, value: 6, .. })));
    let mut texts = with(Tag::STRIP_OFFSETS, Value::Text("x".into()));
    assert!(matches!(layout(&texts), Err(Error::TagType { .. })));
    texts = image(u32::MAX, u32::MAX);
    texts.push((Tag::SAMPLES_PER_PIXEL, Value::Short(vec![65535])));
    assert!(matches!(layout(&texts), Err(Error::Overflow { .. })));
}

#[test]
fn strips_without_rows_per_strip_or_with_infinite_rows_are_one_strip() {
    for rows in [None, Some(0), Some(u32::MAX), Some(1000)] {
        let mut tags = image(4, 4);
        tags.extend(rows.map(|rows| (Tag::ROWS_PER_STRIP, Value::Long(vec![rows]))));
        let grid = layout(&tags).unwrap().grid;
        assert_eq!((grid.block_height, grid.count()), (4, Some(1)), "{rows:?}");
    }
}

#[test]
fn table_is_read_by_index_and_blocks_beyond_it_are_sparse() {
    let mut builder = Builder::new(ByteOrder::Little, true);
    let mut tags = with(Tag::ROWS_PER_STRIP, Value::Long(vec![1]));
    tags.retain(|(tag, _)| !matches!(*tag, Tag::STRIP_OFFSETS | Tag::STRIP_BYTE_COUNTS));
    tags.push((Tag::STRIP_OFFSETS, Value::Long8(vec![100, 0, 300])));
    tags.push((Tag::STRIP_BYTE_COUNTS, Value::Short(vec![10, 20, 30])));
    builder.ifd(&tags);
    let bytes = builder.finish();
    let header = Header::read(bytes.as_slice()).unwrap();
    let ifd = Ifd::read(bytes.as_slice(), header, header.first_ifd, &Limits::default()).unwrap();
    let layout = ImageLayout::read(&ifd, bytes.as_slice(), &Limits::default()).unwrap();
    let mut spans = Vec::new();
    layout.table.spans(bytes.as_slice(), 1, 3, &mut spans).unwrap();
    let got: Vec<_> = spans.iter().map(|span| (span.offset, span.len)).collect();
    assert_eq!(got, [(0, 0), (300, 30), (0, 0)]);
}

#[test]
fn planar_table_that_leaves_out_bands_is_an_error_not_zeros() {
    let planar = |offsets: usize, counts: usize| {
        let mut tags = with(Tag::ROWS_PER_STRIP, Value::Long(vec![2]));
        tags.retain(|(tag, _)| {
            !matches!(*tag, Tag::STRIP_OFFSETS | Tag::STRIP_BYTE_COUNTS | Tag::BITS_PER_SAMPLE | Tag::SAMPLES_PER_PIXEL)
        });
        tags.push((Tag::BITS_PER_SAMPLE, Value::Short(vec![8; 3])));
        tags.push((Tag::SAMPLES_PER_PIXEL, Value::Short(vec![3])));
        tags.push((Tag::PLANAR_CONFIGURATION, Value::Short(vec![2])));
        tags.push((Tag::STRIP_OFFSETS, Value::Long(vec![8; offsets])));
        tags.push((Tag::STRIP_BYTE_COUNTS, Value::Long(vec![8; counts])));
        layout(&tags)
    };
    assert_eq!(planar(6, 6).unwrap().grid.count(), Some(6));
    for (offsets, counts) in [(2, 2), (5, 6), (6, 5)] {
        let error = planar(offsets, counts).unwrap_err();
        let found = offsets.min(counts) as u64;
        assert!(matches!(error, Error::ShortTable { wanted: 6, found: short, .. } if short == found), "{error}");
    }
}

#[test]
fn pages_overviews_and_masks_are_distinguished() {
    let mut builder = Builder::new(ByteOrder::Little, false);
    let of_kind = |kind: u32| with(Tag::NEW_SUBFILE_TYPE, Value::Long(vec![kind]));
    let sub = builder.sub_ifd(&of_kind(1));
    let mut first = of_kind(0);
    first.push((Tag::SUB_IFDS, Value::Ifd(vec![sub as u32])));
    builder.ifd(&first);
    for kind in [4, 1, 5, 2, 1] {
        builder.ifd(&of_kind(kind));
    }
    let bytes = builder.finish();
    let header = Header::read(bytes.as_slice()).unwrap();
    let limits = Limits::default();
    let chain = read_chain(bytes.as_slice(), header, &limits).unwrap();
    let roles = Roles::of(&chain, bytes.as_slice(), &limits);
    let counts: Vec<_> = roles
        .images
        .iter()
        .map(|image| (image.overviews.len(), image.mask.is_some(), image.mask_overviews.len()))
        .collect();
    assert_eq!(counts, [(2, true, 1), (1, false, 0)]);
}
