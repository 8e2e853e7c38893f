// LZW (TIFF 6.0 section 13), encoded: the bytes of swath-codec's lzw.rs.
//
// Each code depends on all bytes before it since the last Clear, so item 0 of a group encodes a tile, and the
// other items do what they can: they copy pieces of the tile to local memory, empty the table, and write the
// result. Shorter pieces with a Clear between them could be encoded in parallel, but short pieces compress
// badly: LZW needs strings. Tiles keep a GPU busy if there are many: local memory is enough for 7 groups on a
// multiprocessor with 164 KB.

#define LZW_ENCODE_ITEMS 32u
#define LZW_ENCODE_CLEAR 256u
#define LZW_ENCODE_END 257u
#define LZW_ENCODE_FIRST 258u
#define LZW_ENCODE_LAST 4093u   // the last entry before the table is cleared, as in libtiff
#define LZW_ENCODE_SLOTS 5119u  // a prime number, so that any step visits all slots; at most 3/4 are used
#define LZW_ENCODE_FREE 0xFFFFFFFFu
#define LZW_ENCODE_PIECE 1024u
// Words for the codes of a piece: 12 bits for each byte, a Clear, and the rest of the piece before.
#define LZW_ENCODE_WORDS 392u

typedef struct {
  u32 table[LZW_ENCODE_SLOTS];  // prefix << 20 | byte << 12 | code
  u32 piece[LZW_ENCODE_PIECE / 4u];
  u32 words[LZW_ENCODE_WORDS];
  u32 at;      // the next byte of the piece
  u32 prefix;  // the string before it
  u32 next;    // the next entry
  u32 count;   // whole words
  u32 bits;    // bits after them, less than 32
  u32 value;   // those bits, the last one lowest
} LzwEncode;

// Where item 0 appends codes, in registers.
typedef struct {
  u64 value;
  u32 bits;
  u32 count;
} LzwBits;

FN u32 lzw_encode_width(u32 next) {
  return next < 512u ? 9u : next < 1024u ? 10u : next < 2048u ? 11u : 12u;
}

// One item: appends a code, the highest bit first.
FN void lzw_encode_put(LzwBits *to, LOCAL_PTR LzwEncode *s, u32 code, u32 width) {
  to->value = to->value << width | code;
  to->bits += width;
  if (to->bits >= 32u) {
    to->bits -= 32u;
    u32 word = (u32)(to->value >> to->bits);
    s->words[to->count++] = word >> 24u | ((word >> 8u) & 0xFF00u) | (word & 0xFF00u) << 8u | word << 24u;
  }
}

// One item: encodes bytes of the piece up to `end`, or until the table is full, and then appends Clear.
FN void lzw_encode_piece(LOCAL_PTR LzwEncode *s, u32 end) {
  LzwBits to = {s->value, s->bits, s->count};
  u32 prefix = s->prefix;
  u32 next = s->next;
  u32 at = s->at;
  for (; at < end && next <= LZW_ENCODE_LAST; at++) {
    u32 byte = (s->piece[at / 4u] >> (8u * (at % 4u))) & 0xFFu;
    u32 key = prefix << 8u | byte;
    u32 hash = key * 0x9E3779B1u;
    u32 slot = ((hash >> 16u) * LZW_ENCODE_SLOTS) >> 16u;
    u32 step = 1u + (hash & 1023u);
    u32 entry = s->table[slot];
    while (entry != LZW_ENCODE_FREE && entry >> 12u != key) {
      slot += step;
      if (slot >= LZW_ENCODE_SLOTS) slot -= LZW_ENCODE_SLOTS;
      entry = s->table[slot];
    }
    if (entry != LZW_ENCODE_FREE) {
      prefix = entry & 0xFFFu;
    } else {
      lzw_encode_put(&to, s, prefix, lzw_encode_width(next));
      s->table[slot] = key << 12u | next;
      prefix = byte;
      next++;
    }
  }
  if (next > LZW_ENCODE_LAST) lzw_encode_put(&to, s, LZW_ENCODE_CLEAR, 12u);
  s->prefix = prefix;
  s->next = next;
  s->at = at;
  s->value = (u32)to.value;
  s->bits = to.bits;
  s->count = to.count;
}

// Group i encodes tile i, the `len` bytes at `tiles_at + i * stride`, to `out_at + i * slot`, which has `len *
// 3 / 2 + len / 2048 + 16` bytes at least. All positions are multiples of 4. It stores the number of bytes in
// `sizes[first + i]`.
KERNEL(32) lzw_encode(GLOBAL const u8 *tiles, u64 tiles_at, u64 stride, u64 len, GLOBAL u8 *out, u64 out_at, u64 slot,
                      GLOBAL u32 *sizes, u32 first) {
  LOCAL LzwEncode s;
  GLOBAL const u32 *tile = (GLOBAL const u32 *)(tiles + tiles_at + GRP * stride);
  GLOBAL u32 *to = (GLOBAL u32 *)(out + out_at + GRP * slot);
  u64 done = 0u;
  for (u32 i = LID; i < LZW_ENCODE_SLOTS; i += LZW_ENCODE_ITEMS) s.table[i] = LZW_ENCODE_FREE;
  if (LID == 0u) {
    s.count = 0u;
    s.value = LZW_ENCODE_CLEAR;
    s.bits = 9u;
    s.next = LZW_ENCODE_FIRST;
    // The first byte is a prefix.
    s.prefix = len > 0u ? *(GLOBAL const u8 *)tile : 0u;
    s.at = len > 0u ? 1u : 0u;
  }
  SYNC();
  for (u64 from = 0u; from < len; from += LZW_ENCODE_PIECE) {
    u32 here = len - from < LZW_ENCODE_PIECE ? (u32)(len - from) : LZW_ENCODE_PIECE;
    for (u32 i = LID; i < (here + 3u) / 4u; i += LZW_ENCODE_ITEMS) s.piece[i] = tile[from / 4u + i];
    SYNC();
    for (;;) {
      if (LID == 0u) lzw_encode_piece(&s, here);
      SYNC();
      // The conditions are the same for all items.
      u32 full = s.next > LZW_ENCODE_LAST ? 1u : 0u;
      u32 end = s.at == here ? 1u : 0u;
      SYNC();
      if (full != 0u) {
        for (u32 i = LID; i < LZW_ENCODE_SLOTS; i += LZW_ENCODE_ITEMS) s.table[i] = LZW_ENCODE_FREE;
        if (LID == 0u) s.next = LZW_ENCODE_FIRST;
      }
      SYNC();
      if (end != 0u) break;
    }
    for (u32 i = LID; i < s.count; i += LZW_ENCODE_ITEMS) to[done + i] = s.words[i];
    done += s.count;
    SYNC();
    if (LID == 0u) s.count = s.at = 0u;
    SYNC();
  }
  if (LID == 0u) {
    LzwBits end = {s.value, s.bits, 0u};
    // Readers add an entry for the last code too.
    if (len > 0u) lzw_encode_put(&end, &s, s.prefix, lzw_encode_width(s.next));
    lzw_encode_put(&end, &s, LZW_ENCODE_END, lzw_encode_width(len > 0u ? s.next + 1u : LZW_ENCODE_FIRST));
    sizes[first + GRP] = (u32)(done + end.count) * 4u + (end.bits + 7u) / 8u;
    if (end.bits > 0u) lzw_encode_put(&end, &s, 0u, 32u - end.bits);
    for (u32 i = 0u; i < end.count; i++) to[done + i] = s.words[i];
  }
}
