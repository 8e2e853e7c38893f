// Inflate: Deflate (RFC 1951) in zlib framing (RFC 1950), one group of 32 per block.
//
// A Deflate stream has only one start, but the group can still decode it with all its items, because Huffman
// codes synchronise: a decoder that starts at a wrong bit reads wrong symbols for a while, then happens to
// end a symbol where a symbol of the stream ends, and from there on reads the right ones. In images that
// takes 4 to 20 symbols. A round therefore goes like this (`inflate_spread`):
//
//   1. The next 32 x SEGMENT bits of the stream are in LOCAL memory. Item i guesses that a symbol starts at
//      the first bit of segment i, and decodes from there to the first symbol that starts in the next
//      segment. It writes nothing; it only counts. Item 0 does not guess.
//   2. Each item compares its first bit with the bit where the item before it stopped. Where they differ, the
//      item decodes its segment again from the other's bit. This is repeated until enough segments are right:
//      all those before the first difference.
//   3. The counts give the position of each segment in the output. Each item decodes its segment once more.
//      It puts literals into `ring` (LOCAL, the bytes that are not written yet) and matches into a queue.
//   4. The group copies the queued matches. Byte i of a match is byte i % distance of its source, so every
//      byte can be copied without waiting for the previous one. Matches are copied in runs: no match of a run
//      reads what another one of the run writes.
//   5. The group writes whole words from the ring to the output, adds them up for the Adler-32, and fetches
//      input.
//
// Everything that is not a plain symbol inside the block stays outside of this: the segment with the end of a
// Deflate block, an invalid code, the last bits of the stream, and a segment whose output is larger than the
// ring. Item 0 decodes these alone (`inflate_step`), symbol by symbol, and it alone finds errors. So damage
// has the same status wherever it is.
//
// Sources that are no longer in the ring are read from the output, where an earlier round has written them
// before a SYNC.
//
// The group builds the tables too. Item 16 t + l counts and sorts the codes of length l of table t (0
// literals and lengths, 1 distances), so no atomics are needed. Then all items fill the direct tables, each
// an equal range of the code space. Codes longer than a direct table are found by comparison with the first
// code after each length.
//
// Every SYNC is reached by all items: item 0 sets the task of the group in `InflateShared.task`, and all
// items read it between two SYNCs. The LOCAL memory is 8.5 KB. It is small because decoding is a chain of
// latencies: many groups on a core keep a device busy, not much memory for one group.
//
// The kernel ends for every input: a round either decodes a symbol, at least one bit, or ends a Deflate
// block, or is followed by one that does. A stream may have BLOCKS(dst_len) of them; the CPU decodes a stream
// with more, because a stream of empty blocks would otherwise keep a group busy for seconds.

#define INFLATE_RING 2048u                       // bytes: the round, and up to 3 bytes that did not fill a word
#define INFLATE_ROUND (INFLATE_RING - 8u)        // decoded bytes per round, at most
#define INFLATE_QUEUE 256u                       // matches per round
#define INFLATE_SEGMENT 256u                     // bits
#define INFLATE_BEHIND 96u                       // bits that an item may look at after the end of its segment
#define INFLATE_ENOUGH 24u                       // of 32 segments: so many right ones are not made more
#define INFLATE_INPUT 260u                       // words of input in LOCAL memory: 31 bits, 32 segments, BEHIND
#define INFLATE_LIT_BITS 10u
#define INFLATE_DIST_BITS 8u
#define INFLATE_LIT 288u                         // start of the lengths of the distance codes
#define INFLATE_BLOCKS(dst_len) (1024u + (dst_len) / 32u)
#define INFLATE_LARGEST 0x7fff0000u              // positions have 32 bits, and items step past the end
#define INFLATE_LONGEST 258u                     // the longest match
#define INFLATE_ADLER 65521u

// The tasks of the group after item 0's part of a round.
#define INFLATE_STORED 1u     // copy stored bytes
#define INFLATE_STAGE 2u      // fetch input
#define INFLATE_FIXED 4u      // lay out the lengths of the fixed codes
#define INFLATE_BUILD 8u      // build both tables
#define INFLATE_BUILD_CODES 16u  // build the table of the code length code, in the place of the distances
#define INFLATE_DONE 32u
#define INFLATE_CHECK 64u     // the stream has a checksum to compare with
#define INFLATE_SPREAD 128u   // all items decode the next round

// The next step of item 0.
#define INFLATE_HEADER 0u     // a block header
#define INFLATE_LENGTHS 1u    // the code lengths of a dynamic block
#define INFLATE_SYMBOLS 2u
#define INFLATE_END 3u        // the last block has ended
#define INFLATE_MORE 4u       // the block is full and the stream continues

// What an item found in its segment, if not only plain symbols.
#define INFLATE_MOVED 1u      // it began at a wrong bit
#define INFLATE_ODD 2u        // item 0 must decode it alone

