//! One block of a batch, as the kernels read it.

use crate::decode::outcome::BlockStatus;

/// Where the bytes of a block are and where its pixels go: the `Block` of `kernels/prelude.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Block {
    /// First compressed byte, from the start of the batch.
    pub src: u64,
    /// First decoded byte, from the start of the decoded buffer.
    pub dst: u64,
    /// Compressed bytes.
    pub src_len: u32,
    /// Decoded bytes. The decoder must produce exactly this many.
    pub dst_len: u32,
    /// [`SPARSE`](Block::SPARSE), [`TOP`](Block::TOP).
    pub flags: u32,
    /// First row of the requested part of the block.
    pub from_row: u32,
    /// First column of the part.
    pub from_col: u32,
    /// Rows of the part.
    pub rows: u32,
    /// Columns of the part.
    pub cols: u32,
    /// Output row of the first row of the part.
    pub to_row: u32,
    /// Output column of the first column of the part.
    pub to_col: u32,
    /// Output band, in planar files.
    pub band: u32,
    /// Pads the structure to 64 bytes.
    pub reserved: [u32; 2],
}

impl Block {
    /// The file does not store the block: its pixels get the fill value.
    pub const SPARSE: u32 = 1;
    /// Only the first `dst_len` bytes are requested; the compressed stream continues after them.
    pub const TOP: u32 = 2;
}

/// The status code of a block, as the kernels write it: `kernels/prelude.h` has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const OK: Status = Status(0);
    pub(crate) const CUT: Status = Status(1);
    pub(crate) const BROKEN: Status = Status(2);
    pub(crate) const CHECKSUM: Status = Status(3);
    pub(crate) const UNKNOWN_FORM: Status = Status(4);
    /// Only the host reports it: the picture has another size or other samples than the file states.
    pub(crate) const OTHER_PICTURE: Status = Status(5);
    /// A library of NVIDIA rejected the block.
    pub(crate) const REFUSED: Status = Status(6);

    /// Whether the block was decoded.
    pub(crate) fn is_ok(self) -> bool {
        self == Status::OK
    }

    /// The status in words.
    pub(crate) fn reason(self) -> String {
        BlockStatus::from(self).to_string()
    }
}
