// Copies decoded blocks to the output: the requested part of each block, with samples in native order, in the
// requested layout.
//
// The parts of a block share its requested samples in the order of the output, and so do the items of a group:
// neighbouring items write neighbouring samples. The next sample of an item is found by counting three digits
// up and not by another division. Runs of bytes that are the same in the block and in the output are moved in
// the widest words that both allow.

// Each item checks by itself whether the bands are requested in order, so the number of bands that it checks is
// limited.
#define PLACE_RUN_BANDS 64u

KERNEL(256)
place(GLOBAL const u8 *batch, GLOBAL const u8 *decoded, GLOBAL const u32 *status, GLOBAL u8 *out, u64 out_at,
      u64 row_stride, u64 pixel_stride, u64 band_stride, u64 bands_at, u32 bands, u32 planar, u32 row_bytes, u32 width,
      u32 samples, u32 bits, u32 size, u32 mode, u32 swap, u64 fill_low, u64 fill_high, u32 parts) {
  u32 number = GRP / parts;
  u32 part = GRP - number * parts;
  GLOBAL const Block *block = &BLOCK(batch, number);
  if (status[number] != STATUS_OK || block->rows == 0 || block->cols == 0 || bands == 0) return;
  u32 sparse = (block->flags & BLOCK_SPARSE) != 0;
  u32 cols = block->cols;
  u64 from_col = block->from_col;
  GLOBAL const u32 *band_list = (GLOBAL const u32 *)(batch + bands_at);
  GLOBAL const u8 *from = decoded + block->dst + (u64)block->from_row * row_bytes;
  GLOBAL u8 *to = out + out_at + block->to_row * row_stride + block->to_col * pixel_stride;
  if (planar) to += block->band * band_stride;  // `bands` is 1 then, so no other band offset is added

  if (mode == PLACE_COMPONENTS && samples <= 1) mode = PLACE_STORED;
  u32 plane = mode == PLACE_COMPONENTS ? block->dst_len / samples : 0;
  u32 run = mode == PLACE_STORED && !sparse && pixel_stride == (u64)samples * size &&
            (samples == 1 || band_stride == size) && (planar || (bands == samples && bands <= PLACE_RUN_BANDS));
  for (u32 band = 0; run && !planar && band < bands; band++) run = band_list[band] == band;
  if (run) {
    // A row is now `cols` words of `size` bytes, one per pixel.
    u64 length = (u64)cols * samples * size;
    from += from_col * samples * size;
    u64 all = (u64)from | (u64)to | row_bytes | row_stride | length;
    u32 word = 16;
    while ((all & (word - 1)) != 0) word /= 2;
    // Words narrower than the swapped unit would split it: then the copy goes sample by sample, at any
    // alignment.
    if (word < swap) word = size;
    size = word;
    cols = (u32)(length / word);
    pixel_stride = word;
    band_stride = word;
    from_col = 0;
    bands = 1;
    samples = 1;
  }

  u32 pieces = size == 16 ? 2 : 1;
  u32 piece = size / pieces;
  u32 typed_load = (((u64)from | row_bytes | plane) & (piece - 1)) == 0;
  u32 typed_store = (((u64)to | row_stride | pixel_stride | band_stride) & (piece - 1)) == 0;
  u32 vector = run && size == 16 && swap == 0;

  // The digits are (band, column, row) if the bands of a pixel are interleaved, otherwise (column, row, band).
  u32 bands_last = bands > 1 && band_stride < pixel_stride;
  u32 low_end = bands_last ? bands : cols;
  u32 middle_end = bands_last ? cols : block->rows;
  u64 total = (u64)block->rows * cols * bands;
  u64 share = ((total + parts - 1) / parts + 255) / 256 * 256;
  u64 at = part * share + LID;
  u64 end = (part + 1) * share < total ? (part + 1) * share : total;
  u64 line = at / low_end;
  u32 low = (u32)(at - line * low_end);
  u32 high = (u32)(line / middle_end);
  u32 middle = (u32)(line - (u64)high * middle_end);
  u32 line_step = 256 / low_end;
  u32 low_step = 256 - line_step * low_end;
  u32 high_step = line_step / middle_end;
  u32 middle_step = line_step - high_step * middle_end;

  for (; at < end; at += 256) {
    u32 band = bands_last ? low : high;
    u32 col = bands_last ? middle : low;
    u32 row = bands_last ? high : middle;
    GLOBAL u8 *target = to + row * row_stride + col * pixel_stride + band * band_stride;
    u64 sample = planar || run ? 0 : band_list[band];
    GLOBAL const u8 *source = from + (u64)row * row_bytes + sample * plane;
    u64 index = plane != 0 ? from_col + col : (from_col + col) * samples + sample;
    if (sparse) {
      store_sample(target, fill_low, piece, typed_store);
      if (pieces == 2) store_sample(target + 8, fill_high, piece, typed_store);
    } else if (vector) {
      *(GLOBAL uint4 *)target = *(GLOBAL const uint4 *)(source + index * 16);
    } else if (mode == PLACE_PLANES) {
      store_sample(target, join_planes(source + index, (u64)width * samples, size), size, typed_store);
    } else if (mode == PLACE_BITS) {
      store_sample(target, unpack_bits(source, index * bits, bits), size, typed_store);
    } else {
      for (u32 k = 0; k < pieces; k++) {
        u64 value = load_sample(source + index * size + k * 8, piece, typed_load);
        store_sample(target + k * 8, swap_units(value, swap), piece, typed_store);
      }
    }

    low += low_step;
    u32 carry = low >= low_end;
    low -= carry ? low_end : 0;
    middle += middle_step + carry;
    carry = middle >= middle_end;
    middle -= carry ? middle_end : 0;
    high += high_step + carry;
  }
}