typedef struct {
  u32 input[INFLATE_INPUT];
  u32 limit[32];                       // first code after those of each length, in 15 bits; 16 entries per table
  u32 base[32];                        // index in `sorted` of a code of each length, minus the code
  // Matches: start in the round | length << 16. Between rounds of symbols, code lengths as bytes (288 of
  // literals and lengths, 32 of distances), and after them the number of codes of each length.
  u32 queue[INFLATE_QUEUE];
  u16 queue_dist[INFLATE_QUEUE];
  u16 sorted[INFLATE_LIT + 32u];       // symbols in the order of their codes
  u16 lit[1u << INFLATE_LIT_BITS];     // symbol << 4 | code length, 0 where the code is longer or there is none
  u16 dist[1u << INFLATE_DIST_BITS];
  u32 ring[INFLATE_RING / 4u];
  u32 end[32];                         // the bit where each item stopped
  u32 made[32];                        // what it decoded: bytes | matches << 18
  u32 flags[8];                        // a byte for each item
  u32 queued;
  u32 task;
  u32 pos;                             // end of this round's symbols
  u32 bit;                             // of a round of all items: first bit,
  u32 lanes;                           // and number of segments
  u32 stored_from;
  u32 stored_len;
  u32 input_from;
  u32 bad;                             // bit t: table t has no valid code
  u32 status;
  u32 adler;
} InflateShared;

// The state of item 0. Between rounds `bit` is the next bit of the stream, counted from byte `at`. In a step,
// the bits are in a buffer.
typedef struct {
  u64 bits;       // the next bits of the stream, lowest first
  u32 held;       // the number of these bits
  u32 spare;      // the number of them after the end of the stream
  u32 next;       // next word of the input
  u32 words;      // whole words of it
  u32 odd;        // bytes of the stream in the word after them
  u32 last;       // the stream ends in the input
  u32 at;         // byte of the stream that the input starts with
  u32 bit;
  u32 alone;      // the next round is item 0's
  u32 src_len;
  u32 pos;        // bytes decoded
  u32 dst_len;
  u32 top;
  u32 state;
  u32 final;
  u32 fixed;      // the tables are those of the fixed codes
  u32 blocks;
  u32 lits;       // of a dynamic block: the number of literal and length codes,
  u32 dists;      // and the number of distance codes
} InflateReader;

CONSTANT u8 inflate_order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

FN u32 inflate_min(u32 a, u32 b) { return a < b ? a : b; }

// The bits of a byte in reverse order. It uses multiplication, because LLVM turns plain shifts into an
// instruction that Oclgrind does not support.
FN u32 inflate_reverse8(u32 v) { return (((v * 0x0802u & 0x22110u) | (v * 0x8020u & 0x88440u)) * 0x10101u >> 16) & 0xffu; }

FN u32 inflate_reverse5(u32 v) { return inflate_reverse8(v) >> 3; }

// Reading, by item 0.

// Afterwards at least 33 bits are available. Bits after the end are zeros, and counted as spare: code that has
// consumed bits must check that none of them were spare.
FN void inflate_refill(LOCAL_PTR const InflateShared *s, InflateReader *r) {
  if (r->held > 32u) return;
  if (r->next < r->words) {
    r->bits |= (u64)s->input[r->next] << r->held;
  } else {
    u32 have = r->next == r->words ? r->odd : 0u;
    if (have > 0u) r->bits |= (u64)s->input[r->next] << r->held;
    r->spare += 32u - 8u * have;
  }
  r->next += 1u;
  r->held += 32u;
}

// The reader continues with byte `at` of the stream, which becomes the first of `input`.
FN void inflate_move(InflateReader *r, u32 at) {
  u32 left = r->src_len - at;
  r->at = at;
  r->bit = 0u;
  r->next = 0u;
  r->last = left <= 4u * INFLATE_INPUT;
  r->words = r->last ? left / 4u : INFLATE_INPUT;
  r->odd = r->last ? left & 3u : 0u;
}

// Fills the buffer from bit `bit`.
FN void inflate_seek(LOCAL_PTR const InflateShared *s, InflateReader *r) {
  r->bits = 0u;
  r->held = r->spare = 0u;
  r->next = r->bit >> 5;
  inflate_refill(s, r);
  r->bits >>= r->bit & 31u;
  r->held -= r->bit & 31u;
}

FN u32 inflate_take(InflateReader *r, u32 count) {
  u32 v = (u32)r->bits & ((1u << count) - 1u);
  r->bits >>= count;
  r->held -= count;
  return v;
}

FN u32 inflate_overrun(const InflateReader *r) { return r->held < r->spare; }

// The position of the next byte of the stream, after the bits up to a byte boundary were dropped.
FN u32 inflate_byte_at(const InflateReader *r) { return r->at + 4u * r->next - r->held / 8u; }

// Symbol << 4 | code length of a code that is longer than its direct table, 0 if there is none. The length is
// one more than that of the last limit that the code reaches: limits only grow, and the loads do not depend on
// each other.
FN u32 inflate_long_code(LOCAL_PTR const InflateShared *s, u32 bits, u32 table, u32 direct) {
  u32 code = inflate_reverse8(bits & 0xffu) << 7 | inflate_reverse8(bits >> 8 & 0x7fu) >> 1, l = direct + 1u;
  for (u32 k = direct + 1u; k < 16u; k++) l += code >= s->limit[16u * table + k];
  if (l > 15u) return 0u;
  return (u32)s->sorted[s->base[16u * table + l] + (code >> (15u - l))] << 4 | l;
}

FN u32 inflate_lit(LOCAL_PTR const InflateShared *s, InflateReader *r) {
  u32 e = s->lit[(u32)r->bits & ((1u << INFLATE_LIT_BITS) - 1u)];
  if (e == 0u) e = inflate_long_code(s, (u32)r->bits, 0u, INFLATE_LIT_BITS);
  r->bits >>= e & 15u;
  r->held -= e & 15u;
  return e;
}

