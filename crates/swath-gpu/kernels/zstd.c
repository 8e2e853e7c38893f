// Zstandard (RFC 8878): one group of 32 decodes one frame.
//
// The distribution of work.
//
// Headers: item 0 reads them, with the counts of the entropy coders. Three items build the three state
// tables, and all items fill in the Huffman table.
//
// Literals (`zstd_huffman`): all items decode, 8 for each of four streams. Huffman codes synchronise: a
// decoder that starts at a wrong bit soon ends a code word where a code word of the stream ends. So each item
// starts some bits before its part of the stream, and counts the words of its part. If it did not start where
// the item before it stopped, it counts again from there. The counts give the position of its literals, and
// it decodes its part once more.
//
// Sequences: each starts where the bits of the previous one end, and its states follow from those of the
// previous one. Item 0 follows only this chain (`zstd_chain`), for up to ZSTD_QUEUE sequences. It notes the
// first bit and the states of each. All items then read the lengths and offsets (`zstd_expand`), four
// sequences each. The positions of a sequence, and the last used offsets before it, are a scan over the
// items. Last, the whole group copies the literals of the sequences, which depend on nothing, and then their
// matches, run by run (`zstd_copy`). No match of a run reads what another one of the run writes.
//
// Local memory. The Huffman table, the queue of sequences, and what the tables are built from are never
// needed at the same time, and share one place. A block that uses the Huffman table of the previous one fills
// it in again.
//
// Only item 0 writes scalars in local memory, between two barriers in which no other item reads them.
//
// Accepted streams. The kernel accepts nothing that `swath-codec/src/zstd.rs` refuses: libzstd's streaming
// decoder checks the whole ZSTD block in which the requested bytes end, and also the next one if they end
// exactly with a block. The kernel does the same, with and without BLOCK_TOP: positions continue after
// dst_len, and only the writes stop there. Where libzstd is less strict than the RFC (matches from before the
// window, Huffman codes of 12 bits, Huffman streams with unused bits), the kernel is strict. The CPU decodes
// streams with dictionaries, with skippable frames, and with several frames that fill the block only
// together.
//
// The kernel ends for every input: a queue has at least one sequence or literal, and a frame may have
// ZSTD_BLOCKS(dst_len) blocks; the CPU decodes a frame with more. Empty blocks, or tables for a byte each,
// would otherwise keep a group busy for seconds.

// The global memory that each group needs: the literals of one ZSTD block.
#define ZSTD_SCRATCH 131072
#define ZSTD_BLOCK_MAX 131072u
#define ZSTD_BLOCKS(dst_len) (1024u + (dst_len) / 256u)
#define ZSTD_WINDOW_MAX 0x8000000u  // 128 MB, as in the CPU's decoder
#define ZSTD_QUEUE 128u
#define ZSTD_WINDOW 256u             // words of the sequences' bit stream
#define ZSTD_LONG 128u               // so many literals are copied by the whole group
#define ZSTD_SHORT 16u               // so many bytes are copied by one item
#define ZSTD_LEAD 256                // bits that an item decodes before its part of a stream of literals
#define ZSTD_GOING 0xffffffffu      // no verdict yet

// OpenCL has its own rotation, and Oclgrind does not support the instruction that the compiler makes of two
// shifts.
#ifdef __OPENCL_VERSION__
#define ZSTD_TURN(x, n) rotate((u64)(x), (u64)(n))
#else
#define ZSTD_TURN(x, n) ((u64)(x) << (n) | (u64)(x) >> (64 - (n)))
#endif

// Types of blocks and of literals, modes of state tables (raw stands for predefined).
#define ZSTD_RAW 0u
#define ZSTD_RLE 1u
#define ZSTD_COMPRESSED 2u  // the next value means: with the table of the previous block

// The three state tables, in the order of their headers, and the start of each in `fse`.
#define ZSTD_LL 0u
#define ZSTD_OF 1u
#define ZSTD_ML 2u
#define ZSTD_FSE_AT(kind) ((kind) == ZSTD_LL ? 0u : (kind) == ZSTD_OF ? 512u : 768u)

// An entry of a state table: the smallest next state in the lowest 10 bits, then from bit 12 on the number of
// bits that a sequence takes because of it (those added to its value, and those of the next state), the
// symbol, and the number of bits of the next state. The gap makes room for a carry: the chain of sequences
// adds three entries to add the numbers of bits.
#define ZSTD_ALL_BITS 12
#define ZSTD_SYMBOL 20
#define ZSTD_NEXT_BITS 28

// Codes of literal and match lengths: the smallest value, and the number of added bits.
CONSTANT u32 zstd_ll_base[36] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   10,  11,  12,   13,   14,   15,    16,    18,
                                 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
CONSTANT u8 zstd_ll_bits[36] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  1,  1,
                                1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
CONSTANT u32 zstd_ml_base[53] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19,   20,
                                 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,  35,  37,  39,   41,
                                 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
CONSTANT u8 zstd_ml_bits[53] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0,
                                0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4,  5,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16};

// The predefined probabilities, each plus one (0 is "less than one").
CONSTANT u8 zstd_ll_default[36] = {5, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 3, 3,
                                   3, 3, 3, 3, 3, 3, 3, 4, 3, 2, 2, 2, 2, 2, 0, 0, 0, 0};
CONSTANT u8 zstd_of_default[29] = {2, 2, 2, 2, 2, 2, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0};
CONSTANT u8 zstd_ml_default[53] = {2, 5, 4, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                                   2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0};

// What sequences need: the words of their bit stream, and the queue, with one more entry that ends the last.
// Sequence i writes from `at[i]` to `at[i + 1]`, first the literals from `from[i]` to `from[i + 1]`, then a
// match `off[i]` bytes back.
typedef struct {
  u32 window[ZSTD_WINDOW];
  u32 at[ZSTD_QUEUE + 1];
  u32 from[ZSTD_QUEUE + 1];
  u32 off[ZSTD_QUEUE];
  u32 match[ZSTD_QUEUE];
} ZstdQueue;

// What the tables are built from.
typedef struct {
  u16 count[3][53];    // probability + 1 of each code
  u16 next[3][53];
  u32 states[64];      // of Huffman weights
} ZstdCounts;

