// LZW (TIFF 6.0 section 13), and the older bit-reversed form.
//
// As in swath-codec's lzw.rs, the table contains no strings: the entry that a code adds is its string plus the
// first byte of the next string, and the two are adjacent in the output. So the table only contains the
// position where the output of each code starts, and Clear costs nothing.
//
// A group decodes a block in rounds of LZW_QUEUE codes, and all items work in every step of a round:
//   1. The width of a code depends only on the number of codes since Clear, so every item can compute the positions of
//      its codes and reads them. They are valid up to the first that is not a string (Clear, End, ...): the round ends
//      there.
//   2. An item follows each of its codes to the root of its string. A string that is added in the same round consists
//      of the string of an earlier code of the round and one byte, and so on, up to a code that is a literal or an older
//      entry. This gives the length and the first byte.
//   3. The sum of the previous lengths gives the position where a code writes, which is the new entry. Its item writes
//      the string: the root's string from the output of earlier rounds, the bytes after it from the first bytes of
//      step 2.
//   4. The group copies the long strings together. A single item would delay the others.
// No step reads output of its own round, so three barriers are enough and a string that contains itself is not
// a special case.
//
// On hardware a serial parser would wait for its own last instruction most of the time, and for local memory at
// each code; here 32 codes wait together. Strings of terrain have four bytes on average, so a group that copied
// them one by one would leave most lanes idle. Local memory limits the number of groups that a GPU runs at
// once: 10.4 KB here; a table of full positions would take 8 KB more.

#define LZW_ITEMS 32u
#define LZW_EACH 4u  // codes of an item in a round, taken from one word: 4 x 12 bits and 7 of misalignment fit in 56
#define LZW_QUEUE (LZW_ITEMS * LZW_EACH)
#define LZW_LONG 32u  // the group copies longer strings together
#define LZW_CLEAR 256u
#define LZW_END 257u
#define LZW_FIRST 258u
#define LZW_CODES 4096u
#define LZW_FULL (LZW_CODES + 1u)  // the entry of the next code, if no more entries are added
#define LZW_ENTRIES (LZW_FULL - LZW_FIRST)
// The number of entries for each position that is stored in full. No string has more than 3839 bytes, so they
// span less than 2^16.
#define LZW_SPAN 16u
// More than the total length of all strings of a round: one sum counts their bytes and shows that a code is not
// a string.
#define LZW_STOP (1u << 20)
#define LZW_ANY_LONG (1u << 31)
#define LZW_UNDEFINED LZW_CODES  // represents a code that is used before it is defined

// The number of bits of `count` codes if the first may be as large as `last`.
FN u32 lzw_bits(u32 last, u32 count) {
  u32 bits = 9u * count;
  for (u32 wide = 512u; wide <= 2048u; wide *= 2u) {
    if (last + count > wide) bits += last > wide ? count : last + count - wide;
  }
  return bits;
}

// Copies every `step`-th byte of a string, starting with the `at`-th. Four loads are issued before the first is
// used; the compiler cannot do that, because it does not know that the ranges do not overlap.
FN void lzw_copy(GLOBAL u8 *dst, u32 from, u32 to, u32 len, u32 at, u32 step) {
  for (; at < len; at += 4u * step) {
    u8 bytes[4];
    for (u32 k = 0u; k < 4u; k++) bytes[k] = dst[from + (at + k * step < len ? at + k * step : len - 1u)];
    for (u32 k = 0u; k < 4u; k++) {
      if (at + k * step < len) dst[to + at + k * step] = bytes[k];
    }
  }
}