// The length of the match for the literal/length symbol `symbol` (257 or more); 0 if the symbol is not defined.
FN u32 inflate_length(InflateReader *r, u32 symbol) {
  u32 i = symbol - 257u, extra = i < 8u || i > 27u ? 0u : (i >> 2) - 1u;
  u32 len = (i < 8u ? i : (4u + (i & 3u)) << extra) + 3u + inflate_take(r, extra);
  return i < 28u ? len : i == 28u ? INFLATE_LONGEST : 0u;
}

// Reads a distance; 0 if the bits are not a valid code.
FN u32 inflate_distance(LOCAL_PTR const InflateShared *s, InflateReader *r) {
  u32 e = s->dist[(u32)r->bits & ((1u << INFLATE_DIST_BITS) - 1u)];
  if (e == 0u) e = inflate_long_code(s, (u32)r->bits, 1u, INFLATE_DIST_BITS);
  u32 symbol = e >> 4, extra = symbol < 4u ? 0u : (symbol >> 1) - 1u;
  inflate_take(r, e & 15u);
  u32 dist = (symbol < 4u ? symbol : (2u + (symbol & 1u)) << extra) + 1u + inflate_take(r, extra);
  return e == 0u || symbol > 29u ? 0u : dist;
}

// Decodes one round of symbols by item 0. The group receives nothing unless all symbols are valid.
FN u32 inflate_symbols(LOCAL_PTR InflateShared *s, InflateReader *r) {
  LOCAL_PTR u8 *ring = (LOCAL_PTR u8 *)s->ring;
  u32 start = r->pos, pos = start;
  u32 stop = start + inflate_min(r->dst_len - start, INFLATE_ROUND - INFLATE_LONGEST);
  // A symbol takes up to two words. If there is more input outside LOCAL memory, the last words are decoded
  // after it is fetched.
  u32 words = r->last ? 0xffffffffu : INFLATE_INPUT - 1u;
  u32 queued = 0u;
  u32 last_start = 0u, last_len = 0u, last_dist = 0u; // the last match queued
  while (pos < stop && queued < INFLATE_QUEUE && r->next < words) {
    inflate_refill(s, r);
    u32 e = inflate_lit(s, r);
    u32 symbol = e >> 4;
    if (e == 0u) return STATUS_CORRUPT;
    if (symbol < 256u) {
      if (inflate_overrun(r)) return STATUS_TRUNCATED;
      ring[pos & (INFLATE_RING - 1u)] = (u8)symbol;
      pos += 1u;
      continue;
    }
    if (symbol == 256u) {
      if (inflate_overrun(r)) return STATUS_TRUNCATED;
      r->state = r->final ? INFLATE_END : INFLATE_HEADER;
      break;
    }
    u32 len = inflate_length(r, symbol);
    inflate_refill(s, r);
    u32 dist = inflate_distance(s, r);
    if (inflate_overrun(r)) return STATUS_TRUNCATED;
    if (len == 0u || dist == 0u || dist > pos) return STATUS_CORRUPT;
    if (len > r->dst_len - pos) {
      len = r->dst_len - pos;
      r->state = INFLATE_MORE;
    }
    // A match that continues the last one with the same distance makes it longer; otherwise the matches of a
    // constant tile would be a chain of runs.
    if (dist == last_dist && pos == last_start + last_len && dist <= last_len) {
      last_len += len;
      s->queue[queued - 1u] = (last_start - start) | last_len << 16;
    } else {
      s->queue[queued] = (pos - start) | len << 16;
      s->queue_dist[queued] = (u16)dist;
      queued += 1u;
      last_start = pos;
      last_len = len;
      last_dist = dist;
    }
    pos += len;
    if (r->state == INFLATE_MORE) break;
  }
  s->queued = queued;
  s->pos = pos;
  r->pos = pos;
  return STATUS_OK;
}

// The symbol after the last requested byte: the stream may end there, or continue with any valid symbol.
FN u32 inflate_beyond(LOCAL_PTR const InflateShared *s, InflateReader *r) {
  inflate_refill(s, r);
  u32 e = inflate_lit(s, r), symbol = e >> 4;
  if (e == 0u) return STATUS_CORRUPT;
  r->state = INFLATE_MORE;
  if (symbol == 256u) r->state = r->final ? INFLATE_END : INFLATE_HEADER;
  if (symbol > 256u) {
    u32 len = inflate_length(r, symbol);
    inflate_refill(s, r);
    u32 dist = inflate_distance(s, r);
    if (len == 0u || dist == 0u || dist > r->pos) return STATUS_CORRUPT;
  }
  return inflate_overrun(r) ? STATUS_TRUNCATED : STATUS_OK;
}

