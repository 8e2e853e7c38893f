//! One block of a batch, as the kernels see it.

/// Where the bytes of a block lie and where its pixels go: the `Block` of `kernels/prelude.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Block {
    /// First compressed byte, from the start of the batch.
    pub src: u64,
    /// First decoded byte, from the start of the decoded buffer.
    pub dst: u64,
    /// Compressed bytes.
    pub src_len: u32,
    /// Decoded bytes: exactly so many must come out.
    pub dst_len: u32,
    /// [`SPARSE`](Block::SPARSE), [`TOP`](Block::TOP).
    pub flags: u32,
    /// First row of the part of the block that is wanted.
    pub from_row: u32,
    /// First column of it.
    pub from_col: u32,
    /// Its rows.
    pub rows: u32,
    /// Its columns.
    pub cols: u32,
    /// The output row that its first row goes to.
    pub to_row: u32,
    /// The output column that its first column goes to.
    pub to_col: u32,
    /// The output band, in planar files.
    pub band: u32,
    /// Room up to 64 bytes.
    pub reserved: [u32; 2],
}

impl Block {
    /// The block is not stored: its pixels are filled.
    pub const SPARSE: u32 = 1;
    /// Only the first `dst_len` bytes are wanted; the stream goes on behind them.
    pub const TOP: u32 = 2;
}

/// What a device says of a block that it decoded: 0 is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    pub(crate) const OK: Status = Status(0);
    pub(crate) const CUT: Status = Status(1);
    pub(crate) const BROKEN: Status = Status(2);
    pub(crate) const UNKNOWN_FORM: Status = Status(4);
    /// What only the host finds out: a picture of another size or of other samples than the file announces.
    pub(crate) const OTHER_PICTURE: Status = Status(5);
    /// A library of NVIDIA's did not take it.
    pub(crate) const REFUSED: Status = Status(6);

    /// Whether the pixels are there.
    pub fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether it is up to who decodes: nothing was found to be wrong with the block itself, so that another decoder may take it.
    pub fn is_of_decoder(self) -> bool {
        matches!(self, Status::UNKNOWN_FORM | Status::REFUSED)
    }

    /// What the kernel found, in words.
    pub fn reason(self) -> &'static str {
        match self.0 {
            0 => "decoded",
            1 => "the stream ends too early",
            2 => "the stream breaks the rules of its format",
            3 => "the checksum does not match",
            4 => "this form of the format is not known there",
            5 => "it is another picture than the file announces",
            6 => "NVIDIA's library does not decode it",
            _ => "the kernel failed",
        }
    }
}
