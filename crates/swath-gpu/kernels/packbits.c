// PackBits (TIFF 6.0 section 9): runs and literals of at most 128 bytes, each with a count before it.
//
// Decoding: the position of a count follows from the previous one, so item 0 visits them, in a piece of the
// stream that the group has copied to local memory, where a step costs a local load and no access to global
// memory. It puts the packets into a queue. Then the items share the output, four neighbouring bytes each,
// stored as one word. Bisection finds the packet of each byte, so that many short packets and few long ones
// keep all lanes equally busy.
//
// Encoding: no packet crosses a row, so each item encodes a row by itself, 32 rows at a time. It does so twice:
// first to measure, then, when the sum of the previous sizes gives the position, to write. Measuring reads
// bytes that are still in the cache. The alternative, to encode into spare memory and to move the rows
// together, would read and write the result once more and wait at barriers for it. Blocks of less than 32 rows
// leave items idle.

#define PACKBITS_ITEMS 32u
#define PACKBITS_PIECE 1024u
#define PACKBITS_QUEUE 128u
#define PACKBITS_RUN 0x8000u  // marks the position of the single byte of a run
#define PACKBITS_NONE 0xFFFFu
#define PACKBITS_LONGEST 128u

KERNEL(32) packbits(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL u32 *status) {
  LOCAL u8 piece[PACKBITS_PIECE];
  LOCAL u16 begins[PACKBITS_QUEUE + 1u];  // output positions of packets, relative to `out`
  LOCAL u16 places[PACKBITS_QUEUE];       // positions of their bytes, relative to `at`
  LOCAL u32 read;                         // bytes of the stream that the queue covers
  LOCAL u32 total;                        // and of the output

  GLOBAL const u8 *src = batch + BLOCK(batch, GRP).src;
  GLOBAL u8 *dst = decoded + BLOCK(batch, GRP).dst;
  u32 src_len = BLOCK(batch, GRP).src_len;
  u32 dst_len = BLOCK(batch, GRP).dst_len;
  u32 at = 0u;
  u32 out = (BLOCK(batch, GRP).flags & BLOCK_SPARSE) != 0u ? dst_len : 0u;
  u32 result = STATUS_OK;

  while (out < dst_len) {
    // A packet of two bytes produces at least one byte. A stream that is much longer consists of counts without
    // effect. It would keep the device busy, so the CPU decodes it.
    if (at / 4u > dst_len + PACKBITS_PIECE) {
      result = STATUS_UNSUPPORTED;
      break;
    }
    u32 room = dst_len - out;
    u32 rest = src_len - at;
    u32 here = rest < PACKBITS_PIECE ? rest : PACKBITS_PIECE;
    for (u32 i = LID; i < here; i += PACKBITS_ITEMS) piece[i] = src[at + i];
    for (u32 i = LID; i <= PACKBITS_QUEUE; i += PACKBITS_ITEMS) begins[i] = PACKBITS_NONE;
    SYNC();

    if (LID == 0u) {
      u32 p = 0u;
      u32 made = 0u;
      for (u32 i = 0u; i < PACKBITS_QUEUE && p < here && made < room;) {
        u32 count = piece[p];
        u32 len = 0u;
        if (count == 128u) {
          p++;
        } else if (p + 1u >= here) {
          // The next piece starts with this count. In the last piece, the bytes of this count are missing.
          if (here == rest) p++;
          break;
        } else if (count > 128u) {
          len = 257u - count;
          places[i] = (u16)(PACKBITS_RUN | (p + 1u));
          p += 2u;
        } else {
          len = count + 1u < rest - p - 1u ? count + 1u : rest - p - 1u;
          places[i] = (u16)(p + 1u);
          p += 1u + len;
        }
        if (len > 0u) begins[i++] = (u16)made;
        made += len;
      }
      read = p;
      total = made;
    }
    SYNC();

    u32 bytes = total < room ? total : room;
    // Positions are relative to an aligned word of global memory here. Other blocks may share the first and the
    // last word.
    u32 shift = (u32)((size_t)(dst + out) % 4u);
    for (u32 word = LID * 4u; word < bytes + shift; word += 4u * PACKBITS_ITEMS) {
      u32 first = word > shift ? word : shift;
      u32 end = word + 4u < bytes + shift ? word + 4u : bytes + shift;
      u32 i = 0u;
      for (u32 step = PACKBITS_QUEUE / 2u; step > 0u; step /= 2u) i += begins[i + step] + shift <= first ? step : 0u;
      u32 values = 0u;
      if (end - first == 4u && begins[i + 1u] + shift >= end) {
        // A whole word from one packet.
        u32 place = places[i];
        if ((place & PACKBITS_RUN) != 0u) {
          values = src[at + (place & ~PACKBITS_RUN)] * 0x01010101u;
        } else {
          GLOBAL const u8 *from = src + (at + place + first - shift - begins[i]);
          values = from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24;
        }
      } else {
        for (u32 p = first; p < end; p++) {
          while (begins[i + 1u] + shift <= p) i++;
          u32 place = places[i];
          u32 from = (place & PACKBITS_RUN) != 0u ? place & ~PACKBITS_RUN : place + p - shift - begins[i];
          values |= (u32)src[at + from] << (8u * (p - word));
        }
      }
      if (end - first == 4u) *(GLOBAL u32 *)(dst + (out + word - shift)) = values;
      else for (u32 p = first; p < end; p++) dst[out + p - shift] = (u8)(values >> (8u * (p - word)));
    }
    if (total < room && read == rest) {
      result = STATUS_TRUNCATED;
      break;
    }
    out += bytes;
    at += read;
    SYNC();
  }
  if (LID == 0u) status[GRP] = result;
}

