// Zstandard (RFC 8878): one group of 32 decodes one frame.
//
// The distribution of work. Item 0 does the serial part: headers, the counts of the entropy coders, and the
// sequences, each of which starts where the bits of the previous one end. It puts up to ZSTD_QUEUE sequences,
// already checked, into a queue in local memory. Then the whole group copies their literals, which depend on
// nothing, and then their matches, run by run. A run is as many matches as read only bytes before the first
// match of the run, so the order within a run does not matter and one barrier per run is enough. Four items
// decode the four streams of Huffman-coded literals, three items build the three state tables, and all items
// fill in the symbols of the Huffman table. The group is one warp on NVIDIA's hardware: decoding the next
// sequences while the last ones are copied would gain nothing, and barriers cost little.
//
// Only item 0 writes scalars in local memory, between two barriers in which no other item reads them.
//
// Accepted streams. The kernel accepts nothing that `swath-codec/src/zstd.rs` refuses: libzstd's streaming
// decoder checks the whole ZSTD block in which the requested bytes end, and also the next one if they end
// exactly with a block. The kernel does the same, with and without BLOCK_TOP: positions continue after dst_len,
// and only the writes stop there. Where libzstd is less strict than the RFC (matches from before the window,
// Huffman codes of 12 bits, Huffman streams with unused bits), the kernel is strict. The CPU decodes streams
// with dictionaries, with skippable frames, and with several frames that fill the block only together.
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