typedef struct {
  union {
    u16 huff[2048];    // next bits -> symbol | length << 8
    ZstdQueue q;
    ZstdCounts c;
  } u;
  u32 fse[1280];       // the state tables
  u32 scan[5][32];     // sums over the items; of literals: 0 the bits where they stopped, 1 their numbers of literals
  u32 flags[8];        // a byte for each item
  u32 queued;
  u32 medium;          // whether a sequence has more than ZSTD_SHORT literals
  u32 long_lanes;      // bit i: one of the sequences 4 i to 4 i + 3 has ZSTD_LONG literals or more
  u16 huff_at[256];    // start of each symbol in `huff`
  u8 weight[256];
  u32 symbols, huff_log;
  u32 log[3];
  u32 build[3];        // number of codes of a table to build, 0: keep the existing one
  u32 have_huff, have_fse;

  u32 verdict;         // ZSTD_GOING or a status
  u32 at;              // next byte of the source
  u32 pos;             // bytes decoded
  u32 window, block_max;
  u64 content;         // size of the frame's content, all ones: unknown
  u32 checksum, check; // the frame has one; the group must check it against `expected`
  u32 expected;
  u32 last;
  u32 blocks;          // of the frame, so far

  u32 kind, size;      // of this block: type, bytes, and start of its output
  u32 begins;
  u32 block_end;       // the furthest position that it may reach
  u32 lit_kind, lit_from, lit_size, lit_done;
  u32 streams, stream_at[4], stream_len[4];
  u32 bad[4];          // set by the item of each stream
  u32 sequences;       // remaining
  u32 seq_at, seq_len;
  u32 state[3], rep[3];
  // The sequences' bit stream. Bits are counted from the start of the source, rounded down to a word.
  u32 bit;             // the next sequence ends here
  u32 bit_from;        // the stream starts here
  u32 window_from;     // first word in the window
  u32 ends;            // the status if all sequences of the queue are valid
  u64 lane[4];
} ZstdShared;

// The source of a block, with its bounds in whole words: the first word inside it and the first word after it,
// and the parts of the source in the words before the first and at the second.
typedef struct {
  GLOBAL const u8 *src;
  GLOBAL const u8 *base;  // src rounded down to a word
  u32 shift;              // src - base
  u32 len;
  i32 from_word, to_word;
  u32 head, tail;
} ZstdSource;

// A bit reader that goes backwards. `acc` holds the next `have` bits at its top, and `ahead` holds the word
// after them: it is loaded one refill before it is used, so that no item waits for memory. `left` counts the
// remaining bits of the stream. It becomes negative if more bits are read, and the values of those bits are
// unspecified. Every reader must check it at the end.
typedef struct {
  u64 acc;
  u32 ahead;
  i32 have, left, word;
} ZstdBits;

FN u32 zstd_high(u32 x) {
  u32 n = 0;
  if (x >> 16) n += 16, x >>= 16;
  if (x >> 8) n += 8, x >>= 8;
  if (x >> 4) n += 4, x >>= 4;
  if (x >> 2) n += 2, x >>= 2;
  return n + (x >> 1);
}

FN u64 zstd_le(GLOBAL const u8 *p, u32 bytes) {
  u64 v = 0;
  for (u32 i = 0; i < bytes; i++) v |= (u64)p[i] << (8 * i);
  return v;
}

// `bits` (at most 16) of a forward bit field, zeros after its end.
FN u32 zstd_peek(GLOBAL const u8 *src, u32 at, u32 end, u32 bit, u32 bits) {
  u32 v = 0;
  at += bit >> 3;
  for (u32 i = 0; i < 3; i++)
    if (at + i < end) v |= (u32)src[at + i] << (8 * i);
  return (v >> (bit & 7)) & ((1u << bits) - 1);
}

// The bytes of the source in a word, zeros for the others.
FN u32 zstd_edge(const ZstdSource *s, i32 word) {
  u32 v = 0;
  for (i32 i = 0; i < 4; i++) {
    i32 at = word * 4 + i - (i32)s->shift;
    if (at >= 0 && at < (i32)s->len) v |= (u32)s->src[at] << (8 * i);
  }
  return v;
}

// Aligned words inside the source are loaded at once; the two at its ends are already loaded.
FN u32 zstd_word(const ZstdSource *s, i32 word) {
  if (word >= s->from_word && word < s->to_word) return ((GLOBAL const u32 *)s->base)[word];
  return word == s->to_word ? s->tail : word == s->from_word - 1 ? s->head : 0;
}

// Afterwards at least 33 bits are available.
FN void zstd_refill(const ZstdSource *s, ZstdBits *b) {
  if (b->have <= 32) {
    b->acc |= (u64)b->ahead << (32 - b->have);
    b->have += 32;
    b->word -= b->word >= 0;
    b->ahead = zstd_word(s, b->word);
  }
}

// The highest set bit of the last byte ends a stream. Without a set bit the stream is invalid.
// Returns the number of bits before it, -1: invalid.
FN i32 zstd_length(const ZstdSource *s, u32 at, u32 len) {
  if (len == 0 || s->src[at + len - 1] == 0) return -1;
  return (i32)((len - 1) * 8 + zstd_high(s->src[at + len - 1]));
}

// Starts to read the stream at byte `at` with the last of its first `left` bits.
FN void zstd_seek(const ZstdSource *s, ZstdBits *b, u32 at, i32 left) {
  u32 bit = (at + s->shift) * 8 + (u32)left, bits = bit & 31;
  b->left = left;
  b->word = (i32)(bit >> 5);
  b->have = (i32)bits;
  b->acc = bits ? (u64)zstd_word(s, b->word) << (64 - bits) : 0;
  b->word--;
  b->ahead = zstd_word(s, b->word);
}

// Up to 31 bits. Between two refills the caller may read at most 33 bits.
FN u32 zstd_bits(ZstdBits *b, u32 n) {
  u32 v = (u32)((b->acc >> 1) >> (63 - n));
  b->acc <<= n;
  b->have -= (i32)n;
  b->left -= (i32)n;
  return v;
}

// Reads the probabilities of a state table (RFC 8878, 4.1.1) for up to `symbols` symbols. Returns the position
// after them, 0: corrupt.
FN u32 zstd_counts(GLOBAL const u8 *src, u32 at, u32 end, u32 max_log, u32 symbols, LOCAL_PTR u16 *count, u32 *log) {
  u32 bit = 4, n = 0;
  *log = zstd_peek(src, at, end, 0, 4) + 5;
  if (*log > max_log) return 0;
  u32 rest = 1u << *log;
  while (rest > 0) {
    if (n == symbols) return 0;
    // A value of 0 to rest + 1: the first `few` values are one bit shorter.
    u32 wide = zstd_high(rest + 1) + 1, middle = 1u << (wide - 1), few = 2 * middle - 2 - rest;
    u32 v = zstd_peek(src, at, end, bit, wide);
    if ((v & (middle - 1)) < few) {
      v &= middle - 1;
      bit += wide - 1;
    } else {
      if (v >= middle) v -= few;
      bit += wide;
    }
    count[n++] = (u16)v;
    rest -= v == 0 ? 1 : v - 1;
    if (v == 1) {
      u32 more;
      do {
        more = zstd_peek(src, at, end, bit, 2);
        bit += 2;
        if (more > symbols - n) return 0;
        for (u32 i = 0; i < more; i++) count[n++] = 1;
      } while (more == 3);
    }
  }
  while (n < symbols) count[n++] = 1;
  u32 bytes = (bit + 7) >> 3;
  return at < end && bytes <= end - at ? at + bytes : 0;
}

// The part of an entry that depends only on the symbol: the symbol, and the bits that are added to its value.
FN u32 zstd_entry(u32 kind, u32 symbol) {
  u32 bits = kind == ZSTD_LL ? zstd_ll_bits[symbol] : kind == ZSTD_ML ? zstd_ml_bits[symbol] : symbol;
  return symbol << ZSTD_SYMBOL | bits << ZSTD_ALL_BITS;
}

