//! The cache of decoded blocks: the pixels are the same, and fewer blocks are decoded.

use swath::read::BlockCache;
use swath::write::{BlockSize, ImageShape};
use swath::{ArraySource, Compress, Dataset, Layout, Predictor, ReadRequest, WriteConfig, WriteOptions, WritePlan};

const SIDE: u64 = 300;

fn file(compress: Compress) -> Dataset {
    let samples: Vec<u16> = (0..SIDE * SIDE * 2).map(|i| (i * i % 65521) as u16).collect();
    let options = WriteOptions::default()
        .compression(compress)
        .blocks(BlockSize::Tiles { width: 64, height: 64 })
        .predictor(Predictor::None);
    let mut source = ArraySource::new(&samples, 2, SIDE, SIDE, Layout::BandsFirst).unwrap();
    let plan = WritePlan::new(ImageShape::new(SIDE, SIDE, 2, swath::DType::U16), options).unwrap();
    let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
    Dataset::from_bytes(bytes).unwrap()
}

#[test]
fn windows_are_equal_with_and_without_cache_and_no_block_is_decoded_twice() {
    for compress in [Compress::Deflate { level: 1 }, Compress::Jpeg2000(swath_codec::jpeg2000::Quality::Lossless)] {
        let (_, decoded) = windows(compress);
        // 5 x 5 tiles. Tiles that a window uses whole are decoded each time.
        assert!(decoded <= 25 + 12, "{decoded} blocks were decoded");
    }
}

#[test]
fn uncompressed_rows_do_not_evict_decoded_blocks() {
    let (cache, _) = windows(Compress::None);
    assert_eq!(cache.bytes(), 0);
}

/// Reads windows of a file with and without a cache and checks that they are equal. Returns the cache and the
/// number of decoded blocks.
fn windows(compress: Compress) -> (BlockCache, u64) {
    let dataset = file(compress);
    let image = dataset.image(0).unwrap();
    let cache = BlockCache::new(64 << 20);
    let mut decoded = 0;
    for (row, col) in [(3, 5), (40, 40), (10, 100), (199, 201), (3, 5), (60, 0)] {
        for bands in [vec![0], vec![1, 0]] {
            let request = ReadRequest::new().window(row..row + 99, col..col + 99).bands(bands);
            let kept = image.read(&request.clone().cache(&cache)).unwrap();
            assert_eq!(kept.pixels, image.read(&request).unwrap().pixels);
            decoded += kept.report.blocks;
        }
    }
    (cache, decoded)
}

#[test]
fn full_read_keeps_no_blocks_and_forgotten_images_leave_none() {
    let dataset = file(Compress::Lzw);
    let image = dataset.image(0).unwrap();
    let cache = BlockCache::new(64 << 20);
    image.read(&ReadRequest::new().cache(&cache)).unwrap();
    assert_eq!(cache.bytes(), 0);
    image.read(&ReadRequest::new().window(1..2, 1..2).cache(&cache)).unwrap();
    assert_eq!(cache.bytes(), 64 * 64 * 2 * 2);
    cache.forget(&image);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn files_do_not_see_each_others_blocks_and_the_limit_holds() {
    let cache = BlockCache::new(5 * 64 * 64 * 4);
    let files = [file(Compress::Lzw), file(Compress::Zstd { level: 1 })];
    for _ in 0..3 {
        for dataset in &files {
            let image = dataset.image(0).unwrap();
            for at in 0..8 {
                let request = ReadRequest::new().window(at * 30..at * 30 + 40, at * 30..at * 30 + 40);
                let kept = image.read(&request.clone().cache(&cache)).unwrap();
                assert_eq!(kept.pixels, image.read(&request).unwrap().pixels);
                assert!(cache.bytes() <= 5 * 64 * 64 * 4);
            }
        }
    }
}