typedef struct {
  u16 huff[2048];      // next bits -> symbol | length << 8
  u32 fse[1280];       // state -> next state 10 bits | bits of it 4 | symbol 6 | added bits 5
  // The queue, with one more entry that ends the last: sequence i writes from q_at[i] to q_at[i + 1], first the
  // literals from q_from[i] to q_from[i + 1], then a match q_off[i] bytes back. Between queues, q_at holds the
  // states of Huffman weights.
  u32 q_at[ZSTD_QUEUE + 1];
  u32 q_from[ZSTD_QUEUE + 1];
  u32 q_off[ZSTD_QUEUE];
  u16 q_run[ZSTD_QUEUE + 1];
  u32 queued, runs;

  u16 count[3][53];    // probability + 1 of each code
  u16 next[3][53];
  u16 huff_at[256];    // start of each symbol in `huff`
  u8 weight[256];
  u32 symbols, huff_log;
  u32 log[3];
  u32 build[3];        // number of codes of a table to build, 0: keep the existing one
  u32 build_huff;
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
  u32 seq_at, seq_len, begun;
  u32 state[3], rep[3];
  u64 acc;             // the sequences' bit reader, between queues
  u32 ahead;
  i32 have, left, word;
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

// The highest set bit of the last byte ends the stream. Without a set bit the stream is invalid.
FN u32 zstd_begin(const ZstdSource *s, ZstdBits *b, u32 at, u32 len) {
  if (len == 0 || s->src[at + len - 1] == 0) return 0;
  u32 high = zstd_high(s->src[at + len - 1]), top = at + len - 1 + s->shift, bits = (top & 3) * 8 + high;
  b->left = (i32)((len - 1) * 8 + high);
  b->word = (i32)(top >> 2);
  b->have = (i32)bits;
  b->acc = bits ? (u64)zstd_word(s, b->word) << (64 - bits) : 0;
  b->word--;
  b->ahead = zstd_word(s, b->word);
  return 1;
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

FN u32 zstd_entry(u32 kind, u32 symbol) {
  u32 bits = kind == ZSTD_LL ? zstd_ll_bits[symbol] : kind == ZSTD_ML ? zstd_ml_bits[symbol] : symbol;
  return symbol << 14 | bits << 20;
}

// Builds a state table from its probabilities, by one item.
FN void zstd_states(LOCAL_PTR u32 *table, LOCAL_PTR const u16 *count, LOCAL_PTR u16 *next, u32 symbols, u32 log,
                         u32 kind) {
  u32 size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3, high = size, pos = 0;
  for (u32 s = 0; s < symbols; s++) {
    if (count[s] == 0) table[--high] = s;
    next[s] = (u16)(count[s] == 0 ? 1 : count[s] - 1);
  }
  for (u32 s = 0; s < symbols; s++) {
    for (u32 i = 1; i < count[s]; i++) {
      table[pos] = s;
      do pos = (pos + step) & mask;
      while (pos >= high);
    }
  }
  for (u32 i = 0; i < size; i++) {
    u32 s = table[i], x = next[s]++, bits = log - zstd_high(x);
    table[i] = ((x << bits) - size) | bits << 10 | zstd_entry(kind, s);
  }
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
    u32 log, bits_at = zstd_counts(src, at, at + head, 6, 13, z->count[ZSTD_LL], &log);
    end = at + head;
    ZstdBits b;
    if (bits_at == 0 || !zstd_begin(s, &b, bits_at, end - bits_at)) return 0;
    zstd_states(z->q_at, z->count[ZSTD_LL], z->next[ZSTD_LL], 13, log, ZSTD_OF);
    zstd_refill(s, &b);
    u32 now = zstd_bits(&b, log), other = zstd_bits(&b, log);
    if (b.left < 0) return 0;
    // Two states alternate. If one needs bits that do not exist, the other has the last weight.
    for (;;) {
      if (n > 253) return 0;
      zstd_refill(s, &b);
      u32 e = z->q_at[now];
      z->weight[n++] = (u8)(e >> 14 & 63);
      now = (e & 1023) + zstd_bits(&b, e >> 10 & 15);
      if (b.left < 0) break;
      u32 swap = now;
      now = other;
      other = swap;
    }
    z->weight[n++] = (u8)(z->q_at[other] >> 14 & 63);
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
  z->build_huff = 1;
  z->have_huff = 1;
  return at;
}

// Decodes one stream of literals, by one item. Returns whether it is valid.
FN u32 zstd_huffman(LOCAL_PTR const ZstdShared *z, const ZstdSource *s, u32 at, u32 len, GLOBAL u8 *out, u32 n) {
  ZstdBits b;
  if (!zstd_begin(s, &b, at, len)) return 0;
  u32 unused = 64 - z->huff_log, i = 0;
  // Three words of at most 11 bits fit between two refills.
  for (; i + 3 <= n; i += 3) {
    zstd_refill(s, &b);
    u32 e0 = z->huff[b.acc >> unused];
    b.acc <<= e0 >> 8;
    u32 e1 = z->huff[b.acc >> unused];
    b.acc <<= e1 >> 8;
    u32 e2 = z->huff[b.acc >> unused];
    b.acc <<= e2 >> 8;
    i32 bits = (i32)((e0 >> 8) + (e1 >> 8) + (e2 >> 8));
    b.have -= bits;
    b.left -= bits;
    out[i] = (u8)e0;
    out[i + 1] = (u8)e1;
    out[i + 2] = (u8)e2;
  }
  for (; i < n; i++) {
    zstd_refill(s, &b);
    u32 e = z->huff[b.acc >> unused];
    zstd_bits(&b, e >> 8);
    out[i] = (u8)e;
  }
  return b.left == 0;
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
          z->count[kind][i] = kind == ZSTD_LL ? zstd_ll_default[i] : kind == ZSTD_OF ? zstd_of_default[i] : zstd_ml_default[i];
        z->log[kind] = kind == ZSTD_OF ? 5 : 6;
        z->build[kind] = symbols;
      } else {
        if (at >= end || src[at] >= symbols) return 0;
        z->fse[ZSTD_FSE_AT(kind)] = zstd_entry(kind, src[at++]);
        z->log[kind] = 0;
      }
    } else if (mode == ZSTD_COMPRESSED) {
      u32 log;
      at = zstd_counts(src, at, end, kind == ZSTD_OF ? 8 : 9, symbols, z->count[kind], &log);
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
  z->build_huff = 0;
  for (u32 i = 0; i < 3; i++) z->build[i] = 0;
  if (size < 2) return STATUS_CORRUPT;
  at = zstd_literals(z, s, at, end);
  if (at == 0 || !zstd_sequences(z, s, at, end)) return STATUS_CORRUPT;
  z->block_end = z->pos + z->block_max;
  z->lit_done = 0;
  z->begun = 0;
  return ZSTD_GOING;
}

// Fills the queue with the next sequences, and with the literals after the last one. Item 0 only.
FN u32 zstd_fill(LOCAL_PTR ZstdShared *z, const ZstdSource *s) {
  u32 todo = z->sequences, n = 0, runs = 0, run_at = 0;
  u32 pos = z->pos, done = z->lit_done, lit_size = z->lit_size, block_end = z->block_end, window = z->window;
  LOCAL_PTR const u32 *ll_table = z->fse + ZSTD_FSE_AT(ZSTD_LL), *of_table = z->fse + ZSTD_FSE_AT(ZSTD_OF);
  LOCAL_PTR const u32 *ml_table = z->fse + ZSTD_FSE_AT(ZSTD_ML);
  z->queued = 0;
  if (todo > 0) {
    ZstdBits b;
    u32 ll_state, of_state, ml_state;
    if (z->begun) {
      b.acc = z->acc, b.ahead = z->ahead, b.have = z->have, b.left = z->left, b.word = z->word;
      ll_state = z->state[ZSTD_LL], of_state = z->state[ZSTD_OF], ml_state = z->state[ZSTD_ML];
    } else {
      for (u32 i = 0; i < z->streams; i++)
        if (z->bad[i]) return STATUS_CORRUPT;
      if (!zstd_begin(s, &b, z->seq_at, z->seq_len)) return STATUS_CORRUPT;
      zstd_refill(s, &b);
      ll_state = zstd_bits(&b, z->log[ZSTD_LL]);
      of_state = zstd_bits(&b, z->log[ZSTD_OF]);
      ml_state = zstd_bits(&b, z->log[ZSTD_ML]);
      z->begun = 1;
    }
    u32 rep0 = z->rep[0], rep1 = z->rep[1], rep2 = z->rep[2];
    while (todo > 0 && n < ZSTD_QUEUE) {
      u32 ll_entry = ll_table[ll_state], of_entry = of_table[of_state], ml_entry = ml_table[ml_state];
      u32 of_code = of_entry >> 20;
      zstd_refill(s, &b);
      u32 value = (1u << of_code) + zstd_bits(&b, of_code);
      zstd_refill(s, &b);
      u32 match = zstd_ml_base[ml_entry >> 14 & 63] + zstd_bits(&b, ml_entry >> 20);
      u32 lit = zstd_ll_base[ll_entry >> 14 & 63] + zstd_bits(&b, ll_entry >> 20);
      todo--;
      if (todo > 0) {
        zstd_refill(s, &b);
        ll_state = (ll_entry & 1023) + zstd_bits(&b, ll_entry >> 10 & 15);
        ml_state = (ml_entry & 1023) + zstd_bits(&b, ml_entry >> 10 & 15);
        of_state = (of_entry & 1023) + zstd_bits(&b, of_entry >> 10 & 15);
      }
      u32 back;
      if (value > 3) {
        back = value - 3;
        rep2 = rep1, rep1 = rep0, rep0 = back;
      } else {
        // The last used offsets (3.1.1.5). Without literals the first one would only have made the last match
        // longer.
        u32 which = value - (lit != 0);
        back = which == 0 ? rep0 : which == 1 ? rep1 : which == 2 ? rep2 : rep0 - 1;
        if (which > 1) rep2 = rep1;
        if (which > 0) rep1 = rep0;
        rep0 = back;
      }
      if (b.left < 0 || lit > lit_size - done || lit + match > block_end - pos) return STATUS_CORRUPT;
      u32 to = pos + lit;
      if (back == 0 || back > to) return STATUS_CORRUPT;
      if (back > window) return STATUS_UNSUPPORTED;
      if (n == 0 || to - back + (match < back ? match : back) > run_at) {
        z->q_run[runs++] = (u16)n;
        run_at = to;
      }
      z->q_at[n] = pos;
      z->q_from[n] = done;
      z->q_off[n] = back;
      pos = to + match;
      done += lit;
      n++;
    }
    if (todo == 0 && b.left != 0) return STATUS_CORRUPT;
    z->acc = b.acc, z->ahead = b.ahead, z->have = b.have, z->left = b.left, z->word = b.word;
    z->state[ZSTD_LL] = ll_state, z->state[ZSTD_OF] = of_state, z->state[ZSTD_ML] = ml_state;
    z->rep[0] = rep0, z->rep[1] = rep1, z->rep[2] = rep2;
    z->sequences = todo;
  } else if (done == 0) {
    for (u32 i = 0; i < z->streams; i++)
      if (z->bad[i]) return STATUS_CORRUPT;
  }
  z->runs = runs;
  // If the tail is long, it is put into a separate queue, so that the whole group copies it.
  u32 tail = lit_size - done;
  if (todo == 0 && tail > 0 && (n == 0 || (n < ZSTD_QUEUE && tail < 128))) {
    if (tail > block_end - pos) return STATUS_CORRUPT;
    z->q_at[n] = pos;
    z->q_from[n] = done;
    z->q_off[n] = 1;
    pos += tail;
    done += tail;
    n++;
  }
  z->q_at[n] = pos;
  z->q_from[n] = done;
  z->q_run[runs] = (u16)n;
  z->queued = n;
  z->pos = pos;
  z->lit_done = done;
  return ZSTD_GOING;
}

// The number of items that work together on one of n pieces: as many as there are for it, but at least 4,
// because neighbouring items that access the same line of memory cost one access.
FN u32 zstd_team(u32 n) { return n < 2 ? 32 : n < 4 ? 16 : n < 8 ? 8 : 4; }

// Executes the queue. `lit` has the literals, or the one byte that all of them equal (step 0).
FN void zstd_copy(LOCAL_PTR const ZstdShared *z, GLOBAL u8 *out, u32 want, GLOBAL const u8 *lit, u32 step) {
  u32 queued = z->queued, runs = z->runs, team = zstd_team(queued);
  for (u32 i = LID / team; i < queued; i += 32 / team) {
    u32 at = z->q_at[i], from = z->q_from[i], n = z->q_from[i + 1] - from;
    n = at >= want ? 0 : n < want - at ? n : want - at;
    for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = lit[(from + j) * step];
  }
  SYNC();
  for (u32 r = 0; r < runs; r++) {
    u32 first = z->q_run[r], end = z->q_run[r + 1];
    team = zstd_team(end - first);
    for (u32 i = first + LID / team; i < end; i += 32 / team) {
      u32 at = z->q_at[i] + z->q_from[i + 1] - z->q_from[i], n = z->q_at[i + 1] - at, back = z->q_off[i];
      n = at >= want ? 0 : n < want - at ? n : want - at;
      GLOBAL const u8 *from = out + (at - back);
      // A match that overlaps itself repeats its existing part, so no item waits for another.
      if (n > back)
        for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = from[j % back];
      else
        for (u32 j = LID & (team - 1); j < n; j += team) out[at + j] = from[j];
    }
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
      if (z.build_huff) {
        for (u32 i = LID; i < z.symbols; i += 32) {
          u32 weight = z.weight[i], entry = i | (z.huff_log + 1 - weight) << 8, n = 1u << weight >> 1;
          for (u32 j = 0; j < n; j++) z.huff[z.huff_at[i] + j] = (u16)entry;
        }
      }
      if (LID < 3 && z.build[LID])
        zstd_states(z.fse + ZSTD_FSE_AT(LID), z.count[LID], z.next[LID], z.build[LID], z.log[LID], LID);
      SYNC();
      if (LID < z.streams) {
        // All streams but the last have the same number of literals, a quarter rounded up. With 6 or more
        // literals, these do not exceed the total.
        u32 part = z.streams == 1 ? z.lit_size : (z.lit_size + 3) / 4, from = part * LID;
        u32 n = z.streams == 1 || LID < 3 ? part : z.lit_size - from;
        z.bad[LID] = !zstd_huffman(&z, &s, z.stream_at[LID], z.stream_len[LID], scratch + from, n);
      }
      SYNC();
      GLOBAL const u8 *lit = z.lit_kind >= ZSTD_COMPRESSED ? scratch : s.src + z.lit_from;
      u32 step = z.lit_kind != ZSTD_RLE;
      for (;;) {
        if (LID == 0) z.verdict = zstd_fill(&z, &s);
        SYNC();
        verdict = z.verdict;
        if (verdict != ZSTD_GOING || z.queued == 0) break;
        zstd_copy(&z, out, want, lit, step);
      }
    } else {
      u32 step = z.kind == ZSTD_RAW, pos = z.begins, n = z.size < want - pos ? z.size : want - pos;
      GLOBAL const u8 *from = s.src + z.lit_from;
      for (u32 i = LID; i < n; i += 32) out[pos + i] = from[i * step];
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