FN u32 inflate_header(LOCAL_PTR InflateShared *s, InflateReader *r) {
  r->blocks += 1u;
  if (r->blocks > INFLATE_BLOCKS(r->dst_len)) return STATUS_UNSUPPORTED;
  inflate_refill(s, r);
  // The type is tested bit by bit: a switch over two bits becomes an integer of two bits, which Oclgrind does
  // not truncate.
  u32 head = inflate_take(r, 3u);
  r->final = head & 1u;
  if ((head & 6u) == 6u) return STATUS_CORRUPT;
  if (head & 2u) {
    s->task = r->fixed ? 0u : INFLATE_FIXED | INFLATE_BUILD;
    r->fixed = 1u;
    r->state = INFLATE_SYMBOLS;
  } else if (head & 4u) {
    r->lits = 257u + inflate_take(r, 5u);
    r->dists = 1u + inflate_take(r, 5u);
    u32 codes = 4u + inflate_take(r, 4u);
    if (r->lits > 286u || r->dists > 30u) return STATUS_CORRUPT;
    LOCAL_PTR u8 *lens = (LOCAL_PTR u8 *)s->queue + INFLATE_LIT;
    for (u32 i = 0u; i < 19u; i++) {
      inflate_refill(s, r);
      lens[inflate_order[i]] = (u8)(i < codes ? inflate_take(r, 3u) : 0u);
    }
    s->task = INFLATE_BUILD_CODES;
    r->fixed = 0u;
    r->state = INFLATE_LENGTHS;
  } else {
    inflate_take(r, r->held & 7u);
    inflate_refill(s, r);
    u32 len = inflate_take(r, 16u), check = inflate_take(r, 16u);
    if (inflate_overrun(r)) return STATUS_TRUNCATED;
    if (len != (check ^ 0xffffu)) return STATUS_CORRUPT;
    u32 from = inflate_byte_at(r), copy = inflate_min(len, r->dst_len - r->pos);
    if (copy > r->src_len - from) return STATUS_TRUNCATED;
    s->task = INFLATE_STORED | INFLATE_STAGE;
    s->stored_from = from;
    s->stored_len = copy;
    inflate_move(r, from + copy);
    r->held = r->spare = 0u;
    r->pos += copy;
    if (len > copy) r->state = INFLATE_MORE;
    else if (r->final) r->state = INFLATE_END;
  }
  return inflate_overrun(r) ? STATUS_TRUNCATED : STATUS_OK;
}

FN u32 inflate_lengths(LOCAL_PTR InflateShared *s, InflateReader *r) {
  LOCAL_PTR u8 *lens = (LOCAL_PTR u8 *)s->queue;
  u32 total = r->lits + r->dists, i = 0u, previous = 0u;
  if (s->bad & 2u) return STATUS_CORRUPT;
  while (i < total) {
    inflate_refill(s, r);
    u32 e = s->dist[(u32)r->bits & ((1u << INFLATE_DIST_BITS) - 1u)], symbol = e >> 4;
    if (e == 0u) return STATUS_CORRUPT;
    inflate_take(r, e & 15u);
    u32 repeat = 1u;
    if (symbol < 16u) {
      previous = symbol;
    } else if (symbol == 16u) {
      if (i == 0u) return STATUS_CORRUPT;
      repeat = 3u + inflate_take(r, 2u);
    } else {
      previous = 0u;
      repeat = symbol == 17u ? 3u + inflate_take(r, 3u) : 11u + inflate_take(r, 7u);
    }
    if (inflate_overrun(r)) return STATUS_TRUNCATED;
    if (repeat > total - i) return STATUS_CORRUPT;
    for (u32 to = i + repeat; i < to; i++) lens[i < r->lits ? i : INFLATE_LIT + i - r->lits] = (u8)previous;
  }
  if (lens[256] == 0u) return STATUS_CORRUPT;  // such a block could not end
  for (i = r->lits; i < INFLATE_LIT; i++) lens[i] = 0u;
  for (i = INFLATE_LIT + r->dists; i < INFLATE_LIT + 32u; i++) lens[i] = 0u;
  s->task = INFLATE_BUILD;
  r->state = INFLATE_SYMBOLS;
  return STATUS_OK;
}

// Plans the next round: how many segments all items can decode, and whether input must be fetched for it. A
// dynamic header takes up to 144 words, which are available if at most 64 are used.
FN void inflate_plan(LOCAL_PTR InflateShared *s, InflateReader *r) {
  u32 spread = r->state == INFLATE_SYMBOLS && r->pos < r->dst_len && !r->alone && (s->task & INFLATE_DONE) == 0u;
  if (!r->last && r->bit >> 5 > (spread ? 0u : 64u)) {
    u32 bit = r->bit & 31u;
    inflate_move(r, r->at + 4u * (r->bit >> 5));
    r->bit = bit;
    s->task |= INFLATE_STAGE;
  }
  u32 bits = 32u * r->words;
  if (spread && bits >= r->bit + INFLATE_BEHIND + 2u * INFLATE_SEGMENT) {
    s->task |= INFLATE_SPREAD;
    s->bit = r->bit;
    s->lanes = inflate_min(32u, (bits - r->bit - INFLATE_BEHIND) / INFLATE_SEGMENT);
  }
  s->input_from = r->at;
}