KERNEL(32) lzw(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL u32 *status) {
  LOCAL u16 low[LZW_ENTRIES];                               // output positions of the entries, modulo 2^16
  LOCAL u32 full[(LZW_ENTRIES + LZW_SPAN - 1u) / LZW_SPAN];  // full position of each LZW_SPAN-th entry
  LOCAL u16 codes[LZW_QUEUE];
  LOCAL u8 firsts[LZW_QUEUE];  // the first byte of each code
  LOCAL u32 from[LZW_QUEUE];   // strings that the group copies: source, destination, length
  LOCAL u32 to[LZW_QUEUE];
  LOCAL u16 size[LZW_QUEUE];
  LOCAL u32 sums[LZW_ITEMS];
  LOCAL u32 live;   // codes of this round
  LOCAL u32 total;  // bytes of this round
  LOCAL u32 event;  // the code that ended it because it is not a string, or 0

  GLOBAL const u8 *src = batch + BLOCK(batch, GRP).src;
  GLOBAL u8 *dst = decoded + BLOCK(batch, GRP).dst;
  u32 src_len = BLOCK(batch, GRP).src_len;
  u32 dst_len = BLOCK(batch, GRP).dst_len;
  if ((BLOCK(batch, GRP).flags & BLOCK_SPARSE) != 0u || dst_len == 0u) {
    if (LID == 0u) status[GRP] = STATUS_OK;
    return;
  }
  if (src_len == 0u) {
    if (LID == 0u) status[GRP] = STATUS_TRUNCATED;
    return;
  }
  // Both forms start with Clear. With the least significant bit first, that is 0x00 and then a 1 bit. The old
  // form widens its codes when it is necessary, the new form one code earlier.
  u32 lsb = src_len >= 2u && src[0] == 0u && (src[1] & 1u) != 0u;
  // Each Clear ends a round. Writers clear when the table is full. A stream that clears all the time would keep
  // the device busy, so the CPU decodes it.
  u32 clears = 64u + dst_len / 64u;
  u32 next = LZW_FIRST;  // the entry that starts where the next code writes; only smaller codes are valid
  u32 out = 0u;
  u64 bit = 0u;
  u32 result = STATUS_OK;

  for (;;) {
    u32 ends[LZW_EACH];
    u64 at = bit + lzw_bits(next - lsb, LID * LZW_EACH);
    u64 word = 0u;
    for (u32 b = 0u; b < 7u; b++) {
      // After the end any byte is acceptable, because codes there are ignored.
      u64 byte = at / 8u + b < src_len ? at / 8u + b : src_len - 1u;
      word |= (u64)src[byte] << (lsb != 0u ? 8u * b : 48u - 8u * b);
    }
    u32 used = (u32)(at % 8u);
    at -= used;
    for (u32 k = 0u; k < LZW_EACH; k++) {
      u32 i = LID * LZW_EACH + k;
      u32 last = next + i - lsb;
      u32 width = 9u + (last >= 512u) + (last >= 1024u) + (last >= 2048u);
      u32 code = (u32)(word >> (lsb != 0u ? used : 56u - used - width)) & ((1u << width) - 1u);
      used += width;
      u32 limit = next + i < LZW_FULL ? next + i : LZW_FULL;
      u32 undefined = code >= limit ? LZW_UNDEFINED : 0u;
      u32 end = code == LZW_CLEAR || code == LZW_END ? code : undefined;
      ends[k] = at + used > (u64)src_len * 8u ? LZW_END : end;
      // A harmless value: the items may read it before they find out that the round ends here.
      codes[i] = (u16)(ends[k] != 0u ? 0u : code);
    }
    SYNC();

    u32 root[LZW_EACH];  // position of the root's string, and its length
    u32 text[LZW_EACH];
    u32 lens[LZW_EACH];
    u32 sum = 0u;
    u32 any = 0u;
    for (u32 k = 0u; k < LZW_EACH; k++) {
      u32 i = LID * LZW_EACH + k;
      u32 code = codes[i];
      u32 len = 1u;
      for (; code >= next; len++) code = codes[code - next];
      text[k] = 1u;
      root[k] = 0u;
      u32 first = code;
      if (code >= LZW_FIRST) {
        u32 entry = code - LZW_FIRST;
        u32 near = full[entry / LZW_SPAN];
        u32 more = (low[entry + 1u] - low[entry]) & 0xFFFFu;
        root[k] = near + ((low[entry] - near) & 0xFFFFu);
        // The newest entry ends with the first byte of this round.
        text[k] = code + 1u == next ? more : more + 1u;
        len += more;
        first = dst[root[k]];
      }
      firsts[i] = (u8)first;
      lens[k] = ends[k] != 0u ? LZW_STOP : len;
      sum += lens[k];
      any |= text[k] > LZW_LONG ? LZW_ANY_LONG : 0u;
    }
    sums[LID] = sum | any;
    SYNC();

    u32 begin = 0u;
    for (u32 item = 0u; item < LZW_ITEMS; item++) {
      any |= sums[item];
      begin += item < LID ? sums[item] & ~LZW_ANY_LONG : 0u;
    }
    u32 room = dst_len - out;
    u32 limit = room < LZW_STOP ? room : LZW_STOP;
    for (u32 k = 0u; k < LZW_EACH; k++) {
      u32 i = LID * LZW_EACH + k;
      u32 entry = next + i - LZW_FIRST;
      u32 end = begin + lens[k];
      u32 alive = begin < limit;
      size[i] = 0u;
      // Exactly one code of all items meets this condition.
      if (alive && (end >= limit || i == LZW_QUEUE - 1u)) {
        event = ends[k];
        live = ends[k] != 0u ? i : i + 1u;
        total = ends[k] != 0u ? begin : end;
        // The end of the newest entry, which gives its length.
        if (ends[k] == 0u && entry + 1u < LZW_ENTRIES) low[entry + 1u] = (u16)(out + end);
      }
      if (alive && ends[k] == 0u) {
        if (entry < LZW_ENTRIES) {
          low[entry] = (u16)(out + begin);
          if (entry % LZW_SPAN == 0u) full[entry / LZW_SPAN] = out + begin;
        }
        u32 fits = text[k] < room - begin ? text[k] : room - begin;
        if (text[k] > LZW_LONG) {
          from[i] = root[k];
          to[i] = out + begin;
          size[i] = (u16)fits;
        } else if (root[k] == 0u && text[k] == 1u) {
          // A literal, or the first byte of the block.
          dst[out + begin] = firsts[i];
        } else {
          lzw_copy(dst, root[k], out + begin, fits, 0u, 1u);
        }
        u32 code = codes[i];
        for (u32 p = end - 1u; p >= begin + text[k]; p--) {
          if (p < room) dst[out + p] = firsts[code + 1u - next];
          // The newest entry of the previous round is a root that has such a byte too.
          if (code >= next) code = codes[code - next];
        }
      }
      begin = end;
    }
    SYNC();

    if ((any & LZW_ANY_LONG) != 0u) {
      for (u32 i = 0u; i < live; i++) {
        if (size[i] != 0u) lzw_copy(dst, from[i], to[i], size[i], LID, LZW_ITEMS);
      }
    }
    if (total >= room) break;
    if (event == LZW_END) result = STATUS_TRUNCATED;
    if (event == LZW_UNDEFINED) result = STATUS_CORRUPT;
    if (event == LZW_CLEAR && clears == 0u) result = STATUS_UNSUPPORTED;
    if (result != STATUS_OK) break;
    out += total;
    if (event == LZW_CLEAR) {
      clears--;
      bit += lzw_bits(next - lsb, live + 1u);
      next = LZW_FIRST;
    } else {
      bit += lzw_bits(next - lsb, live);
      next = next + live < LZW_FULL ? next + live : LZW_FULL;
    }
  }
  if (LID == 0u) status[GRP] = result;
}
