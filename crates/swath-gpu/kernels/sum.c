// The sums that undo the differences of predictors 2 and 3, in place.
//
// A group processes a row, because a sum runs from one end of the row to the other. Integers of every width are
// summed as 64 bits: the low bytes of a wrapping sum are the wrapping sum of the low bytes.
//
// For up to SUM_LANES integers per pixel, the row goes through local memory in tiles. Loads and stores are
// coalesced, and in between each item owns a chunk of pixels of one lane (the integers at one position in the
// pixel). A tile is summed within the chunks, then over the chunks of each lane, and the total of a lane is
// carried to the next tile. Chunks have an odd number of pixels, so that items that step through them in
// parallel access different banks.
//
// With more integers per pixel, an item that follows a lane through the whole row is already coalesced.
//
// All conditions around a SYNC depend only on the group.

#define SUM_LANES 32u
#define SUM_CHUNK 17u

FN u64 sum_swapped(u64 value, u32 width) {
  u64 swapped = 0;
  for (u32 i = 0; i < width; i++) swapped = swapped << 8 | ((value >> (8 * i)) & 0xff);
  return swapped;
}

FN u64 sum_load(GLOBAL const u8 *row, u64 i, u32 width, u32 typed, u32 swap) {
  u64 value = 0;
  if (width == 1) return row[i];
  if (!typed) {
    for (u32 k = 0; k < width; k++) value |= (u64)row[i * width + k] << (8 * k);
  } else if (width == 2) {
    value = ((GLOBAL const u16 *)row)[i];
  } else if (width == 4) {
    value = ((GLOBAL const u32 *)row)[i];
  } else {
    value = ((GLOBAL const u64 *)row)[i];
  }
  return swap ? sum_swapped(value, width) : value;
}

FN void sum_store(GLOBAL u8 *row, u64 i, u32 width, u32 typed, u64 value) {
  if (width == 1) {
    row[i] = (u8)value;
  } else if (!typed) {
    for (u32 k = 0; k < width; k++) row[i * width + k] = (u8)(value >> (8 * k));
  } else if (width == 2) {
    ((GLOBAL u16 *)row)[i] = (u16)value;
  } else if (width == 4) {
    ((GLOBAL u32 *)row)[i] = (u32)value;
  } else {
    ((GLOBAL u64 *)row)[i] = value;
  }
}

KERNEL(64)
sum(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL const u32 *status, u32 rows, u32 row_bytes, u32 width,
    u32 stride, u32 swap) {
  LOCAL u64 tile[64 * SUM_CHUNK];
  LOCAL u64 ends[2][64];
  u32 at = GRP / rows;
  u32 number = GRP - at * rows;
  GLOBAL const Block *block = &BLOCK(batch, at);
  if (status[at] != STATUS_OK || (block->flags & BLOCK_SPARSE) != 0) return;
  if (row_bytes == 0 || number >= block->dst_len / row_bytes) return;

  GLOBAL u8 *row = decoded + block->dst + (u64)number * row_bytes;
  u64 count = row_bytes / width;
  u32 typed = ((u64)row & (width - 1)) == 0;

  if (stride > SUM_LANES) {
    for (u64 from = LID; from < stride && from < count; from += 64) {
      u64 total = 0;
      for (u64 i = from; i < count; i += stride) {
        total += sum_load(row, i, width, typed, swap);
        sum_store(row, i, width, typed, total);
      }
    }
    return;
  }

  // As many chunks as there are items for, with a chunk length that makes all tiles equally long.
  u32 chunks = 64 / stride;
  u64 pixels = (count + stride - 1) / stride;
  u64 tiles = (pixels + chunks * SUM_CHUNK - 1) / (chunks * SUM_CHUNK);
  u32 chunk = (u32)((pixels + tiles * chunks - 1) / (tiles * chunks)) | 1u;
  u32 length = chunks * chunk * stride;
  u32 last = (chunks - 1) * stride;
  u32 busy = LID < last + stride;
  u32 mine = LID / stride;
  u32 lane = LID - mine * stride;
  u32 first = mine * chunk * stride + lane;
  u64 carry = 0;

  for (u64 start = 0; start < count; start += length) {
    for (u32 i = LID; i < length; i += 64) {
      tile[i] = start + i < count ? sum_load(row, start + i, width, typed, swap) : 0;
    }
    SYNC();

    u64 total = 0;
    if (busy) {
      for (u32 k = 0; k < chunk; k++) total += tile[first + k * stride];
    }
    u32 side = 0;
    ends[0][LID] = total;
    SYNC();
    for (u32 distance = stride; distance <= last; distance *= 2) {
      u64 before = LID >= distance ? ends[side][LID - distance] : 0;
      ends[1 - side][LID] = ends[side][LID] + before;
      side = 1 - side;
      SYNC();
    }

    u64 running = carry + ends[side][LID] - total;
    carry += ends[side][last + lane];
    if (busy) {
      for (u32 k = 0; k < chunk; k++) {
        running += tile[first + k * stride];
        tile[first + k * stride] = running;
      }
    }
    // This also keeps the ends of this tile until all items have read them.
    SYNC();
    for (u32 i = LID; i < length && start + i < count; i += 64) {
      sum_store(row, start + i, width, typed, tile[i]);
    }
  }
}
