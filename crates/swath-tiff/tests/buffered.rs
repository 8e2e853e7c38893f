//! Values that a source has in its buffer when the IFDs are read are not read again, and take a bounded amount of memory.

use std::cell::Cell;
use std::sync::Arc;

use swath_tiff::{Builder, ByteOrder, Header, Limits, ReadAt, Tag, Value, read_chain};

/// A file that is in a buffer as long as `is_open`, and cannot be read afterwards.
struct Buffered {
    bytes: Vec<u8>,
    is_open: Cell<bool>,
    copied: Cell<usize>,
}

impl ReadAt for Buffered {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        if self.is_open.get() { self.bytes.read_at(offset, out) } else { Err(std::io::ErrorKind::NotConnected.into()) }
    }

    fn buffered(&self, offset: u64, len: usize) -> Option<Arc<[u8]>> {
        let bytes = self.bytes.get(offset as usize..)?.get(..len)?;
        self.copied.set(self.copied.get() + len);
        Some(bytes.into())
    }
}

fn source(bytes: Vec<u8>) -> Buffered {
    Buffered { bytes, is_open: Cell::new(true), copied: Cell::new(0) }
}

#[test]
fn short_values_in_the_buffer_are_not_read_again_and_long_ones_are() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = Builder::new(order, false);
        let numbers: Vec<u32> = (0..500).collect();
        file.ifd(&[
            (Tag::IMAGE_WIDTH, Value::Short(vec![7])),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![8, 8, 8])),
            (Tag::TILE_OFFSETS, Value::Long(numbers.clone())),
            (Tag::TILE_BYTE_COUNTS, Value::Long(vec![1; 2000])),
        ]);
        let source = source(file.finish());
        let limits = Limits::default();
        let chain = read_chain(&source, Header::read(&source).unwrap(), &limits).unwrap();
        source.is_open.set(false);
        let fields = chain.links[0].ifd.fields(&source, &limits);
        assert_eq!(fields.uints(Tag::IMAGE_WIDTH).unwrap(), Some(vec![7]));
        assert_eq!(fields.uints(Tag::BITS_PER_SAMPLE).unwrap(), Some(vec![8, 8, 8]));
        assert_eq!(fields.uint(Tag::BITS_PER_SAMPLE).unwrap(), Some(8));
        assert_eq!(
            fields.uints(Tag::TILE_OFFSETS).unwrap().unwrap(),
            numbers.iter().map(|&n| u64::from(n)).collect::<Vec<_>>()
        );
        assert_eq!(fields.first_uints(Tag::TILE_OFFSETS, 2).unwrap(), Some(vec![0, 1]));
        assert!(fields.uints(Tag::TILE_BYTE_COUNTS).is_err(), "8000 bytes stay in the file");
    }
}

#[test]
fn limit_of_a_tag_also_holds_for_values_in_the_buffer() {
    let mut file = Builder::new(ByteOrder::Little, false);
    file.ifd(&[(Tag::BITS_PER_SAMPLE, Value::Short(vec![8; 100]))]);
    let source = source(file.finish());
    let mut limits = Limits::default();
    limits.max_tag_bytes = 199;
    let chain = read_chain(&source, Header::read(&source).unwrap(), &limits).unwrap();
    let error = chain.links[0].ifd.fields(&source, &limits).uints(Tag::BITS_PER_SAMPLE).unwrap_err();
    assert!(error.to_string().contains("max_tag_bytes"), "{error}");
}

#[test]
fn many_entries_that_share_their_values_do_not_multiply_them_in_memory() {
    // 4000 entries, all of which have the same 4000 bytes.
    let mut bytes = b"II*\0\x08\0\0\0".to_vec();
    bytes.extend(4000_u16.to_le_bytes());
    for tag in 0..4000_u16 {
        bytes.extend((1000 + tag).to_le_bytes());
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(4000_u32.to_le_bytes());
        bytes.extend(8_u32.to_le_bytes());
    }
    bytes.extend([0; 4]);
    let source = source(bytes);
    let chain = read_chain(&source, Header::read(&source).unwrap(), &Limits::default()).unwrap();
    assert_eq!(chain.links[0].ifd.entries.len(), 4000);
    assert!((4000..=65536).contains(&source.copied.get()), "{} bytes", source.copied.get());
}