// The first part of building a state table from its probabilities, by one item: the symbol of each state, and
// above it the number of the state among those of its symbol.
FN void zstd_spread(LOCAL_PTR u32 *table, LOCAL_PTR const u16 *count, LOCAL_PTR u16 *next, u32 symbols, u32 log) {
  u32 size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3, high = size, pos = 0;
  for (u32 s = 0; s < symbols; s++) {
    if (count[s] == 0) table[--high] = s;
    next[s] = (u16)(count[s] == 0 ? 1 : count[s] - 1);
  }
  for (u32 s = 0; s < symbols; s++) {
    for (u32 i = count[s]; i > 1; i--) {
      table[pos] = s;
      do pos = (pos + step) & mask;
      while (pos >= high);
    }
  }
  for (u32 i = 0; i < size; i++) {
    u32 s = table[i], x = next[s];
    next[s] = (u16)(x + 1);
    table[i] = s | x << 8;
  }
}

// The second part, for each state alone: its entry.
FN u32 zstd_state(u32 found, u32 log, u32 kind) {
  u32 x = found >> 8, bits = log - zstd_high(x);
  return (((x << bits) - (1u << log)) | bits << ZSTD_NEXT_BITS) + (bits << ZSTD_ALL_BITS) + zstd_entry(kind, found & 255);
}

// Reads the weights of a Huffman table (4.2.1) and computes the position of each symbol in it. Returns the
// position after them, 0: corrupt.
FN u32 zstd_weights(LOCAL_PTR ZstdShared *z, const ZstdSource *s, u32 at, u32 end) {
  GLOBAL const u8 *src = s->src;
  if (at >= end) return 0;
  u32 head = src[at++], n = 0;
  if (head >= 128) {
    n = head - 127;
    if ((n + 1) / 2 > end - at) return 0;
    for (u32 i = 0; i < n; i++) z->weight[i] = (src[at + i / 2] >> (i & 1 ? 0 : 4)) & 15;
    at += (n + 1) / 2;
  } else {
    if (head > end - at) return 0;
    u32 log, bits_at = zstd_counts(src, at, at + head, 6, 13, z->u.c.count[ZSTD_LL], &log);
    end = at + head;
    if (bits_at == 0) return 0;
    i32 left = zstd_length(s, bits_at, end - bits_at);
    if (left < 0) return 0;
    ZstdBits b;
    zstd_seek(s, &b, bits_at, left);
    zstd_spread(z->u.c.states, z->u.c.count[ZSTD_LL], z->u.c.next[ZSTD_LL], 13, log);
    for (u32 i = 0; i < 1u << log; i++) z->u.c.states[i] = zstd_state(z->u.c.states[i], log, ZSTD_OF);
    zstd_refill(s, &b);
    u32 now = zstd_bits(&b, log), other = zstd_bits(&b, log);
    if (b.left < 0) return 0;
    // Two states alternate. If one needs bits that do not exist, the other has the last weight.
    for (;;) {
      if (n > 253) return 0;
      zstd_refill(s, &b);
      u32 e = z->u.c.states[now];
      z->weight[n++] = (u8)(e >> ZSTD_SYMBOL & 63);
      now = (e & 1023) + zstd_bits(&b, e >> ZSTD_NEXT_BITS);
      if (b.left < 0) break;
      u32 swap = now;
      now = other;
      other = swap;
    }
    z->weight[n++] = (u8)(z->u.c.states[other] >> ZSTD_SYMBOL & 63);
    at = end;
  }

  // The last weight is not stored: it makes the sum a power of two.
  u32 sum = 0;
  for (u32 i = 0; i < n; i++) {
    if (z->weight[i] > 11) return 0;
    sum += 1u << z->weight[i] >> 1;
  }
  if (sum == 0) return 0;
  u32 log = zstd_high(sum) + 1, rest = (1u << log) - sum;
  if (log > 11 || rest != 1u << zstd_high(rest)) return 0;
  z->weight[n++] = (u8)(zstd_high(rest) + 1);

  // Symbols are in the table by weight, lightest first. First the start of each weight is computed, then that
  // of each symbol.
  u32 place = 0;
  for (u32 w = 1; w <= log; w++) {
    u32 before = place;
    for (u32 i = 0; i < n; i++) {
      if (z->weight[i] == w) {
        z->huff_at[i] = (u16)place;
        place += 1u << (w - 1);
      }
    }
    // A complete code has a pair of longest words; libzstd requires it.
    if (w == 1 && (place == before || (place & 1))) return 0;
  }
  z->symbols = n;
  z->huff_log = log;
  z->have_huff = 1;
  return at;
}

// Counts the code words that start before only `stop` bits of the stream are left.
FN u32 zstd_count(LOCAL_PTR const ZstdShared *z, const ZstdSource *s, ZstdBits *b, i32 stop) {
  u32 unused = 64 - z->huff_log, n = 0;
  // Three words of at most 11 bits fit between two refills.
  while (b->left > stop + 33) {
    zstd_refill(s, b);
    u32 e0 = z->u.huff[b->acc >> unused] >> 8;
    b->acc <<= e0;
    u32 e1 = z->u.huff[b->acc >> unused] >> 8;
    b->acc <<= e1;
    u32 e2 = z->u.huff[b->acc >> unused] >> 8;
    b->acc <<= e2;
    i32 bits = (i32)(e0 + e1 + e2);
    b->have -= bits;
    b->left -= bits;
    n += 3;
  }
  while (b->left > stop) {
    zstd_refill(s, b);
    zstd_bits(b, z->u.huff[b->acc >> unused] >> 8);
    n++;
  }
  return n;
}

// Decodes n literals.
FN void zstd_write(LOCAL_PTR const ZstdShared *z, const ZstdSource *s, ZstdBits *b, GLOBAL u8 *out, u32 n) {
  u32 unused = 64 - z->huff_log, i = 0, four = 0;
  // Bytes up to a whole word, then words, then bytes.
  u32 odd = (0u - (u32)(u64)out) & 3;
  if (odd > n) odd = n;
  for (u32 end = odd;;) {
    for (; i < end; i++) {
      zstd_refill(s, b);
      u32 e = z->u.huff[b->acc >> unused];
      zstd_bits(b, e >> 8);
      out[i] = (u8)e;
    }
    if (i == n) return;
    for (; i + 4 <= n; i += 4) {
      zstd_refill(s, b);
      u32 e0 = z->u.huff[b->acc >> unused];
      b->acc <<= e0 >> 8;
      u32 e1 = z->u.huff[b->acc >> unused];
      b->acc <<= e1 >> 8;
      b->have -= (i32)((e0 >> 8) + (e1 >> 8));
      zstd_refill(s, b);
      u32 e2 = z->u.huff[b->acc >> unused];
      b->acc <<= e2 >> 8;
      u32 e3 = z->u.huff[b->acc >> unused];
      b->acc <<= e3 >> 8;
      b->have -= (i32)((e2 >> 8) + (e3 >> 8));
      four = (e0 & 255) | (e1 & 255) << 8 | (e2 & 255) << 16 | e3 << 24;
      *(GLOBAL u32 *)(out + i) = four;
    }
    end = n;
  }
}

