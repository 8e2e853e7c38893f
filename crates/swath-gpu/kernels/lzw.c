// LZW (TIFF 6.0 section 13), and the bit-reversed form that predates it.
//
// As in swath-codec's lzw.rs the table holds no strings: the entry that a code adds is its text plus the first byte of
// the next one's, which lie side by side in the output. So the table says where each code began to write, no more, and
// Clear costs nothing.
//
// A group decodes a block in rounds of LZW_QUEUE codes, and no step of a round is left to one item:
//   1. The width of a code depends only on how many came since Clear, so every item knows where its codes lie and reads
//      them. They are right up to the first that is no string (Clear, End, ...): the round ends there.
//   2. An item follows each of its codes to the root of its string: a string that is made in this same round is that of
//      an earlier code of the round and one byte, and so on, until a code is met that is a literal or an older entry. That
//      gives the length, and the first byte.
//   3. The sum of the lengths before gives the place where a code writes, which is the new entry. Its item writes the
//      string: the root's text from what earlier rounds wrote, the bytes after it from the first bytes of step 2.
//   4. The group copies the long texts together, which would hold up the other items if one did it.
// No step reads output of its own round, so three barriers are enough and a string that contains itself is no special case.
//
// On hardware a serial parser would wait for its own last instruction most of the time, and for local memory at each
// code; here 32 codes wait together. Strings of terrain have four bytes on average, so that a group that copied them one
// by one would leave most lanes idle. Local memory decides how many groups a GPU keeps in flight: 10.4 KB here, where a
// table of positions in full would take 8 KB more.

#define LZW_ITEMS 32u
#define LZW_EACH 4u  // codes of an item in a round, taken from one word: 4 x 12 bits and 7 of misalignment fit in 56
#define LZW_QUEUE (LZW_ITEMS * LZW_EACH)
#define LZW_LONG 32u  // a text that has more bytes is copied by the group
#define LZW_CLEAR 256u
#define LZW_END 257u
#define LZW_FIRST 258u
#define LZW_CODES 4096u
#define LZW_FULL (LZW_CODES + 1u)  // the entry that the next code would make, when no more are made
#define LZW_ENTRIES (LZW_FULL - LZW_FIRST)
// Entries for each position that is kept in full. No string has more than 3839 bytes, so they span less than 2^16.
#define LZW_SPAN 16u
// More than all strings of a round have together: one sum counts their bytes and tells that one code is no string.
#define LZW_STOP (1u << 20)
#define LZW_ANY_LONG (1u << 31)
#define LZW_UNDEFINED LZW_CODES  // stands for a code that is used before it is made

// Bits of `count` codes when the first may be as large as `last`.
FN u32 lzw_bits(u32 last, u32 count) {
  u32 bits = 9u * count;
  for (u32 wide = 512u; wide <= 2048u; wide *= 2u) {
    if (last + count > wide) bits += last > wide ? count : last + count - wide;
  }
  return bits;
}

// Copies every `step`-th byte of a text, beginning with the `at`-th. Four loads are under way before the first is waited
// for; the compiler cannot arrange that, because it does not know that the ranges are apart.
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
  LOCAL u16 low[LZW_ENTRIES];                               // where the entries begin in the output, modulo 2^16
  LOCAL u32 full[(LZW_ENTRIES + LZW_SPAN - 1u) / LZW_SPAN];  // and of each LZW_SPAN-th all of it
  LOCAL u16 codes[LZW_QUEUE];
  LOCAL u8 firsts[LZW_QUEUE];  // the first byte of each code
  LOCAL u32 from[LZW_QUEUE];   // texts that the group copies: their place, where to, how much
  LOCAL u32 to[LZW_QUEUE];
  LOCAL u16 size[LZW_QUEUE];
  LOCAL u32 sums[LZW_ITEMS];
  LOCAL u32 live;   // codes of this round
  LOCAL u32 total;  // bytes of this round
  LOCAL u32 event;  // what ended it: a code that is no string, or 0

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
  // Both forms start with Clear; least significant bit first that is 0x00, then a 1 bit. The width of codes grows when it
  // must in this old form, one code before in the new.
  u32 lsb = src_len >= 2u && src[0] == 0u && (src[1] & 1u) != 0u;
  // Each Clear ends a round. Writers clear when the table is full; a stream that does so all the time would hold the
  // device up, and is left to the CPU.
  u32 clears = 64u + dst_len / 64u;
  u32 next = LZW_FIRST;  // the entry whose begin the next code's is; only smaller codes may come
  u32 out = 0u;
  u64 bit = 0u;
  u32 result = STATUS_OK;

  for (;;) {
    u32 ends[LZW_EACH];
    u64 at = bit + lzw_bits(next - lsb, LID * LZW_EACH);
    u64 word = 0u;
    for (u32 b = 0u; b < 7u; b++) {
      // Behind the end any byte will do, since no code there counts.
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
      // Something harmless: the items may look at it before they learn that the round ends here.
      codes[i] = (u16)(ends[k] != 0u ? 0u : code);
    }
    SYNC();

    u32 root[LZW_EACH];  // where the text of the root is, and its bytes
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
      // In all items there is one such code.
      if (alive && (end >= limit || i == LZW_QUEUE - 1u)) {
        event = ends[k];
        live = ends[k] != 0u ? i : i + 1u;
        total = ends[k] != 0u ? begin : end;
        // The end of the newest entry, for those who ask how long it is.
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
          // The newest entry of the round before is a root that has such a byte too.
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
