//! A cache of decoded blocks for later reads.
//!
//! Windows usually use only a part of the blocks at their edges, and the next window may need the rest. So
//! the cache keeps a block if a read uses only a part of it. It does not keep a block that a read uses whole:
//! reading a file once from end to end keeps nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use swath_tiff::BlockGrid;

use crate::dataset::image::Image;
use crate::dataset::level::Level;
use crate::read::plan::{BlockCoord, PlannedBlock, ReadPlan};

/// The largest block that the cache keeps, in bytes.
const LARGEST: u64 = 4 << 20;

/// `try_lock` attempts before the block counts as a cache miss. Other threads hold the lock only for a table
/// lookup.
const TRIES: usize = 1000;

/// A cache of decoded blocks of any number of files, up to a number of bytes. It evicts the least recently
/// used blocks first.
///
/// Pass one to [`ReadRequest::cache`](crate::ReadRequest::cache). All clones and all threads share the same
/// cache.
#[derive(Debug, Clone)]
pub struct BlockCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    kept: HashMap<Key, Kept>,
    /// The keys, ordered by the time of their last use.
    by_age: BTreeMap<u64, Key>,
    now: u64,
    bytes: u64,
}

/// The id of the level and the position in it: plane, row, column.
type Key = (u64, u64, u64, u64);

#[derive(Debug)]
struct Kept {
    pixels: Arc<Vec<u8>>,
    used: u64,
}

impl BlockCache {
    /// Creates a cache of at most `limit` bytes. A cache of 0 bytes keeps nothing.
    pub fn new(limit: u64) -> BlockCache {
        BlockCache(Arc::new(Shared { limit, blocks: Mutex::default() }))
    }

    /// The number of bytes in the cache.
    pub fn bytes(&self) -> u64 {
        self.lock().map_or(0, |blocks| blocks.bytes)
    }

    /// Removes the blocks of an image that is not needed any more.
    pub fn forget(&self, image: &Image) {
        let Some(mut blocks) = self.lock() else { return };
        let gone = |key: &Key| image.levels.iter().chain(&image.masks).any(|level| level.id == key.0);
        let keys: Vec<Key> = blocks.kept.keys().copied().filter(gone).collect();
        keys.into_iter().for_each(|key| blocks.remove(key));
    }

    /// Returns the pixels of a block, if they are cached.
    pub(crate) fn get(&self, level: &Level, coord: BlockCoord) -> Option<Arc<Vec<u8>>> {
        self.lock()?.get(key(level, coord))
    }

    /// Counts the blocks of a read that are cached, because these need no thread. Reads of many blocks are
    /// not looked up and give 0.
    pub(crate) fn count(&self, plan: &ReadPlan<'_>) -> u64 {
        const MOST: u64 = 256;
        let all = plan.all_blocks();
        if plan.count(&all) > MOST {
            return 0;
        }
        let Some(blocks) = self.lock() else { return 0 };
        plan.blocks(&all).filter(|block| blocks.kept.contains_key(&key(plan.level, block.coord))).count() as u64
    }

    /// Whether to cache a block of which the read uses only a part. A cached block is decoded whole, and
    /// decoding a large block costs more than the next window may save.
    pub(crate) fn wants(&self, level: &Level, block: &PlannedBlock) -> bool {
        level.block_bytes() <= LARGEST.min(self.0.limit / 4) && is_cut(&level.blocks.grid, block)
    }

    /// Adds the pixels of a block and evicts others if necessary.
    pub(crate) fn keep(&self, level: &Level, coord: BlockCoord, pixels: Vec<u8>) {
        let pixels = Arc::new(pixels);
        if let Some(mut blocks) = self.lock() {
            blocks.insert(key(level, coord), pixels);
            while blocks.bytes > self.0.limit {
                let Some((_, oldest)) = blocks.by_age.pop_first() else { return };
                blocks.remove(oldest);
            }
        }
    }

    /// Locks the table, or returns `None` if it is busy: a busy cache counts as empty. Waiting for the lock
    /// could block forever in the child of a process that forked while another thread held the lock.
    fn lock(&self) -> Option<MutexGuard<'_, Blocks>> {
        for _ in 0..TRIES {
            match self.0.blocks.try_lock() {
                Ok(blocks) => return Some(blocks),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }
}

impl Blocks {
    fn get(&mut self, key: Key) -> Option<Arc<Vec<u8>>> {
        self.now += 1;
        let kept = self.kept.get_mut(&key)?;
        self.by_age.remove(&kept.used);
        kept.used = self.now;
        self.by_age.insert(self.now, key);
        Some(Arc::clone(&kept.pixels))
    }

    fn insert(&mut self, key: Key, pixels: Arc<Vec<u8>>) {
        self.remove(key);
        self.now += 1;
        self.bytes += pixels.len() as u64;
        self.by_age.insert(self.now, key);
        self.kept.insert(key, Kept { pixels, used: self.now });
    }

    fn remove(&mut self, key: Key) {
        if let Some(kept) = self.kept.remove(&key) {
            self.bytes -= kept.pixels.len() as u64;
            self.by_age.remove(&kept.used);
        }
    }
}

/// Whether the read uses only a part of the block.
fn is_cut(grid: &BlockGrid, PlannedBlock { coord, rows, cols, .. }: &PlannedBlock) -> bool {
    let high = grid.decoded_height(coord.row).min(grid.height - coord.row * grid.block_height);
    let wide = grid.block_width.min(grid.width - coord.col * grid.block_width);
    (rows.end - rows.start, cols.end - cols.start) != (high, wide)
}

fn key(level: &Level, coord: BlockCoord) -> Key {
    (level.id, coord.plane, coord.row, coord.col)
}

/// Returns an id that no other level has.
pub(crate) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(value: u8) -> Arc<Vec<u8>> {
        Arc::new(vec![value; 100])
    }

    #[test]
    fn the_least_recently_used_block_is_evicted_first() {
        let cache = BlockCache::new(1000);
        let mut blocks = cache.lock().unwrap();
        blocks.insert((0, 0, 0, 0), pixels(0));
        blocks.insert((0, 0, 0, 1), pixels(1));
        assert_eq!(blocks.get((0, 0, 0, 0)).unwrap()[0], 0);
        let (_, oldest) = blocks.by_age.pop_first().unwrap();
        assert_eq!(oldest, (0, 0, 0, 1));
        blocks.remove(oldest);
        assert_eq!((blocks.bytes, blocks.kept.len(), blocks.by_age.len()), (100, 1, 1));
    }

    #[test]
    fn a_block_added_twice_is_counted_once() {
        let mut blocks = Blocks::default();
        blocks.insert((0, 0, 0, 0), pixels(0));
        blocks.insert((0, 0, 0, 0), pixels(1));
        assert_eq!((blocks.bytes, blocks.by_age.len()), (100, 1));
        assert_eq!(blocks.get((0, 0, 0, 0)).unwrap()[0], 1);
    }

    #[test]
    fn a_busy_cache_counts_as_empty_and_does_not_deadlock() {
        let cache = BlockCache::new(1000);
        let held = cache.0.blocks.lock().unwrap();
        assert_eq!(cache.bytes(), 0);
        assert!(cache.lock().is_none());
        drop(held);
        assert!(cache.lock().is_some());
    }
}
