// The sums that undo the differences of predictors 2 and 3, in place.
//
// A group processes a row, because a sum runs from one end of the row to the other. Integers of up to 4 bytes
// are summed as 32 bits, others as 64 bits: the low bytes of a wrapping sum are the wrapping sum of the low
// bytes.
//
// For up to SUM_LANES integers per pixel, the row goes through local memory in tiles. Loads and stores are
// coalesced, and in between each item owns a chunk of pixels of one lane (the integers at one position in the
// pixel). A tile is summed within the chunks, then over the chunks of each lane, and the total of a lane is
// carried to the next tile. Chunks have an odd number of pixels, so that items that step through them in
// parallel access different banks.
//
// Local memory limits the number of groups that a GPU runs at once, so both kinds of integers use the same
// tile, and the wide ones have half as many in it.
//
// With more integers per pixel, an item that follows a lane through the whole row is already coalesced.
//
// All conditions around a SYNC depend only on the group.

#define SUM_LANES 32u
#define SUM_CHUNK 17u       // pixels of a chunk, at most: of up to 4 bytes,
#define SUM_CHUNK_WIDE 9u   // and of 8 bytes

// Between global and local memory, `count` integers of a type that need no conversion: four are on the way at
// a time, and one comparison serves four.
#define SUM_READ(type) \
  { \
    GLOBAL const type *from = (GLOBAL const type *)row + start + i; \
    for (; i + 192u < count; i += 256u, from += 256, to += 256) { \
      u32 a = from[0], b = from[64], c = from[128], d = from[192]; \
      to[0] = a, to[64] = b, to[128] = c, to[192] = d; \
    } \
    for (; i < count; i += 64u, from += 64, to += 64) to[0] = from[0]; \
  }
#define SUM_WRITE(type) \
  { \
    GLOBAL type *to = (GLOBAL type *)row + start + i; \
    for (; i + 192u < count; i += 256u, from += 256, to += 256) { \
      u32 a = from[0], b = from[64], c = from[128], d = from[192]; \
      to[0] = (type)a, to[64] = (type)b, to[128] = (type)c, to[192] = (type)d; \
    } \
    for (; i < count; i += 64u, from += 64, to += 64) to[0] = (type)from[0]; \
  }

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

// Reads `count` integers of up to 4 bytes from integer `start` of the row on, and fills the tile up to
// `length` with zeros.
FN void sum_read(LOCAL_PTR u32 *tile, GLOBAL const u8 *row, u64 start, u32 count, u32 length, u32 width, u32 typed, u32 swap) {
  u32 i = LID;
  LOCAL_PTR u32 *to = tile + i;
  if (width == 1) SUM_READ(u8)
  else if (typed && !swap && width == 2) SUM_READ(u16)
  else if (typed && !swap) SUM_READ(u32)
  else
    for (; i < count; i += 64) tile[i] = (u32)sum_load(row, start + i, width, typed, swap);
  for (; i < length; i += 64) tile[i] = 0;
}

FN void sum_write(LOCAL_PTR const u32 *tile, GLOBAL u8 *row, u64 start, u32 count, u32 width, u32 typed) {
  u32 i = LID;
  LOCAL_PTR const u32 *from = tile + i;
  if (width == 1) SUM_WRITE(u8)
  else if (typed && width == 2) SUM_WRITE(u16)
  else if (typed) SUM_WRITE(u32)
  else
    for (; i < count; i += 64) sum_store(row, start + i, width, typed, tile[i]);
}

KERNEL(64)
sum(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL const u32 *status, u32 rows, u32 row_bytes, u32 width,
    u32 stride, u32 swap) {
  LOCAL u64 tile[64 * SUM_CHUNK_WIDE];
  LOCAL u64 ends[2][64];
  u32 index = GRP / rows;
  u32 number = GRP - index * rows;
  GLOBAL const Block *block = &BLOCK(batch, index);
  if (status[index] != STATUS_OK || (block->flags & BLOCK_SPARSE) != 0) return;
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
  u32 wide = width > 4, longest = wide ? SUM_CHUNK_WIDE : SUM_CHUNK;
  LOCAL_PTR u32 *narrow = (LOCAL_PTR u32 *)tile;
  u32 chunks = 64 / stride;
  u64 pixels = (count + stride - 1) / stride;
  u64 tiles = (pixels + chunks * longest - 1) / (chunks * longest);
  u32 chunk = (u32)((pixels + tiles * chunks - 1) / (tiles * chunks)) | 1u;
  u32 length = chunks * chunk * stride;
  u32 last = (chunks - 1) * stride;
  u32 busy = LID < last + stride;
  u32 mine = LID / stride;
  u32 lane = LID - mine * stride;
  u32 first = mine * chunk * stride + lane, past = busy ? first + chunk * stride : first;
  u64 carry = 0;

  for (u64 start = 0; start < count; start += length) {
    u32 here = count - start < length ? (u32)(count - start) : length;
    if (wide) {
      for (u32 i = LID; i < length; i += 64) tile[i] = i < here ? sum_load(row, start + i, width, typed, swap) : 0;
    } else {
      sum_read(narrow, row, start, here, length, width, typed, swap);
    }
    SYNC();

    u64 total = 0;
    if (wide) {
      for (u32 i = first; i < past; i += stride) total += tile[i];
    } else {
      u32 sum = 0;
      for (LOCAL_PTR const u32 *at = narrow + first; at < narrow + past; at += stride) sum += *at;
      total = sum;
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
    if (wide) {
      for (u32 i = first; i < past; i += stride) {
        running += tile[i];
        tile[i] = running;
      }
    } else {
      u32 sum = (u32)running;
      for (LOCAL_PTR u32 *at = narrow + first; at < narrow + past; at += stride) {
        sum += *at;
        *at = sum;
      }
    }
    // This also keeps the ends of this tile until all items have read them.
    SYNC();
    if (wide) {
      for (u32 i = LID; i < here; i += 64) sum_store(row, start + i, width, typed, tile[i]);
    } else {
      sum_write(narrow, row, start, here, width, typed);
    }
  }
}