// Item 0's part of a round: everything up to the point where the group is needed.
FN void inflate_step(GLOBAL const u8 *src, LOCAL_PTR InflateShared *s, InflateReader *r) {
  u32 status = STATUS_OK;
  s->task = 0u;
  s->queued = 0u;
  s->pos = r->pos;
  r->alone = 0u;
  inflate_seek(s, r);
  if (r->state == INFLATE_HEADER) {
    status = inflate_header(s, r);
  } else if (r->state == INFLATE_LENGTHS) {
    status = inflate_lengths(s, r);
  } else if (s->bad != 0u) {
    status = STATUS_CORRUPT;
  } else {
    status = r->pos < r->dst_len ? inflate_symbols(s, r) : inflate_beyond(s, r);
  }
  if (status == STATUS_OK && r->pos == r->dst_len && r->top) r->state = INFLATE_MORE;
  if (status == STATUS_OK && r->state == INFLATE_END) {
    if (r->pos < r->dst_len) status = STATUS_TRUNCATED;
    s->task |= INFLATE_DONE;
    u32 at = inflate_byte_at(r);
    if (r->src_len - at >= 4u) {  // a truncated checksum is not an error of the pixels
      s->adler = (u32)src[at] << 24 | (u32)src[at + 1u] << 16 | (u32)src[at + 2u] << 8 | (u32)src[at + 3u];
      s->task |= INFLATE_CHECK;
    }
  }
  if (r->state == INFLATE_MORE) s->task |= INFLATE_DONE;
  if (status != STATUS_OK) s->task = INFLATE_DONE;
  s->status = status;
  r->bit = 32u * r->next - r->held;
  inflate_plan(s, r);
}

// The group's part.