// Every byte of `flags`, combined.
FN u32 zstd_any(LOCAL_PTR const ZstdShared *z) {
  u32 any = 0;
  for (u32 i = 0; i < 8; i++) any |= z->flags[i];
  return any;
}

// The index of the first byte of `flags` with a bit of the mask, or 32.
FN u32 zstd_first(LOCAL_PTR const ZstdShared *z, u32 mask) {
  for (u32 w = 0; w < 8; w++) {
    u32 v = z->flags[w] & mask;
    if (v != 0) return 4 * w + ((v & 255) != 0 ? 0 : (v & 0xffff) != 0 ? 1 : (v & 0xffffff) != 0 ? 2 : 3);
  }
  return 32;
}

// Decodes the Huffman-coded literals, by all items. Afterwards `bad` is set for streams that are invalid.
FN void zstd_huffman(LOCAL_PTR ZstdShared *z, const ZstdSource *s, GLOBAL u8 *out) {
  LOCAL_PTR u8 *flags = (LOCAL_PTR u8 *)z->flags;
  u32 team = 32 / z->streams, stream = LID / team, lane = LID & (team - 1);
  // All streams but the last have the same number of literals, a quarter rounded up. With 6 or more
  // literals, these do not exceed the total.
  u32 part = z->streams == 1 ? z->lit_size : (z->lit_size + 3) / 4, first = part * stream;
  u32 n = z->streams == 1 || stream < 3 ? part : z->lit_size - first, at = z->stream_at[stream];
  i32 bits = zstd_length(s, at, z->stream_len[stream]), invalid = bits < 0;
  if (invalid) bits = 0;
  i32 share = (i32)(((u32)bits + team - 1) / team);
  // The item's part are the words that start with more than `stop` and at most `begin` bits left.
  i32 begin = bits - (i32)lane * share, stop = begin - share, from = begin;
  if (stop < 0) stop = 0;
  ZstdBits b;
  if (lane > 0 && begin > 0) {
    zstd_seek(s, &b, at, begin + ZSTD_LEAD < bits ? begin + ZSTD_LEAD : bits);
    zstd_count(z, s, &b, begin);
    from = b.left;
  }
  u32 moved = 1, count = 0;
  do {
    if (moved) {
      count = 0;
      i32 end = from;
      if (from > stop) {
        zstd_seek(s, &b, at, from);
        count = zstd_count(z, s, &b, stop);
        end = b.left;
      }
      z->scan[0][LID] = (u32)end;
      z->scan[1][LID] = count;
    }
    SYNC();
    i32 before = lane == 0 ? from : (i32)z->scan[0][LID - 1];
    moved = before != from;
    from = before;
    flags[LID] = (u8)moved;
    SYNC();
  } while (zstd_any(z) != 0);
  u32 ahead = 0, all = 0;
  for (u32 i = 0; i < team; i++) {
    if (i == lane) ahead = all;
    all += z->scan[1][stream * team + i];
  }
  // The stream must end exactly with its last literal.
  u32 bad = invalid || all != n || z->scan[0][stream * team + team - 1] != 0;
  if (lane == 0) z->bad[stream] = bad;
  if (!bad && count > 0) {
    zstd_seek(s, &b, at, from);
    zstd_write(z, s, &b, out + first + ahead, count);
  }
  SYNC();
}

// Reads the frame header (3.1.1.1).
FN u32 zstd_frame(LOCAL_PTR ZstdShared *z, const ZstdSource *s) {
  GLOBAL const u8 *src = s->src;
  if (s->len < 6) return STATUS_TRUNCATED;
  u32 magic = (u32)zstd_le(src, 4), head = src[4], single = head >> 5 & 1, size_bytes = head >> 6;
  if ((magic & 0xfffffff0u) == 0x184d2a50u) return STATUS_UNSUPPORTED;
  if (magic != 0xfd2fb528u || (head & 8) != 0) return STATUS_CORRUPT;
  if ((head & 3) != 0) return STATUS_UNSUPPORTED;
  size_bytes = size_bytes ? 1u << size_bytes : single;
  u32 at = 5;
  u64 window = 0;
  if (!single) {
    u64 unit = (u64)1 << (10 + (src[at] >> 3));
    window = unit + (unit >> 3) * (src[at] & 7);
    at++;
  }
  if (size_bytes > s->len - at) return STATUS_TRUNCATED;
  z->content = size_bytes ? zstd_le(src + at, size_bytes) + (size_bytes == 2 ? 256 : 0) : ~(u64)0;
  if (single) window = z->content;
  if (window > ZSTD_WINDOW_MAX) return STATUS_UNSUPPORTED;
  z->window = (u32)window;
  z->block_max = z->window < ZSTD_BLOCK_MAX ? z->window : ZSTD_BLOCK_MAX;
  z->checksum = head >> 2 & 1;
  z->at = at + size_bytes;
  return ZSTD_GOING;
}

// Reads the header of a compressed block's literals (3.1.1.3.1), with the weights and the jump table. Returns
// the position after the literals, 0: corrupt.
FN u32 zstd_literals(LOCAL_PTR ZstdShared *z, const ZstdSource *s, u32 at, u32 end) {
  GLOBAL const u8 *src = s->src;
  u32 kind = src[at] & 3, form = src[at] >> 2 & 3, room = end - at, size;
  z->lit_kind = kind;
  if (kind < ZSTD_COMPRESSED) {
    u32 head = form == 1 ? 2 : form == 3 ? 3 : 1;
    if (head > room) return 0;
    size = (u32)zstd_le(src + at, head) >> (head == 1 ? 3 : 4);
    u32 stored = kind == ZSTD_RAW ? size : 1;
    if (size > z->block_max || stored > room - head) return 0;
    z->lit_size = size;
    z->lit_from = at + head;
    return at + head + stored;
  }
  u32 head = form < 2 ? 3 : form + 2, bits = form < 2 ? 10 : form == 2 ? 14 : 18;
  if (head > room) return 0;
  u64 sizes = zstd_le(src + at, head) >> 4;
  size = (u32)sizes & ((1u << bits) - 1);
  u32 stored = (u32)(sizes >> bits) & ((1u << bits) - 1);
  if (size == 0 || size > z->block_max || stored > room - head) return 0;
  at += head;
  end = at + stored;
  if (kind == ZSTD_COMPRESSED) {
    at = zstd_weights(z, s, at, end);
    if (at == 0) return 0;
  } else if (!z->have_huff) {
    return 0;
  }
  z->lit_size = size;
  if (form == 0) {
    z->streams = 1;
    z->stream_at[0] = at;
    z->stream_len[0] = end - at;
  } else {
    // libzstd refuses less than 6 literals in four streams.
    if (size < 6 || end - at < 10) return 0;
    u32 left = end - at - 6, begin = at + 6;
    for (u32 i = 0; i < 4; i++) {
      u32 len = i < 3 ? (u32)zstd_le(src + at + 2 * i, 2) : left;
      if (len > left) return 0;
      z->stream_at[i] = begin;
      z->stream_len[i] = len;
      begin += len;
      left -= len;
    }
    z->streams = 4;
  }
  return end;
}