// Returns the size of the encoded row, by the rule of swath-codec's packbits.rs. With `write` it also writes
// the bytes.
FN u32 packbits_row(GLOBAL const u8 *row, u32 len, GLOBAL u8 *out, u32 write) {
  u32 size = 0u;
  for (u32 at = 0u; at < len;) {
    u8 value = row[at];
    u32 rest = len - at < PACKBITS_LONGEST ? len - at : PACKBITS_LONGEST;
    u32 taken = 1u;
    while (taken < rest && row[at + taken] == value) taken++;
    if (taken >= 2u) {
      if (write != 0u) {
        out[size] = (u8)(257u - taken);
        out[size + 1u] = value;
      }
      size += 2u;
    } else {
      // A run of two inside a literal saves nothing, so only three equal bytes end a literal.
      u32 equal = 1u;
      u32 end = 1u;
      u8 last = value;
      for (; at + end < len && equal < 3u && end < PACKBITS_LONGEST + 2u; end++) {
        equal = row[at + end] == last ? equal + 1u : 1u;
        last = row[at + end];
      }
      taken = equal == 3u ? end - 3u : end;
      taken = taken < rest ? taken : rest;
      if (write != 0u) {
        out[size] = (u8)(taken - 1u);
        for (u32 i = 0u; i < taken; i++) out[size + 1u + i] = row[at + i];
      }
      size += 1u + taken;
    }
    at += taken;
  }
  return size;
}

// Group i encodes tile i, the `len` bytes at `tiles_at + i * stride`, in rows of `row_bytes`, to `out_at + i *
// slot`. It stores the number of bytes in `sizes[first + i]`: 0xFFFFFFFF if they exceed `slot`.
KERNEL(32) packbits_encode(GLOBAL const u8 *tiles, u64 tiles_at, u64 stride, u64 len, GLOBAL u8 *out, u64 out_at, u64 slot,
                           GLOBAL u32 *sizes, u32 first, u32 row_bytes) {
  LOCAL u32 lens[PACKBITS_ITEMS];
  GLOBAL const u8 *tile = tiles + tiles_at + GRP * stride;
  out += out_at;
  u64 end = 0u;
  u64 step = row_bytes > 0u ? row_bytes : 1u;
  u64 rows = (len + step - 1u) / step;
  for (u64 base = 0u; base < rows; base += PACKBITS_ITEMS) {
    u64 row = base + LID;
    u32 row_len = row + 1u < rows ? (u32)step : row + 1u == rows ? (u32)(len - row * step) : 0u;
    GLOBAL const u8 *from = tile + (row < rows ? row * step : 0u);
    lens[LID] = packbits_row(from, row_len, out, 0u);
    SYNC();
    u64 begin = end;
    for (u32 item = 0u; item < PACKBITS_ITEMS; item++) {
      begin += item < LID ? lens[item] : 0u;
      end += lens[item];
    }
    // The condition is the same for all items: no item waits for one that has returned.
    if (end > slot || end >= 0xFFFFFFFFu) break;
    packbits_row(from, row_len, out + GRP * slot + begin, 1u);
    SYNC();
  }
  if (LID == 0u) sizes[first + GRP] = end > slot || end >= 0xFFFFFFFFu ? 0xFFFFFFFFu : (u32)end;
}
