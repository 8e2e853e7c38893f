//! Files that are held in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{ReadAt, Result, Source};

/// The bytes of a file.
#[derive(Debug, Clone)]
pub struct Memory(Arc<[u8]>);

impl Memory {
    /// Wraps the bytes of a file.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Memory {
        Memory(bytes.into())
    }
}

impl ReadAt for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.as_ref().read_at(offset, out)
    }
}

impl Source for Memory {
    fn name(&self) -> String {
        format!("{} bytes in memory", self.0.len())
    }

    fn sibling(&self, _change: &dyn Fn(&Path) -> PathBuf) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }
}