// Reads the header of the sequences (3.1.1.3.2.1), with the data to build their tables. Returns whether it is
// valid.
FN u32 zstd_sequences(LOCAL_PTR ZstdShared *z, const ZstdSource *s, u32 at, u32 end) {
  GLOBAL const u8 *src = s->src;
  if (at >= end) return 0;
  u32 n = src[at++];
  z->sequences = 0;
  if (n == 0) return at == end;
  if (n == 255) {
    if (end - at < 2) return 0;
    n = (u32)zstd_le(src + at, 2) + 0x7f00;
    at += 2;
  } else if (n >= 128) {
    if (end - at < 1) return 0;
    n = ((n - 128) << 8) + src[at++];
  }
  if (n == 0 || at >= end) return 0;
  u32 modes = src[at++];
  if ((modes & 3) != 0) return 0;
  for (u32 kind = 0; kind < 3; kind++) {
    u32 mode = modes >> (6 - 2 * kind) & 3, symbols = kind == ZSTD_LL ? 36 : kind == ZSTD_OF ? 32 : 53;
    // This is not a switch: the compiler would make it one of 2 bits, which Oclgrind handles wrongly.
    if (mode < ZSTD_COMPRESSED) {
      if (mode == ZSTD_RAW) {
        if (kind == ZSTD_OF) symbols = 29;
        for (u32 i = 0; i < symbols; i++)
          z->u.c.count[kind][i] = kind == ZSTD_LL ? zstd_ll_default[i] : kind == ZSTD_OF ? zstd_of_default[i] : zstd_ml_default[i];
        z->log[kind] = kind == ZSTD_OF ? 5 : 6;
        z->build[kind] = symbols;
      } else {
        if (at >= end || src[at] >= symbols) return 0;
        z->fse[ZSTD_FSE_AT(kind)] = zstd_entry(kind, src[at++]);
        z->log[kind] = 0;
      }
    } else if (mode == ZSTD_COMPRESSED) {
      u32 log;
      at = zstd_counts(src, at, end, kind == ZSTD_OF ? 8 : 9, symbols, z->u.c.count[kind], &log);
      if (at == 0) return 0;
      z->log[kind] = log;
      z->build[kind] = symbols;
    } else if (!z->have_fse) {
      return 0;
    }
  }
  z->have_fse = 1;
  z->sequences = n;
  z->seq_at = at;
  z->seq_len = end - at;
  return 1;
}

// Reads the end of the frame, or a block with its headers up to the point where the group can continue. Item 0
// only.
FN u32 zstd_next(LOCAL_PTR ZstdShared *z, const ZstdSource *s, u32 want) {
  GLOBAL const u8 *src = s->src;
  u32 full = z->pos >= want, cut = full ? STATUS_OK : STATUS_TRUNCATED;
  if (z->content != ~(u64)0 && (z->last ? z->pos != z->content : z->pos > z->content)) return STATUS_CORRUPT;
  if (z->pos > want) return STATUS_OK;
  if (z->last) {
    u32 behind = s->len - z->at, tail = z->checksum ? 4 : 0;
    if (!full) return behind > tail ? STATUS_UNSUPPORTED : STATUS_TRUNCATED;
    if (z->checksum && behind >= 4) {
      z->check = 1;
      z->expected = (u32)zstd_le(src + z->at, 4);
    }
    return STATUS_OK;
  }

  if (s->len - z->at < 3) return cut;
  if (z->blocks == ZSTD_BLOCKS(want)) return STATUS_UNSUPPORTED;
  z->blocks++;
  u32 head = (u32)zstd_le(src + z->at, 3), kind = head >> 1 & 3, size = head >> 3;
  if (kind == 3 || size > z->block_max) return STATUS_CORRUPT;
  u32 at = z->at + 3, stored = kind == ZSTD_RLE ? 1 : size;
  if (stored > s->len - at) return cut;
  z->last = head & 1;
  z->at = at + stored;
  z->kind = kind;
  z->size = size;
  z->lit_from = at;
  z->begins = z->pos;
  if (kind != ZSTD_COMPRESSED) {
    z->pos += size;
    return ZSTD_GOING;
  }

  u32 end = at + size;
  z->streams = 0;
  for (u32 i = 0; i < 3; i++) z->build[i] = 0;
  if (size < 2) return STATUS_CORRUPT;
  at = zstd_literals(z, s, at, end);
  if (at == 0 || !zstd_sequences(z, s, at, end)) return STATUS_CORRUPT;
  z->block_end = z->pos + z->block_max;
  z->lit_done = 0;
  return ZSTD_GOING;
}

// The 32 bits of the window from bit `bit` on.
FN u32 zstd_window(LOCAL_PTR const ZstdShared *z, u32 bit) {
  u32 w = bit >> 5;
  return (u32)(((u64)z->u.q.window[w + 1] << 32 | z->u.q.window[w]) >> (bit & 31));
}

// Begins the sequences of a block. Item 0 only.
FN u32 zstd_open(LOCAL_PTR ZstdShared *z, const ZstdSource *s) {
  for (u32 i = 0; i < z->streams; i++)
    if (z->bad[i]) return STATUS_CORRUPT;
  if (z->sequences == 0) return ZSTD_GOING;
  i32 left = zstd_length(s, z->seq_at, z->seq_len);
  if (left < 0) return STATUS_CORRUPT;
  ZstdBits b;
  zstd_seek(s, &b, z->seq_at, left);
  zstd_refill(s, &b);
  for (u32 i = 0; i < 3; i++) z->state[i] = zstd_bits(&b, z->log[i]);
  // A negative number is found in the first queue.
  z->bit_from = (z->seq_at + s->shift) * 8;
  z->bit = z->bit_from + (u32)b.left;
  return ZSTD_GOING;
}

// The first word of the window for the next queue: the stream is read backwards, and `bit` is in the last
// word but one, so that 32 bits from every bit before it are in the window.
FN u32 zstd_window_from(LOCAL_PTR const ZstdShared *z) {
  u32 word = z->bit >> 5;
  return word < ZSTD_WINDOW - 2 ? 0 : word - (ZSTD_WINDOW - 2);
}

// The bits that are added to the value of an entry's symbol.
FN u32 zstd_added(u32 entry) { return (entry >> ZSTD_ALL_BITS & 127) - (entry >> ZSTD_NEXT_BITS); }