FN void inflate_stage(GLOBAL const u8 *src, u32 src_len, LOCAL_PTR InflateShared *s, u32 from) {
  u32 left = src_len - from;
  for (u32 w = LID; w < INFLATE_INPUT; w += 32u) {
    u32 word = 0u;
    if (4u * w + 4u <= left) {
      GLOBAL const u8 *p = src + from + 4u * w;
      word = (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
    } else {
      for (u32 i = 4u * w; i < left; i++) word |= (u32)src[from + i] << (8u * (i & 3u));
    }
    s->input[w] = word;
  }
}

// The index of the first byte of `flags` that is not 0, or 32.
FN u32 inflate_first(LOCAL_PTR const InflateShared *s) {
  for (u32 w = 0u; w < 8u; w++) {
    u32 v = s->flags[w];
    if (v != 0u) return 4u * w + ((v & 0xffu) != 0u ? 0u : (v & 0xffffu) != 0u ? 1u : (v & 0xffffffu) != 0u ? 2u : 3u);
  }
  return 32u;
}

// The 32 bits of the input from bit `at` on.
FN u32 inflate_peek(LOCAL_PTR const InflateShared *s, u32 at) {
  u32 w = at >> 5;
  return (u32)(((u64)s->input[w + 1u] << 32 | s->input[w]) >> (at & 31u));
}

// Decodes the symbols that start in [*at, stop). Returns what was decoded, bytes | matches << 18, and in *at
// the bit after it; or 0xffffffff if item 0 must decode the segment. With `emit`, literals go to the ring
// from position `pos` of the output on, and matches to the queue from `match` on.
FN u32 inflate_walk(LOCAL_PTR InflateShared *s, u32 *at_, u32 stop, u32 emit, u32 start, u32 pos, u32 match) {
  LOCAL_PTR u8 *ring = (LOCAL_PTR u8 *)s->ring;
  u32 at = *at_, made = 0u;
  while (at < stop) {
    // A lookup needs 10 of the 32 bits.
    u32 bits = inflate_peek(s, at), until = inflate_min(stop, at + 23u), e;
    for (;;) {
      e = s->lit[bits & ((1u << INFLATE_LIT_BITS) - 1u)];
      if (e - 1u >= 0xfffu) break;  // not a literal with a short code
      if (emit) ring[(pos + made) & (INFLATE_RING - 1u)] = (u8)(e >> 4);
      made += 1u;
      bits >>= e & 15u;
      at += e & 15u;
      if (at >= until) break;
    }
    if (e - 1u < 0xfffu) continue;
    if (e == 0u) {
      e = inflate_long_code(s, inflate_peek(s, at), 0u, INFLATE_LIT_BITS);
      if (e == 0u) return 0xffffffffu;
      if (e < 0x1000u) {
        if (emit) ring[(pos + made) & (INFLATE_RING - 1u)] = (u8)(e >> 4);
        made += 1u;
        at += e & 15u;
        continue;
      }
    }
    u32 i = (e >> 4) - 257u;
    at += e & 15u;
    if (i > 28u) return 0xffffffffu;  // the end of the block, or a symbol that is not defined
    u32 extra = i < 8u || i == 28u ? 0u : (i >> 2) - 1u;
    bits = inflate_peek(s, at);
    u32 len = (i < 8u ? i : (4u + (i & 3u)) << extra) + 3u + (bits & ((1u << extra) - 1u));
    if (i == 28u) len = INFLATE_LONGEST;
    at += extra;
    bits = inflate_peek(s, at);
    e = s->dist[bits & ((1u << INFLATE_DIST_BITS) - 1u)];
    if (e == 0u) e = inflate_long_code(s, bits, 1u, INFLATE_DIST_BITS);
    u32 symbol = e >> 4;
    if (e == 0u || symbol > 29u) return 0xffffffffu;
    extra = symbol < 4u ? 0u : (symbol >> 1) - 1u;
    at += (e & 15u) + extra;
    if (emit) {
      u32 dist = (symbol < 4u ? symbol : (2u + (symbol & 1u)) << extra) + 1u + (bits >> (e & 15u) & ((1u << extra) - 1u));
      u32 to = pos + (made & 0x3ffffu), m = match + (made >> 18);
      if (dist > to) return 0xffffffffu;
      s->queue[m] = (to - start) | len << 16;
      s->queue_dist[m] = (u16)dist;
    }
    made += len + (1u << 18);
    if ((made & 0x3ffffu) > INFLATE_ROUND) return 0xffffffffu;
  }
  *at_ = at;
  return made;
}

// The number of the first `lanes` segments that fit into a round, `limit` bytes; what they make together; and
// what those before this item's make.
FN u32 inflate_fit(LOCAL_PTR const InflateShared *s, u32 lanes, u32 limit, u32 *all, u32 *before) {
  u32 total = 0u, i = 0u;
  for (; i < lanes; i++) {
    u32 sum = total + s->made[i];
    if (i == LID) *before = total;
    if ((sum & 0x3ffffu) > limit || sum >> 18 > INFLATE_QUEUE) break;
    total = sum;
  }
  *all = total;
  return i;
}

// A round in which all items decode symbols, in `lanes` segments from bit `bit` on. `start` is the position
// of the first symbol in the output. With 0 segments nothing happens: PoCL 3.1 compiled a branch with
// barriers wrongly whose other branch is only for item 0.
FN void inflate_spread(LOCAL_PTR InflateShared *s, InflateReader *r, u32 bit, u32 lanes, u32 start, u32 dst_len) {
  LOCAL_PTR u8 *flags = (LOCAL_PTR u8 *)s->flags;
  u32 first = 0u, going = lanes > 0u;
  u32 from = bit + LID * INFLATE_SEGMENT, stop = from + INFLATE_SEGMENT, moved = 1u, odd = LID >= lanes, made = 0u;
  while (going) {
    if (moved && LID < lanes) {
      u32 end = from;
      made = inflate_walk(s, &end, stop, 0u, 0u, 0u, 0u);
      odd = made == 0xffffffffu;
      s->end[LID] = odd ? 0xffffffffu : end;
    }
    SYNC();
    u32 before = LID == 0u || LID >= lanes ? from : s->end[LID - 1u];
    moved = before != from && before != 0xffffffffu;
    if (moved) from = before;
    flags[LID] = (u8)(moved ? INFLATE_MOVED : odd ? INFLATE_ODD : 0u);
    SYNC();
    first = inflate_first(s);
    going = first < INFLATE_ENOUGH && flags[first] == INFLATE_MOVED;
  }
  u32 alone = first < 32u && flags[first] == INFLATE_ODD, before = 0u, all;
  s->made[LID] = made;
  SYNC();
  // Item 0 decodes the last byte, because special rules apply after it.
  u32 taken = inflate_fit(s, first, inflate_min(INFLATE_ROUND, dst_len - start - 1u), &all, &before);
  if (taken < first) alone = taken == 0u;
  odd = 0u;
  if (LID < taken) {
    u32 end = from;
    made = inflate_walk(s, &end, stop, 1u, start, start + (before & 0x3ffffu), before >> 18);
    odd = made == 0xffffffffu;
  }
  flags[LID] = (u8)odd;  // a match from before the start of the output
  SYNC();
  u32 right = inflate_first(s);
  if (right < taken) {
    alone = 1u;
    taken = inflate_fit(s, right, INFLATE_ROUND, &all, &before);
  }
  if (LID == 0u && lanes > 0u) {
    s->task = 0u;
    s->status = STATUS_OK;
    s->queued = all >> 18;
    r->pos = s->pos = start + (all & 0x3ffffu);
    r->bit = taken > 0u ? s->end[taken - 1u] : bit;
    r->alone = alone || taken == 0u;
    inflate_plan(s, r);
  }
}

// Copies `queued` matches of a round that begins at `start`. Bytes from `written` on are in the ring, those
// before in the output.
FN void inflate_copy(GLOBAL const u8 *out, LOCAL_PTR InflateShared *s, u32 start, u32 written, u32 queued) {
  LOCAL_PTR u8 *ring = (LOCAL_PTR u8 *)s->ring, *flags = (LOCAL_PTR u8 *)s->flags;
  for (u32 m = 0u; m < queued;) {
    // A run ends before the first match that reads what one of the run writes.
    u32 mine = m + LID, stop = 1u;
    if (mine < queued) {
      u32 pos = s->queue[mine] & 0xffffu, len = s->queue[mine] >> 16, dist = s->queue_dist[mine];
      stop = (i32)(pos - dist + inflate_min(len, dist)) > (i32)(s->queue[m] & 0xffffu);
    }
    flags[LID] = (u8)stop;
    SYNC();
    // The items of the group share the matches of the run.
    u32 n = inflate_first(s), share = n < 2u ? 5u : n < 4u ? 4u : n < 8u ? 3u : 2u;
    u32 width = 1u << share, lane = LID & (width - 1u);
    for (u32 k = m + (LID >> share); k < m + n; k += 32u >> share) {
      u32 pos = start + (s->queue[k] & 0xffffu), len = s->queue[k] >> 16, dist = s->queue_dist[k];
      u32 source = pos - dist, at = lane, step = width;
      if (dist < len) {
        at = lane % dist;
        step = width % dist;
      }
      for (u32 i = lane; i < len; i += width) {
        u32 p = source + at;
        ring[(pos + i) & (INFLATE_RING - 1u)] = p >= written ? ring[p & (INFLATE_RING - 1u)] : out[p];
        at += step;
        if (dist < len && at >= dist) at -= dist;
      }
    }
    m += n;
    SYNC();
  }
}

FN void inflate_fixed_lengths(LOCAL_PTR InflateShared *s) {
  LOCAL_PTR u8 *lens = (LOCAL_PTR u8 *)s->queue;
  for (u32 i = LID; i < INFLATE_LIT + 32u; i += 32u)
    lens[i] = (u8)(i < 144u ? 8u : i < 256u ? 9u : i < 280u ? 7u : i < INFLATE_LIT ? 8u : 5u);
}

// Builds the tables of the code lengths in `lens`: both, or that of the code length code (19 codes in place of
// the distances).
FN void inflate_build(LOCAL_PTR InflateShared *s, u32 both) {
  LOCAL_PTR const u8 *lens = (LOCAL_PTR const u8 *)s->queue;
  LOCAL_PTR u32 *counts = s->queue + 80;
  u32 table = LID >> 4, mine = LID & 15u;
  u32 from = table == 0u ? 0u : INFLATE_LIT, codes = table == 0u ? (both ? INFLATE_LIT : 0u) : both ? 32u : 19u;
  u32 count = 0u;
  for (u32 i = 0u; i < codes; i++) count += lens[from + i] == mine;
  counts[LID] = mine == 0u ? 0u : count;
  SYNC();

  // Every item visits all lengths and keeps its own.
  u32 code = 0u, index = 0u, my_code = 0u, my_index = 0u, longest = 0u;
  i32 free_codes = 1;
  for (u32 l = 1u; l < 16u; l++) {
    u32 c = counts[16u * table + l];
    code = (code + counts[16u * table + l - 1u]) << 1;
    if (l == mine) {
      my_code = code;
      my_index = index;
    }
    index += c;
    if (c > 0u) longest = l;
    if (free_codes >= 0) free_codes = 2 * free_codes - (i32)c;
  }
  // zlib's rule: too many codes are never valid, too few only if there is one code of one bit, or none at all.
  u32 bad = free_codes < 0 || (free_codes > 0 && (longest > 1u || !both));
  if (mine == 0u) s->limit[LID] = bad && codes > 0u;
  else s->limit[LID] = (my_code + count) << (15u - mine);
  s->base[LID] = from + my_index - my_code;
  if (mine > 0u && count > 0u) {
    u32 to = from + my_index;
    for (u32 i = 0u; i < codes; i++)
      if (lens[from + i] == mine) s->sorted[to++] = (u16)i;
  }
  SYNC();

  u32 bad_tables = s->limit[0] | s->limit[16] << 1;
  if (LID == 0u) s->bad = bad_tables;
  if (bad_tables != 0u) return;
  // Each item fills an equal range of the codes, in their order, in which lengths only grow. The table is
  // indexed by reversed codes: the item's index is the upper bits of the code, so its reversal is the lower
  // bits of the table index.
  u32 low = inflate_reverse5(LID), l = 1u;
  if (both) {
    for (u32 k = 0u; k < 32u; k++) {
      code = (LID << 5 | k) << 5;
      while (l <= INFLATE_LIT_BITS && code >= s->limit[l]) l++;
      u32 e = 0u;
      if (l <= INFLATE_LIT_BITS) e = (u32)s->sorted[s->base[l] + (code >> (15u - l))] << 4 | l;
      s->lit[inflate_reverse5(k) << 5 | low] = (u16)e;
    }
  }
  l = 1u;
  for (u32 k = 0u; k < 8u; k++) {
    code = (LID << 3 | k) << 7;
    while (l <= INFLATE_DIST_BITS && code >= s->limit[16u + l]) l++;
    u32 e = 0u;
    if (l <= INFLATE_DIST_BITS) e = (u32)s->sorted[s->base[16u + l] + (code >> (15u - l))] << 4 | l;
    s->dist[(inflate_reverse5(k) >> 2) << 5 | low] = (u16)e;
  }
}

// The contribution of an item's n bytes of a range, every 32nd, to the second sum of the Adler-32, which is
// dst_len + the sum of (dst_len - i) d[i]. The first byte has `weight`, and each following one 32 less. x is
// their sum, and y is the sum of the running sums, which is the sum of (n - k) d[k]. The result is less than
// 2^36, so a u64 holds the sum of all without a division. With n = 0 the weight may have wrapped around, but it
// has no effect.
FN u64 inflate_weigh(u32 weight, u32 x, u32 y, u32 n) {
  return (u64)(weight % INFLATE_ADLER) * x + 32u * (u64)y + INFLATE_ADLER - 32u * (u64)n * x % INFLATE_ADLER;
}

// Writes [from, to) from the ring to the output, and adds it to the Adler-32. The second sum is dst_len + the
// sum of (dst_len - i) d[i]. Weights are reduced by INFLATE_ADLER, so that 32 bits hold the sums of a round.
FN void inflate_write(GLOBAL u8 *out, LOCAL_PTR const InflateShared *s, u32 from, u32 to, u32 dst_len, u64 *sum_a, u64 *sum_b) {
  u32 i = from + LID, words = (from + 3u) & ~3u, a = 0u, b = 0u;
  u32 whole = to > words ? to & ~3u : words;  // words are in [words, whole), bytes before and after
  u32 byte = i < words ? i : whole + LID - (words - from);
  if (byte < to && (i < words || byte >= whole)) {
    u32 d = ((LOCAL_PTR const u8 *)s->ring)[byte & (INFLATE_RING - 1u)];
    out[byte] = (u8)d;
    a = d;
    b = (dst_len - byte) % INFLATE_ADLER * d;
  }
  i = words + 4u * LID;
  u32 weight = (dst_len - i) % INFLATE_ADLER + INFLATE_ADLER;
  for (; i < whole; i += 128u) {
    u32 v = s->ring[(i & (INFLATE_RING - 1u)) >> 2];
    *(GLOBAL u32 *)(out + i) = v;
    u32 odd = v >> 8 & 0xff00ffu, pairs = (v & 0xff00ffu) + odd;
    u32 sum = (pairs & 0xffffu) + (pairs >> 16);
    a += sum;
    b += weight * sum - ((odd & 0xffffu) + (odd >> 16) + 2u * (pairs >> 16));
    weight -= 128u;
  }
  *sum_a += a;
  *sum_b += b;
}

KERNEL(32) inflate(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL u32 *status) {
  LOCAL InflateShared s;
  GLOBAL const u8 *src = batch + BLOCK(batch, GRP).src;
  GLOBAL u8 *out = decoded + BLOCK(batch, GRP).dst;
  u32 src_len = BLOCK(batch, GRP).src_len, dst_len = BLOCK(batch, GRP).dst_len, flags = BLOCK(batch, GRP).flags;

  u32 early = STATUS_OK;
  if ((flags & BLOCK_SPARSE) == 0u) {
    if (src_len < 2u) early = STATUS_TRUNCATED;
    else if (src_len > INFLATE_LARGEST || dst_len > INFLATE_LARGEST) early = STATUS_UNSUPPORTED;
    // Method 8, a window of at most 32 KB, check bits, no preset dictionary.
    else if ((src[0] & 15u) != 8u || src[0] >> 4 > 7u || ((u32)src[0] << 8 | src[1]) % 31u != 0u || (src[1] & 32u) != 0u)
      early = STATUS_CORRUPT;
  }
  if ((flags & BLOCK_SPARSE) != 0u || early != STATUS_OK) {
    if (LID == 0u) status[GRP] = early;
    return;
  }

  InflateReader r;
  r.pos = r.final = r.fixed = r.blocks = r.lits = r.dists = r.alone = 0u;
  r.src_len = src_len;
  r.dst_len = dst_len;
  r.top = flags & BLOCK_TOP;
  r.state = INFLATE_HEADER;
  inflate_move(&r, 2u);
  if (LID == 0u) {
    s.bad = 0u;
    s.bit = 0u;
    s.lanes = 0u;
    s.flags[0] = 0u;
  }

  u32 start = 0u, written = 0u, task = INFLATE_STAGE;  // the round's first byte, the first byte that only the ring has
  u32 bit = 0u, lanes = 0u;                            // of the next round of all items
  u64 sum_a = 0u, sum_b = 0u;                          // this item's share of the Adler-32
  inflate_stage(src, src_len, &s, 2u);
  while ((task & INFLATE_DONE) == 0u) {
    SYNC();
    u32 spread = (task & INFLATE_SPREAD) != 0u && s.bad == 0u ? lanes : 0u;
    if (LID == 0u && spread == 0u) inflate_step(src, &s, &r);
    inflate_spread(&s, &r, bit, spread, start, dst_len);
    SYNC();
    task = s.task;
    bit = s.bit;
    lanes = s.lanes;
    u32 end = s.pos;
    inflate_copy(out, &s, start, written, s.queued);
    u32 to = task & (INFLATE_DONE | INFLATE_STORED) ? end : end & ~3u;
    inflate_write(out, &s, written, to, dst_len, &sum_a, &sum_b);
    if (to > written) written = to;
    start = end;
    if (task & INFLATE_STORED) {
      GLOBAL const u8 *stored = src + s.stored_from;
      u32 len = s.stored_len, x = 0u, y = 0u, n = 0u;  // at most 65535 bytes, so that 32 bits hold the sums
      for (u32 i = LID; i < len; i += 32u, n++) {
        u32 d = stored[i];
        out[start + i] = (u8)d;
        x += d;
        y += x;
      }
      sum_a += x;
      sum_b += inflate_weigh(dst_len - start - LID, x, y, n);
      start += len;
      written = start;
    }

    if (task & INFLATE_STAGE) inflate_stage(src, src_len, &s, s.input_from);
    if (task & INFLATE_FIXED) {
      inflate_fixed_lengths(&s);
      SYNC();
    }
    if (task & (INFLATE_BUILD | INFLATE_BUILD_CODES)) inflate_build(&s, task & INFLATE_BUILD);
  }

  u32 result = s.status;
  if (task & INFLATE_CHECK && result == STATUS_OK) {
    s.limit[LID] = (u32)(sum_a % INFLATE_ADLER);
    s.base[LID] = (u32)(sum_b % INFLATE_ADLER);
    SYNC();
    u32 a = 1u, b = dst_len % INFLATE_ADLER;
    for (u32 i = 0u; i < 32u; i++) {
      a += s.limit[i];
      b += s.base[i];
    }
    if ((b % INFLATE_ADLER << 16 | a % INFLATE_ADLER) != s.adler) result = STATUS_CHECKSUM;
  }
  if (LID == 0u) status[GRP] = result;
}