// Follows the chain of states for the next sequences, as many as there are and fit in the queue and in the
// window. Notes for each the bit where it ends in `at`, and the entries of its states in `from`, `off` and
// `match`. Item 0 only.
FN void zstd_chain(LOCAL_PTR ZstdShared *z) {
  LOCAL_PTR const u32 *ll_table = z->fse + ZSTD_FSE_AT(ZSTD_LL), *of_table = z->fse + ZSTD_FSE_AT(ZSTD_OF);
  LOCAL_PTR const u32 *ml_table = z->fse + ZSTD_FSE_AT(ZSTD_ML);
  u32 todo = z->sequences, n = 0, window_bit = z->window_from * 32;
  u32 ll = z->state[ZSTD_LL], of = z->state[ZSTD_OF], ml = z->state[ZSTD_ML];
  i32 bit = (i32)(z->bit - window_bit), floor = (i32)(z->bit_from - window_bit), low = floor < 0 ? 0 : floor, next = 0;
  u32 most = todo - 1 < ZSTD_QUEUE ? todo - 1 : ZSTD_QUEUE;
  for (; n < most; n++) {
    u32 ll_entry = ll_table[ll], of_entry = of_table[of], ml_entry = ml_table[ml];
    next = bit - (i32)((ll_entry + of_entry + ml_entry) >> ZSTD_ALL_BITS & 127);
    if (next < low) break;
    z->u.q.at[n] = (u32)bit;
    z->u.q.from[n] = ll_entry;
    z->u.q.off[n] = of_entry;
    z->u.q.match[n] = ml_entry;
    // The bits of the next states, that of the offset lowest.
    u32 of_bits = zstd_window(z, (u32)next), ml_bits = of_bits >> (of_entry >> ZSTD_NEXT_BITS);
    u32 ll_bits = ml_bits >> (ml_entry >> ZSTD_NEXT_BITS), none = ll_bits >> (ll_entry >> ZSTD_NEXT_BITS);
    of = (of_entry & 1023) + of_bits - (ml_bits << (of_entry >> ZSTD_NEXT_BITS));
    ml = (ml_entry & 1023) + ml_bits - (ll_bits << (ml_entry >> ZSTD_NEXT_BITS));
    ll = (ll_entry & 1023) + ll_bits - (none << (ll_entry >> ZSTD_NEXT_BITS));
    bit = next;
  }
  // The last sequence has no states after it, and must end with the stream.
  if (n < ZSTD_QUEUE && n + 1 == todo) {
    u32 ll_entry = ll_table[ll], of_entry = of_table[of], ml_entry = ml_table[ml];
    next = bit - (i32)(zstd_added(ll_entry) + zstd_added(of_entry) + zstd_added(ml_entry));
    if (next >= low) {
      z->u.q.at[n] = (u32)bit;
      z->u.q.from[n] = ll_entry;
      z->u.q.off[n] = of_entry;
      z->u.q.match[n] = ml_entry;
      n++;
      bit = next;
      if (bit != floor) z->ends = STATUS_CORRUPT;
    }
  }
  // The window may end before the queue is full, but not before the stream.
  if (floor >= 0 && n < todo && n < ZSTD_QUEUE) z->ends = STATUS_CORRUPT;
  z->state[ZSTD_LL] = ll, z->state[ZSTD_OF] = of, z->state[ZSTD_ML] = ml;
  z->bit = window_bit + (u32)bit;
  z->sequences = todo - n;
  z->queued = n;
}

// The last used offsets are computed before those of the previous sequences are known. A value with the
// highest bit is not an offset: its lowest 2 bits say which of the offsets before the sequence is meant, and
// the others the number to subtract.
#define ZSTD_UNKNOWN 0x80000000u

FN u32 zstd_known(u32 offset, u32 rep0, u32 rep1, u32 rep2) {
  if ((offset & ZSTD_UNKNOWN) == 0) return offset;
  u32 which = offset & 3, minus = offset << 1 >> 1 & ~3u, rep = which == 0 ? rep0 : which == 1 ? rep1 : rep2;
  return rep & ZSTD_UNKNOWN ? rep + minus : rep - (minus >> 2);
}

// Reads sequence i, whose end and entries the chain noted: its numbers of literals and of bytes go to `from`
// and `at`, its offset to `off`, where it may be unknown.
FN void zstd_sequence(LOCAL_PTR ZstdShared *z, u32 i, u32 *rep) {
  u32 ll_entry = z->u.q.from[i], of_entry = z->u.q.off[i], ml_entry = z->u.q.match[i];
  u32 bits = zstd_added(of_entry), bit = z->u.q.at[i] - bits;
  u32 value = (1u << bits) + (zstd_window(z, bit) & ((1u << bits) - 1));
  // At most 16 bits each: both are in one window.
  u32 ml_bits = zstd_added(ml_entry), ll_bits = zstd_added(ll_entry);
  bits = zstd_window(z, bit - ml_bits - ll_bits);
  u32 lit = zstd_ll_base[ll_entry >> ZSTD_SYMBOL & 63] + (bits & ((1u << ll_bits) - 1));
  u32 match = zstd_ml_base[ml_entry >> ZSTD_SYMBOL & 63] + (bits >> ll_bits & ((1u << ml_bits) - 1));
  u32 back;
  if (value > 3) {
    // An offset that has the highest bit is larger than every window.
    back = value - 3 < ZSTD_UNKNOWN ? value - 3 : ZSTD_UNKNOWN - 1;
    rep[2] = rep[1], rep[1] = rep[0], rep[0] = back;
  } else {
    // The last used offsets (3.1.1.5). Without literals the first one would only have made the last match
    // longer.
    u32 which = value - (lit != 0);
    back = which == 1 ? rep[1] : which == 2 ? rep[2] : rep[0];
    if (which == 3) back = back & ZSTD_UNKNOWN ? back + 4 : back - 1;
    if (which > 1) rep[2] = rep[1];
    if (which > 0) rep[1] = rep[0];
    rep[0] = back;
  }
  z->u.q.from[i] = lit;
  z->u.q.at[i] = lit + match;
  z->u.q.off[i] = back;
}

// Makes positions and offsets of what the chain noted, by all items, and checks them. Then adds the literals
// after the last sequence. The status of the queue is in `verdict`.
FN void zstd_expand(LOCAL_PTR ZstdShared *z) {
  LOCAL_PTR u8 *flags = (LOCAL_PTR u8 *)z->flags;
  u32 queued = z->queued, from = 4 * LID, to = from + 4 < queued ? from + 4 : queued;
  u32 rep[3] = {ZSTD_UNKNOWN, ZSTD_UNKNOWN | 1, ZSTD_UNKNOWN | 2}, lits = 0, bytes = 0;
  for (u32 i = from; i < to; i++) {
    zstd_sequence(z, i, rep);
    lits += z->u.q.from[i];
    bytes += z->u.q.at[i];
  }
  // A scan: each item combines what it has with what the items before it have.
  for (u32 step = 1;; step *= 2) {
    z->scan[0][LID] = lits;
    z->scan[1][LID] = bytes;
    for (u32 i = 0; i < 3; i++) z->scan[2 + i][LID] = rep[i];
    SYNC();
    if (step == 32) break;
    if (LID >= step) {
      u32 other = LID - step, rep0 = z->scan[2][other], rep1 = z->scan[3][other], rep2 = z->scan[4][other];
      lits += z->scan[0][other];
      bytes += z->scan[1][other];
      for (u32 i = 0; i < 3; i++) rep[i] = zstd_known(rep[i], rep0, rep1, rep2);
    }
    SYNC();
  }
  u32 rep0 = z->rep[0], rep1 = z->rep[1], rep2 = z->rep[2], pos = z->pos, done = z->lit_done;
  u32 all_lits = done + z->scan[0][31], all_bytes = pos + z->scan[1][31];
  for (u32 i = 0; i < 3; i++) rep[i] = zstd_known(z->scan[2 + i][31], rep0, rep1, rep2);
  if (LID > 0) {
    u32 other = LID - 1, r0 = z->scan[2][other], r1 = z->scan[3][other], r2 = z->scan[4][other];
    done += z->scan[0][other];
    pos += z->scan[1][other];
    r0 = zstd_known(r0, rep0, rep1, rep2), r1 = zstd_known(r1, rep0, rep1, rep2), r2 = zstd_known(r2, rep0, rep1, rep2);
    rep0 = r0, rep1 = r1, rep2 = r2;
  }
  u32 lit_size = z->lit_size, block_end = z->block_end, window = z->window, status = STATUS_OK, longest = 0;
  for (u32 i = from; i < to; i++) {
    u32 lit = z->u.q.from[i], size = z->u.q.at[i], back = zstd_known(z->u.q.off[i], rep0, rep1, rep2);
    if (status == STATUS_OK) {
      if (lit > lit_size - done || size > block_end - pos) status = STATUS_CORRUPT;
      else if (back == 0 || back > pos + lit) status = STATUS_CORRUPT;
      else if (back > window) status = STATUS_UNSUPPORTED;
    }
    if (lit > longest) longest = lit;
    z->u.q.at[i] = pos;
    z->u.q.from[i] = done;
    z->u.q.off[i] = back;
    pos += size;
    done += lit;
  }
  flags[LID] = (u8)(status | (longest > ZSTD_SHORT) << 6 | (longest >= ZSTD_LONG) << 7);
  SYNC();
  if (LID == 0) {
    u32 verdict = z->ends;
    u32 any = zstd_any(z), long_lanes = 0;
    z->medium = (any & 0x40404040u) != 0;
    if (any & 0x80808080u) {
      for (u32 w = 0; w < 8; w++) {
        u32 v = z->flags[w] >> 7 & 0x01010101u;
        long_lanes |= ((v | v >> 7 | v >> 14 | v >> 21) & 15) << 4 * w;
      }
    }
    u32 failed = zstd_first(z, 0x0f0f0f0fu);
    if (failed < 32) verdict = flags[failed] & 15;
    u32 n = queued, tail = lit_size - all_lits;
    // If the tail is long, it is put into a separate queue, so that the whole group copies it.
    if (verdict == ZSTD_GOING && z->sequences == 0 && tail > 0 && (n == 0 || (n < ZSTD_QUEUE && tail < 128))) {
      if (tail > block_end - all_bytes) verdict = STATUS_CORRUPT;
      z->u.q.at[n] = all_bytes;
      z->u.q.from[n] = all_lits;
      z->u.q.off[n] = 0;  // no match
      z->medium |= tail > ZSTD_SHORT;
      if (tail >= ZSTD_LONG) long_lanes |= 1u << (n / 4);
      all_bytes += tail;
      all_lits += tail;
      n++;
    }
    z->u.q.at[n] = all_bytes;
    z->u.q.from[n] = all_lits;
    z->queued = n;
    z->pos = all_bytes;
    z->lit_done = all_lits;
    z->long_lanes = long_lanes;
    z->rep[0] = rep[0], z->rep[1] = rep[1], z->rep[2] = rep[2];
    z->verdict = verdict;
  }
  SYNC();
}

// The number of items that work together on one of n pieces: as many as there are for it, but at least 4,
// because neighbouring items that access the same line of memory cost one access.
FN u32 zstd_team(u32 n) { return n < 2 ? 32 : n < 4 ? 16 : n < 8 ? 8 : 4; }

// Copies n bytes that do not overlap, by all items. Words are copied if both addresses have the same place in
// a word.
FN void zstd_move(GLOBAL u8 *to, GLOBAL const u8 *from, u32 n) {
  u32 odd = (0u - (u32)(u64)to) & 3, words = 0;
  if (n >= 64 && (((u32)(u64)to ^ (u32)(u64)from) & 3) == 0) {
    words = (n - odd) / 4;
    GLOBAL u32 *to_words = (GLOBAL u32 *)(to + odd);
    GLOBAL const u32 *from_words = (GLOBAL const u32 *)(from + odd);
    for (u32 i = LID; i < words; i += 32) to_words[i] = from_words[i];
    if (LID < odd) to[LID] = from[LID];
    words = odd + 4 * words;
  }
  for (u32 i = words + LID; i < n; i += 32) to[i] = from[i];
}

// Executes the queue. `lit` has the literals, or the one byte that all of them equal (step 0).
FN void zstd_copy(LOCAL_PTR ZstdShared *z, GLOBAL u8 *out, u32 want, GLOBAL const u8 *lit, u32 step) {
  LOCAL_PTR u8 *flags = (LOCAL_PTR u8 *)z->flags;
  u32 queued = z->queued, team = z->medium ? zstd_team(queued) : 1, long_lanes = step == 1 ? z->long_lanes : 0;
  u32 longest = long_lanes ? ZSTD_LONG : ~0u;
  for (u32 i = LID / team; i < queued; i += 32 / team) {
    u32 at = z->u.q.at[i], from = z->u.q.from[i], n = z->u.q.from[i + 1] - from;
    n = at >= want || n >= longest ? 0 : n < want - at ? n : want - at;
    for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = lit[(from + j) * step];
  }
  for (u32 i = 0; long_lanes != 0; i += 4, long_lanes >>= 1) {
    for (u32 k = i; k < i + 4 && k < queued && (long_lanes & 1) != 0; k++) {
      u32 at = z->u.q.at[k], from = z->u.q.from[k], n = z->u.q.from[k + 1] - from;
      if (n >= longest && at < want) zstd_move(out + at, lit + from, n < want - at ? n : want - at);
    }
  }
  for (u32 m = 0; m < queued;) {
    // A run ends before the first match that reads what one of the run writes.
    u32 mine = m + LID, ends = 1;
    if (mine < queued) {
      u32 run = z->u.q.at[m] + z->u.q.from[m + 1] - z->u.q.from[m];
      u32 at = z->u.q.at[mine] + z->u.q.from[mine + 1] - z->u.q.from[mine];
      u32 n = z->u.q.at[mine + 1] - at, back = z->u.q.off[mine];
      ends = (at - back + (n < back ? n : back) > run && mine > m) | (n > ZSTD_SHORT) << 1;
    }
    flags[LID] = (u8)ends;
    SYNC();  // also after the literals
    u32 end = m + zstd_first(z, 0x01010101u);
    team = zstd_any(z) & 0x02020202u ? zstd_team(end - m) : end - m < 8 ? zstd_team(end - m) : 1;
    for (u32 i = m + LID / team; i < end; i += 32 / team) {
      u32 at = z->u.q.at[i] + z->u.q.from[i + 1] - z->u.q.from[i], n = z->u.q.at[i + 1] - at, back = z->u.q.off[i];
      n = at >= want ? 0 : n < want - at ? n : want - at;
      GLOBAL const u8 *from = out + (at - back);
      // A match that overlaps itself repeats its existing part, so no item waits for another.
      if (n > back)
        for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = from[j % back];
      else
        for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = from[j];
    }
    m = end;
    SYNC();
  }
}

#define ZSTD_P1 0x9E3779B185EBCA87u
#define ZSTD_P2 0xC2B2AE3D27D4EB4Fu
#define ZSTD_P3 0x165667B19E3779F9u
#define ZSTD_P4 0x85EBCA77C2B2AE63u
#define ZSTD_P5 0x27D4EB2F165667C5u

FN u64 zstd_mix(u64 acc, u64 in) { return ZSTD_TURN(acc + in * ZSTD_P2, 31) * ZSTD_P1; }

// One of the four sums of XXH64.
FN u64 zstd_lane(GLOBAL const u8 *p, u32 len, u32 lane) {
  u64 acc = lane == 0 ? ZSTD_P1 + ZSTD_P2 : lane == 1 ? ZSTD_P2 : lane == 2 ? 0 : (u64)0 - ZSTD_P1;
  for (u32 i = 0; i + 32 <= len; i += 32) acc = zstd_mix(acc, zstd_le(p + i + 8 * lane, 8));
  return acc;
}

// XXH64, seed 0, from those sums and the bytes after the last whole stripe.
FN u64 zstd_hash(GLOBAL const u8 *p, u32 len, LOCAL_PTR const u64 *lane) {
  u64 h = ZSTD_P5;
  if (len >= 32) {
    h = ZSTD_TURN(lane[0], 1) + ZSTD_TURN(lane[1], 7) + ZSTD_TURN(lane[2], 12) + ZSTD_TURN(lane[3], 18);
    for (u32 i = 0; i < 4; i++) h = (h ^ zstd_mix(0, lane[i])) * ZSTD_P1 + ZSTD_P4;
  }
  h += len;
  u32 i = len & ~31u;
  for (; i + 8 <= len; i += 8) h = ZSTD_TURN(h ^ zstd_mix(0, zstd_le(p + i, 8)), 27) * ZSTD_P1 + ZSTD_P4;
  if (i + 4 <= len) {
    h = ZSTD_TURN(h ^ zstd_le(p + i, 4) * ZSTD_P1, 23) * ZSTD_P2 + ZSTD_P3;
    i += 4;
  }
  for (; i < len; i++) h = ZSTD_TURN(h ^ p[i] * ZSTD_P5, 11) * ZSTD_P1;
  h = (h ^ h >> 33) * ZSTD_P2;
  h = (h ^ h >> 29) * ZSTD_P3;
  return h ^ h >> 32;
}

KERNEL(32) zstd(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL u32 *status, GLOBAL u8 *scratch,
                u32 first) {
  LOCAL ZstdShared z;
  // Blocks are processed in waves, so that only one wave needs working memory.
  u32 block = first + GRP;
  u64 src_at = BLOCK(batch, block).src;
  u32 want = BLOCK(batch, block).dst_len;
  ZstdSource s;
  s.src = batch + src_at;
  s.shift = (u32)(src_at & 3);
  s.base = s.src - s.shift;
  u32 sparse = BLOCK(batch, block).flags & BLOCK_SPARSE;
  // Positions have 32 bits and may continue after the end for one ZSTD block.
  u32 large = BLOCK(batch, block).src_len > 0x7fff0000u || want > 0x7fff0000u;
  s.len = sparse || large ? 0 : BLOCK(batch, block).src_len;
  s.from_word = (i32)(s.shift + 3) >> 2;
  s.to_word = (i32)((s.shift + s.len) >> 2);
  s.head = zstd_edge(&s, s.from_word - 1);
  s.tail = zstd_edge(&s, s.to_word);
  GLOBAL u8 *out = decoded + BLOCK(batch, block).dst;
  scratch += (u64)GRP * ZSTD_SCRATCH;

  if (LID == 0) {
    z.pos = 0;
    z.last = 0;
    z.blocks = 0;
    z.check = 0;
    z.have_huff = 0;
    z.have_fse = 0;
    z.bit = 0;
    z.rep[0] = 1, z.rep[1] = 4, z.rep[2] = 8;
    z.verdict = sparse ? STATUS_OK : large ? STATUS_UNSUPPORTED : zstd_frame(&z, &s);
  }
  SYNC();
  u32 verdict = z.verdict;
  while (verdict == ZSTD_GOING) {
    SYNC();
    if (LID == 0) z.verdict = zstd_next(&z, &s, want);
    SYNC();
    verdict = z.verdict;
    if (verdict != ZSTD_GOING) break;
    if (z.kind == ZSTD_COMPRESSED) {
      if (LID < 3 && z.build[LID])
        zstd_spread(z.fse + ZSTD_FSE_AT(LID), z.u.c.count[LID], z.u.c.next[LID], z.build[LID], z.log[LID]);
      SYNC();
      for (u32 kind = 0; kind < 3; kind++) {
        LOCAL_PTR u32 *table = z.fse + ZSTD_FSE_AT(kind);
        if (z.build[kind])
          for (u32 i = LID; i < 1u << z.log[kind]; i += 32) table[i] = zstd_state(table[i], z.log[kind], kind);
      }
      if (z.streams > 0) {
        for (u32 i = LID; i < z.symbols; i += 32) {
          u32 weight = z.weight[i], entry = i | (z.huff_log + 1 - weight) << 8, n = 1u << weight >> 1;
          for (u32 j = 0; j < n; j++) z.u.huff[z.huff_at[i] + j] = (u16)entry;
        }
        SYNC();
        zstd_huffman(&z, &s, scratch);
      }
      if (LID == 0) z.verdict = zstd_open(&z, &s);
      SYNC();
      verdict = z.verdict;
      GLOBAL const u8 *lit = z.lit_kind >= ZSTD_COMPRESSED ? scratch : s.src + z.lit_from;
      u32 step = z.lit_kind != ZSTD_RLE;
      while (verdict == ZSTD_GOING && (z.sequences > 0 || z.lit_done < z.lit_size)) {
        u32 chain = z.sequences > 0, from = chain ? zstd_window_from(&z) : 0;
        if (chain)
          for (u32 i = LID; i < ZSTD_WINDOW; i += 32) z.u.q.window[i] = zstd_word(&s, (i32)(from + i));
        SYNC();
        if (LID == 0) {
          z.window_from = from;
          z.queued = 0;
          z.ends = ZSTD_GOING;
          if (chain) zstd_chain(&z);
        }
        SYNC();
        zstd_expand(&z);
        verdict = z.verdict;
        if (verdict == ZSTD_GOING) zstd_copy(&z, out, want, lit, step);
        SYNC();
      }
    } else {
      u32 step = z.kind == ZSTD_RAW, pos = z.begins, n = z.size < want - pos ? z.size : want - pos;
      GLOBAL const u8 *from = s.src + z.lit_from;
      if (step == 1) zstd_move(out + pos, from, n);
      else
        for (u32 i = LID; i < n; i += 32) out[pos + i] = from[0];
    }
  }

  u32 check = verdict == STATUS_OK && z.check;
  if (check && LID < 4) z.lane[LID] = zstd_lane(out, want, LID);
  SYNC();
  if (LID == 0) {
    if (check && (u32)zstd_hash(out, want, z.lane) != z.expected) verdict = STATUS_CHECKSUM;
    status[block] = verdict;
  }
}
