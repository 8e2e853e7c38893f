// Deflate in zlib framing (RFC 1950, 1951), encoded.
//
// A tile is divided into parts of at most 64 KiB, and a group encodes a part by itself, so a tile of 1 MiB keeps
// 16 groups busy. The parts are contiguous bytes of one stream: all but the last end with an empty stored block,
// which fills up the last byte. The result depends only on the bytes of the tile, not on the order in which
// items run: there are no atomics, and where several items want to store to the same place, a rule selects one.
//
// 1. Matches. A round looks at 32 positions, one for each item: those of all bytes, or of every second byte in
//    samples of several bytes, where it finds better matches, because the table then reaches twice as far, in half
//    the rounds. A table in local memory has the last position of each hash of 4 bytes. An item compares the
//    bytes at its position with those at the position in the table, with those of the nearest item before it that
//    has the same hash, and with those at the distance of the last match. Then item 0 selects matches, from left
//    to right, and stores sequences: a few literals and the match after them. The last item with a hash stores its
//    position in the table.
// 2. Codes. Each item counts the symbols of its sequences in its own counters, which replace the table. The
//    items sort the symbols by their counts, and item 0 computes the lengths of the codes.
// 3. Bits. The block is dynamic, fixed or stored, whichever is smallest. 32 sequences at a time, each item
//    computes the number of bits of its sequence, adds those of the items before it, and writes the words that
//    lie in its bits. A word that items share is written by the item that has its first bit.

#define DEFLATE_ITEMS 32u
#define DEFLATE_MIN_MATCH 4u
#define DEFLATE_MAX_MATCH 258u
#define DEFLATE_WINDOW 32768u
#define DEFLATE_HASH_BITS 13u
#define DEFLATE_PRIOR 1024u     // bytes of the part before that matches may use: a multiple of 64
#define DEFLATE_LITERALS 31u    // the most literals of a sequence
#define DEFLATE_CODES 288u      // codes of literals and lengths; those of distances follow
#define DEFLATE_DISTANCES 32u
#define DEFLATE_SYMBOLS (DEFLATE_CODES + DEFLATE_DISTANCES)
#define DEFLATE_END 256u
#define DEFLATE_LONGEST 15u     // bits of a code
#define DEFLATE_ADLER 65521u
#define DEFLATE_OWN 0xFFFFFFFFu // no word is shared
#define DEFLATE_STORED 65535u
// Words of the buffer for bits: 32 sequences of 31 literals of 15 bits and a match of 48 bits.
#define DEFLATE_WORDS 520u

#define DEFLATE_RUNS 19u  // symbols that describe the lengths of codes

// The order of these symbols in a header (RFC 1951, section 3.2.7).
CONSTANT u8 deflate_order[DEFLATE_RUNS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// Bits that one item writes to words in local memory.
typedef struct {
  u64 value;
  u32 bits;    // bits in `value`: less than 32
  u32 at;      // the next word
  u32 shared;  // the word whose first bits another item has
} DeflateBits;

// The local memory of a group.
typedef struct {
  // The positions of hashes; then the counters of each item; then, for item 0, sorted symbols and header.
  u16 table[DEFLATE_ITEMS * DEFLATE_SYMBOLS];
  u32 counts[DEFLATE_SYMBOLS];
  u32 codes[DEFLATE_SYMBOLS];  // code | length << 16
  u8 lengths[DEFLATE_SYMBOLS];
  u32 words[DEFLATE_WORDS];    // bits of the stream; before that a tree
  u32 hashes[DEFLATE_ITEMS];   // in rounds of matching; the first bits of items later
  u32 found[DEFLATE_ITEMS];    // matches: length | distance << 16; numbers of bits later
  u32 starts[DEFLATE_ITEMS];   // the position of the first bit of each item
  u32 number[2u * (DEFLATE_LONGEST + 1u)];
  u32 run_codes[DEFLATE_RUNS];
  u8 run_lengths[DEFLATE_RUNS];
  u32 next;       // the next position that is neither in a sequence nor known to be a literal
  u32 literals;   // the first literal that is in no sequence yet
  u32 sequences;
  u32 distance;   // of the last match
  u32 runs;       // symbols of the header
  u32 bits;       // bits in `words`
} DeflateShared;

// The index of the highest bit of a number that is not 0.
FN u32 deflate_log2(u32 value) {
  u32 log = 0u;
  if (value > 0xFFu) {
    value >>= 8u;
    log = 8u;
  }
  if (value > 0xFu) {
    value >>= 4u;
    log += 4u;
  }
  if (value > 3u) {
    value >>= 2u;
    log += 2u;
  }
  return log + (value > 1u ? 1u : 0u);
}

// The four bytes at a position. The words are aligned.
FN u32 deflate_load(GLOBAL const u32 *words, u32 at) {
  u32 shift = (at & 3u) * 8u;
  u32 low = words[at / 4u];
  return shift == 0u ? low : (low >> shift) | (words[at / 4u + 1u] << (32u - shift));
}

// The number of equal bytes at two positions, of which the first 4 are known to be equal, up to `most`.
FN u32 deflate_match(GLOBAL const u32 *words, u32 early, u32 late, u32 most) {
  u32 len = 4u;
  while (len + 4u <= most) {
    u32 differ = deflate_load(words, early + len) ^ deflate_load(words, late + len);
    if (differ != 0u) {
      return len + ((differ & 0xFFu) != 0u ? 0u : (differ & 0xFFFFu) != 0u ? 1u : (differ & 0xFFFFFFu) != 0u ? 2u : 3u);
    }
    len += 4u;
  }
  GLOBAL const u8 *bytes = (GLOBAL const u8 *)words;
  while (len < most && bytes[early + len] == bytes[late + len]) len++;
  return len;
}

// The symbol of a length, the bits after it and their number, as symbol | extra << 9 | bits << 16.
FN u32 deflate_length(u32 len) {
  u32 value = len - 3u;
  if (len == DEFLATE_MAX_MATCH) return 285u;
  if (value < 8u) return 257u + value;
  u32 extra = deflate_log2(value) - 2u;
  return (261u + 4u * extra + ((value >> extra) & 3u)) | extra << 9u | (value & ((1u << extra) - 1u)) << 16u;
}

// The same for a distance. Symbols of distances follow those of literals and lengths.
FN u32 deflate_distance(u32 distance) {
  u32 value = distance - 1u;
  if (value < 4u) return DEFLATE_CODES + value;
  u32 extra = deflate_log2(value) - 1u;
  return (DEFLATE_CODES + 2u + 2u * extra + ((value >> extra) & 1u)) | extra << 9u |
         (value & ((1u << extra) - 1u)) << 16u;
}

#define DEFLATE_SYMBOL(packed) ((packed) & 511u)
#define DEFLATE_EXTRA(packed) (((packed) >> 9u) & 15u)
#define DEFLATE_BITS(packed) ((packed) >> 16u)

// The bits after the symbol of a length or distance.
FN u32 deflate_extra(u32 symbol) {
  if (symbol >= DEFLATE_CODES + 4u) return (symbol - DEFLATE_CODES) / 2u - 1u;
  if (symbol >= 265u && symbol < 285u) return (symbol - 261u) / 4u;
  return 0u;
}

FN u32 deflate_fixed(u32 symbol) {
  return symbol < 144u ? 8u : symbol < 256u ? 9u : symbol < 280u ? 7u : symbol < DEFLATE_CODES ? 8u : 5u;
}

FN void deflate_put(DeflateBits *to, LOCAL_PTR DeflateShared *s, u32 value, u32 bits) {
  to->value |= (u64)value << to->bits;
  to->bits += bits;
  if (to->bits >= 32u) {
    if (to->at == to->shared) s->hashes[LID] = (u32)to->value;
    else s->words[to->at] = (u32)to->value;
    to->at++;
    to->value >>= 32u;
    to->bits -= 32u;
  }
}

// Writes a symbol with the bits after it, as `deflate_length` returns them.
FN void deflate_code(DeflateBits *to, LOCAL_PTR DeflateShared *s, u32 packed) {
  u32 code = s->codes[DEFLATE_SYMBOL(packed)];
  u32 bits = code >> 16u;
  deflate_put(to, s, (code & 0xFFFFu) | DEFLATE_BITS(packed) << bits, bits + DEFLATE_EXTRA(packed));
}

// All items: sorts the symbols that occur by their counts. Returns their number. `sorted` gets them.
FN u32 deflate_sort(LOCAL_PTR const u32 *counts, u32 symbols, LOCAL_PTR u16 *sorted) {
  u32 used = 0u;
  for (u32 i = 0u; i < symbols; i++) used += counts[i] > 0u ? 1u : 0u;
  for (u32 i = LID; i < symbols; i += DEFLATE_ITEMS) {
    u32 count = counts[i];
    if (count == 0u) continue;
    u32 rank = 0u;
    for (u32 j = 0u; j < symbols; j++) {
      u32 other = counts[j];
      rank += other > 0u && (other < count || (other == count && j < i)) ? 1u : 0u;
    }
    sorted[rank] = (u16)i;
  }
  return used;
}

// One item: computes the lengths of the codes of sorted symbols (at least 2), at most `longest` bits: Moffat
// and Katajainen's algorithm, then the longest codes are shortened and others made longer until all fit. `tree`
// has room for a word for each symbol.
FN void deflate_lengths(LOCAL_PTR const u32 *counts, LOCAL_PTR const u16 *sorted, u32 used, u32 longest,
                        LOCAL_PTR u32 *tree, LOCAL_PTR u32 *number, LOCAL_PTR u8 *lengths) {
  for (u32 i = 0u; i <= DEFLATE_LONGEST; i++) number[i] = 0u;
  for (u32 i = 0u; i < used; i++) tree[i] = counts[sorted[i]];
  // An inner node replaces leaves that are no longer needed: first its count, then its parent, then its depth.
  u32 leaf = 2u;
  u32 root = 0u;
  tree[0] += tree[1];
  for (u32 next = 1u; next + 1u < used; next++) {
    u32 sum = 0u;
    for (u32 child = 0u; child < 2u; child++) {
      if (leaf >= used || (root < next && tree[root] < tree[leaf])) {
        sum += tree[root];
        tree[root++] = next;
      } else {
        sum += tree[leaf++];
      }
    }
    tree[next] = sum;
  }
  tree[used - 2u] = 0u;
  for (u32 next = used - 2u; next > 0u; next--) tree[next - 1u] = tree[tree[next - 1u]] + 1u;
  // The inner nodes are sorted by depth, the root last.
  u32 open = 1u;
  u32 inner = used - 1u;
  u32 code_space = 0u;
  for (u32 depth = 0u; open > 0u; depth++) {
    u32 nodes = 0u;
    while (inner > 0u && tree[inner - 1u] == depth) {
      nodes++;
      inner--;
    }
    u32 bits = depth < longest ? depth : longest;
    number[bits] += open - nodes;
    code_space += (open - nodes) << (longest - bits);
    open = 2u * nodes;
  }
  for (; code_space > 1u << longest; code_space--) {
    number[longest]--;
    u32 bits = longest - 1u;
    while (number[bits] == 0u) bits--;
    number[bits]--;
    number[bits + 1u] += 2u;
  }
  u32 at = 0u;
  for (u32 bits = longest; bits > 0u; bits--) {
    for (u32 i = 0u; i < number[bits]; i++) lengths[sorted[at++]] = (u8)bits;
  }
}

// The lowest 4 bits in reverse order. With shifts and masks instead, the compiler of Oclgrind 21.10 would use an
// instruction that Oclgrind does not have.
FN u32 deflate_reverse(u32 bits) {
  return (u32)(0xF7B3D591E6A2C480ull >> (4u * (bits & 15u))) & 15u;
}

// One item: computes canonical codes from their lengths, as code | length << 16. The bits are in the order of
// the stream, the first bit of a code lowest.
FN void deflate_codes(LOCAL_PTR const u8 *lengths, u32 symbols, LOCAL_PTR u32 *next, LOCAL_PTR u32 *codes) {
  for (u32 i = 0u; i <= DEFLATE_LONGEST; i++) next[i] = 0u;
  for (u32 i = 0u; i < symbols; i++) next[lengths[i]]++;
  u32 code = 0u;
  next[0] = 0u;
  for (u32 i = 1u; i <= DEFLATE_LONGEST; i++) {
    u32 number = next[i];
    next[i] = code;
    code = (code + number) << 1u;
  }
  for (u32 i = 0u; i < symbols; i++) {
    u32 length = lengths[i];
    u32 bits = length > 0u ? next[length]++ : 0u;
    u32 reversed = 0u;
    for (u32 k = 0u; k < 16u; k += 4u) reversed = reversed << 4u | deflate_reverse(bits >> k);
    codes[i] = reversed >> (16u - length) | length << 16u;
  }
}

// One item: stores the literals before `end` that are in no sequence yet, and the match at `end`. Of literals
// only the position in the part is stored.
FN void deflate_emit(LOCAL_PTR DeflateShared *s, u32 prior, u32 end, u32 match, GLOBAL u32 *sequences,
                     GLOBAL u16 *distances) {
  u32 at = s->literals;
  u32 index = s->sequences;
  for (; end - at > DEFLATE_LITERALS; at += DEFLATE_LITERALS) {
    sequences[index++] = (at - prior) | DEFLATE_LITERALS << 16u;
  }
  sequences[index] = (at - prior) | (end - at) << 16u | (match & 0xFFFFu) << 21u;
  distances[index] = (u16)(match >> 16u);
  s->sequences = index + 1u;
  s->literals = end + (match & 0xFFFFu);
  s->distance = match >> 16u;
}

// The longest match at a position that a round finds, or 0. `four` are the bytes there, `before` is the nearest
// position of the round with the same hash, or `at`, and `old` is the position in the table.
FN u32 deflate_best(GLOBAL const u32 *words, u32 len, u32 at, u32 four, u32 before, u32 old, u32 last_distance) {
  u32 most = len - at < DEFLATE_MAX_MATCH ? len - at : DEFLATE_MAX_MATCH;
  u32 best = 0u;
  if (before < at && deflate_load(words, before) == four) {
    best = deflate_match(words, before, at, most) | (at - before) << 16u;
  }
  // The table has 16 bits of a position. Whatever they refer to, the bytes decide.
  u32 distance = (at - old) & 0xFFFFu;
  if (distance - 1u < DEFLATE_WINDOW && distance <= at && deflate_load(words, at - distance) == four) {
    u32 match = deflate_match(words, at - distance, at, most);
    if (match > (best & 0xFFFFu)) best = match | distance << 16u;
  }
  // A distance that repeats has a short code.
  distance = last_distance;
  if (distance - 1u < at && deflate_load(words, at - distance) == four) {
    u32 match = deflate_match(words, at - distance, at, most);
    if (match >= (best & 0xFFFFu)) best = match | distance << 16u;
  }
  return best;
}

// Item 0: selects matches of a round from position `next` on and stores sequences. Returns the position after
// them.
FN u32 deflate_select(LOCAL_PTR DeflateShared *s, u32 next, u32 prior, u32 base, u32 end, u32 unit,
                      GLOBAL u32 *sequences, GLOBAL u16 *distances) {
  while (next < end) {
    u32 item = (next - base) / unit;
    u32 found = next % unit == 0u ? s->found[item] : 0u;
    u32 after = next + unit < end ? s->found[item + 1u] : 0u;
    // Literals are better than a match if the match after them is longer: class maps become 0.75 times as large.
    u32 taken = found != 0u && (found & 0xFFFFu) >= (after & 0xFFFFu) ? 1u : 0u;
    if (taken != 0u) deflate_emit(s, prior, next, found, sequences, distances);
    next += taken != 0u ? found & 0xFFFFu : 1u;
  }
  return next;
}

// All items: divides the bytes from `prior` to `len` into sequences.
FN void deflate_find(LOCAL_PTR DeflateShared *s, GLOBAL const u32 *words, u32 prior, u32 len, u32 unit,
                     GLOBAL u32 *sequences, GLOBAL u16 *distances) {
  for (u32 i = LID; i < 1u << DEFLATE_HASH_BITS; i += DEFLATE_ITEMS) s->table[i] = 0u;
  if (LID == 0u) {
    s->next = s->literals = prior;
    s->sequences = s->distance = 0u;
  }
  SYNC();
  u32 round = DEFLATE_ITEMS * unit;
  for (u32 base = 0u; base < len;) {
    u32 at = base + LID * unit;
    u32 usable = at + DEFLATE_MIN_MATCH <= len ? 1u : 0u;
    u32 four = usable != 0u ? deflate_load(words, at) : 0u;
    u32 hash = usable != 0u ? (four * 0x1E35A7BDu) >> (32u - DEFLATE_HASH_BITS) : (1u << 16u) + LID;
    s->hashes[LID] = hash;
    SYNC();
    u32 before = LID;
    u32 last = usable;
    for (u32 item = 0u; item < DEFLATE_ITEMS; item++) {
      u32 equal = s->hashes[item] == hash ? 1u : 0u;
      if (equal != 0u && item < LID) before = item;
      if (equal != 0u && item > LID) last = 0u;
    }
    before = base + before * unit;
    // Read here, because the compiler may let all items read what only item 0 needs.
    u32 next = s->next;
    u32 wanted = usable != 0u && at >= next ? 1u : 0u;
    s->found[LID] = wanted != 0u ? deflate_best(words, len, at, four, before, s->table[hash], s->distance) : 0u;
    SYNC();
    if (last != 0u) s->table[hash] = (u16)at;
    u32 end = base + round < len ? base + round : len;
    if (LID == 0u) s->next = deflate_select(s, next, prior, base, end, unit, sequences, distances);
    SYNC();
    // Rounds that lie in a match are skipped.
    u32 following = s->next / round * round;
    base = base < prior || following <= base ? base + round : following;
  }
  // The last sequence changes what the other items may still read.
  u32 rest = s->literals;
  SYNC();
  if (LID == 0u && rest < len) deflate_emit(s, prior, len, 0u, sequences, distances);
  SYNC();
}

// All items: counts symbols.
FN void deflate_count(LOCAL_PTR DeflateShared *s, GLOBAL const u8 *bytes, GLOBAL const u32 *sequences,
                      GLOBAL const u16 *distances) {
  for (u32 i = LID; i < DEFLATE_ITEMS * DEFLATE_SYMBOLS; i += DEFLATE_ITEMS) s->table[i] = 0u;
  SYNC();
  LOCAL_PTR u16 *own = s->table + LID * DEFLATE_SYMBOLS;
  for (u32 i = LID; i < s->sequences; i += DEFLATE_ITEMS) {
    u32 sequence = sequences[i];
    u32 at = sequence & 0xFFFFu;
    u32 end = at + ((sequence >> 16u) & DEFLATE_LITERALS);
    for (; at < end; at++) own[bytes[at]]++;
    if (sequence >> 21u != 0u) {
      own[DEFLATE_SYMBOL(deflate_length(sequence >> 21u))]++;
      own[DEFLATE_SYMBOL(deflate_distance(distances[i]))]++;
    }
  }
  SYNC();
  for (u32 i = LID; i < DEFLATE_SYMBOLS; i += DEFLATE_ITEMS) {
    u32 sum = i == DEFLATE_END ? 1u : 0u;
    for (u32 item = 0u; item < DEFLATE_ITEMS; item++) sum += s->table[item * DEFLATE_SYMBOLS + i];
    s->counts[i] = sum;
    s->lengths[i] = 0u;
  }
  SYNC();
}

// All items: the size in bits of the symbols with codes of these lengths, without the header.
FN u32 deflate_size(LOCAL_PTR DeflateShared *s, u32 fixed) {
  u32 bits = 0u;
  for (u32 i = LID; i < DEFLATE_SYMBOLS; i += DEFLATE_ITEMS) {
    bits += s->counts[i] * ((fixed != 0u ? deflate_fixed(i) : s->lengths[i]) + deflate_extra(i));
  }
  s->found[LID] = bits;
  SYNC();
  bits = 0u;
  for (u32 item = 0u; item < DEFLATE_ITEMS; item++) bits += s->found[item];
  SYNC();
  return bits;
}

// One item: describes the lengths of `number` codes by symbols for lengths and runs. Each is stored in `runs`
// as symbol | bits after it << 5, and counted. Returns the number of symbols.
FN u32 deflate_runs(LOCAL_PTR const u8 *lengths, u32 literals, u32 number, LOCAL_PTR u16 *runs, LOCAL_PTR u32 *counts) {
  u32 made = 0u;
  u32 gap = DEFLATE_CODES - literals;
  for (u32 i = 0u; i < DEFLATE_RUNS; i++) counts[i] = 0u;
  for (u32 i = 0u; i < number;) {
    // The codes of distances come right after the used ones of literals and lengths.
    u32 length = lengths[i < literals ? i : i + gap];
    u32 run = 1u;
    while (i + run < number && run < 138u && lengths[i + run < literals ? i + run : i + run + gap] == length) run++;
    i += run;
    if (length != 0u) {
      counts[length]++;
      runs[made++] = (u16)length;
      run--;
    }
    while (run >= 3u) {
      u32 most = length != 0u ? 6u : run < 11u ? 10u : 138u;
      u32 part = run < most ? run : most;
      u32 symbol = length != 0u ? 16u : part < 11u ? 17u : 18u;
      counts[symbol]++;
      runs[made++] = (u16)(symbol | (part - (symbol == 18u ? 11u : 3u)) << 5u);
      run -= part;
    }
    for (; run > 0u; run--) {
      counts[length]++;
      runs[made++] = (u16)length;
    }
  }
  return made;
}

// All items: computes the lengths of codes for symbols that have counts.
FN void deflate_build(LOCAL_PTR DeflateShared *s, LOCAL_PTR const u32 *counts, u32 symbols, u32 longest,
                      LOCAL_PTR u8 *lengths) {
  u32 used = deflate_sort(counts, symbols, s->table);
  SYNC();
  if (LID == 0u) {
    if (used >= 2u) {
      deflate_lengths(counts, s->table, used, longest, s->words, s->number, lengths);
    } else {
      // Some decoders refuse a code of one symbol.
      u32 only = used == 1u ? s->table[0] : 0u;
      lengths[only] = 1u;
      lengths[only == 0u ? 1u : 0u] = 1u;
    }
  }
  SYNC();
}

// All items: computes the codes and describes them in a header. Returns the size of the header in bits.
FN u32 deflate_header(LOCAL_PTR DeflateShared *s) {
  deflate_build(s, s->counts, DEFLATE_CODES, DEFLATE_LONGEST, s->lengths);
  deflate_build(s, s->counts + DEFLATE_CODES, DEFLATE_DISTANCES, DEFLATE_LONGEST, s->lengths + DEFLATE_CODES);
  u32 literals = 286u;
  u32 distances = 30u;
  while (literals > 257u && s->lengths[literals - 1u] == 0u) literals--;
  while (distances > 1u && s->lengths[DEFLATE_CODES + distances - 1u] == 0u) distances--;
  LOCAL_PTR u16 *runs = s->table + DEFLATE_SYMBOLS;
  if (LID < DEFLATE_RUNS) s->run_lengths[LID] = 0u;
  if (LID == 0u) s->runs = deflate_runs(s->lengths, literals, literals + distances, runs, s->hashes);
  SYNC();
  deflate_build(s, s->hashes, DEFLATE_RUNS, 7u, s->run_lengths);
  if (LID == 0u) {
    u32 orders = DEFLATE_RUNS;
    while (orders > 4u && s->run_lengths[deflate_order[orders - 1u]] == 0u) orders--;
    deflate_codes(s->run_lengths, DEFLATE_RUNS, s->number, s->run_codes);
    DeflateBits to = {0u, 0u, 0u, DEFLATE_OWN};
    deflate_put(&to, s, (literals - 257u) | (distances - 1u) << 5u | (orders - 4u) << 10u, 14u);
    for (u32 i = 0u; i < orders; i++) deflate_put(&to, s, s->run_lengths[deflate_order[i]], 3u);
    for (u32 i = 0u; i < s->runs; i++) {
      u32 symbol = runs[i] & 31u;
      deflate_put(&to, s, s->run_codes[symbol] & 0xFFFFu, s->run_codes[symbol] >> 16u);
      deflate_put(&to, s, runs[i] >> 5u, symbol < 16u ? 0u : symbol == 16u ? 2u : symbol == 17u ? 3u : 7u);
    }
    s->words[to.at] = (u32)to.value;
    s->bits = to.at * 32u + to.bits;
  }
  SYNC();
  return s->bits;
}

// One item: puts `bits` bits, less than 32, before those in the buffer.
FN void deflate_prepend(LOCAL_PTR DeflateShared *s, u32 value, u32 bits) {
  u32 end = (s->bits + 31u) / 32u;
  u32 low = 0u;
  s->words[end] = 0u;
  for (u32 i = 0u; i <= end; i++) {
    u32 word = s->words[i];
    s->words[i] = word << bits | (i == 0u ? value : low >> (32u - bits));
    low = word;
  }
  s->bits += bits;
}

// All items: copies the whole words of the buffer to `out`, and returns the bits that are left, which the next
// bits follow.
FN u32 deflate_flush(LOCAL_PTR DeflateShared *s, GLOBAL u32 *out, u32 bits) {
  for (u32 i = LID; i < bits / 32u; i += DEFLATE_ITEMS) out[i] = s->words[i];
  u32 rest = bits % 32u != 0u ? s->words[bits / 32u] : 0u;
  SYNC();
  return rest;
}

// All items: writes all sequences after the bits in the buffer, and the end of the block. Returns the number of
// bytes. Does nothing if the part is stored.
FN u32 deflate_write(LOCAL_PTR DeflateShared *s, GLOBAL const u8 *bytes, GLOBAL const u32 *sequences,
                     GLOBAL const u16 *distances, GLOBAL u32 *out, u32 last, u32 stored) {
  u32 done = 0u;
  u32 total = s->bits;
  u32 rest = deflate_flush(s, out, total);
  for (u32 first = 0u; first < s->sequences; first += DEFLATE_ITEMS) {
    done += total / 32u;
    u32 before = total % 32u;
    u32 own = first + LID < s->sequences ? 1u : 0u;
    u32 sequence = own != 0u ? sequences[first + LID] : 0u;
    u32 at = sequence & 0xFFFFu;
    u32 end = at + ((sequence >> 16u) & DEFLATE_LITERALS);
    u32 length = sequence >> 21u != 0u ? deflate_length(sequence >> 21u) : 0u;
    u32 distance = length != 0u ? deflate_distance(distances[first + LID]) : 0u;
    u32 bits = 0u;
    for (u32 i = at; i < end; i++) bits += s->codes[bytes[i]] >> 16u;
    if (length != 0u) {
      bits += (s->codes[DEFLATE_SYMBOL(length)] >> 16u) + DEFLATE_EXTRA(length);
      bits += (s->codes[DEFLATE_SYMBOL(distance)] >> 16u) + DEFLATE_EXTRA(distance);
    }
    s->found[LID] = bits;
    s->hashes[LID] = 0u;
    SYNC();
    u32 start = before;
    total = before;
    for (u32 item = 0u; item < DEFLATE_ITEMS; item++) {
      start += item < LID ? s->found[item] : 0u;
      total += s->found[item];
    }
    s->starts[LID] = start;
    u32 shared = LID > 0u && start % 32u != 0u ? start / 32u : DEFLATE_OWN;
    DeflateBits to = {LID == 0u ? rest : 0u, start % 32u, start / 32u, shared};
    for (u32 i = at; i < end; i++) deflate_code(&to, s, bytes[i]);
    if (length != 0u) {
      deflate_code(&to, s, length);
      deflate_code(&to, s, distance);
    }
    if (to.at == to.shared) s->hashes[LID] = (u32)to.value;
    SYNC();
    if (to.bits > 0u && to.at != to.shared) {
      u32 word = (u32)to.value;
      for (u32 item = LID + 1u; item < DEFLATE_ITEMS && s->starts[item] / 32u == to.at; item++) {
        word |= s->hashes[item];
      }
      s->words[to.at] = word;
    }
    SYNC();
    rest = deflate_flush(s, out + done, total);
  }
  done += total / 32u;
  if (LID == 0u && stored == 0u) {
    DeflateBits to = {rest, total % 32u, 0u, DEFLATE_OWN};
    deflate_put(&to, s, s->codes[DEFLATE_END] & 0xFFFFu, s->codes[DEFLATE_END] >> 16u);
    // The part ends with a whole byte: an empty stored block has zeros up to there.
    if (last == 0u) deflate_put(&to, s, 0u, 3u);
    if (to.bits % 8u != 0u) deflate_put(&to, s, 0u, 8u - to.bits % 8u);
    if (last == 0u) {
      deflate_put(&to, s, 0x0000u, 16u);
      deflate_put(&to, s, 0xFFFFu, 16u);
    }
    for (u32 i = 0u; i < to.at; i++) out[done + i] = s->words[i];
    if (to.bits > 0u) out[done + to.at] = (u32)to.value;
    s->bits = (done + to.at) * 4u + to.bits / 8u;
  }
  SYNC();
  return s->bits;
}

// All items: writes the part as stored blocks after `before` bytes. Returns the number of bytes.
FN u32 deflate_store(GLOBAL const u8 *bytes, u32 len, GLOBAL u8 *out, u32 before, u32 last) {
  if (LID == 0u && before > 0u) {
    out[0] = 0x78u;
    out[1] = 0x01u;
  }
  for (u32 at = 0u; at < len; at += DEFLATE_STORED) {
    u32 here = len - at < DEFLATE_STORED ? len - at : DEFLATE_STORED;
    if (LID == 0u) {
      out[before] = (u8)(at + here == len ? last : 0u);
      out[before + 1u] = (u8)here;
      out[before + 2u] = (u8)(here >> 8u);
      out[before + 3u] = (u8)~here;
      out[before + 4u] = (u8)(~here >> 8u);
    }
    before += 5u;
    for (u32 i = LID; i < here; i += DEFLATE_ITEMS) out[before + i] = bytes[at + i];
    before += here;
  }
  return before;
}

// All items: the sums of the bytes and of the bytes times the number of bytes from there to the end, for
// Adler-32.
FN void deflate_sum(LOCAL_PTR DeflateShared *s, GLOBAL const u8 *bytes, u32 len, GLOBAL u32 *sums) {
  u32 plain = 0u;
  u64 weighted = 0u;
  for (u32 i = LID; i < len; i += DEFLATE_ITEMS) {
    plain += bytes[i];
    weighted += (u64)(len - i) * bytes[i];
  }
  s->found[LID] = plain;
  s->hashes[LID] = (u32)(weighted % DEFLATE_ADLER);
  SYNC();
  if (LID == 0u) {
    u32 other = 0u;
    plain = 0u;
    for (u32 item = 0u; item < DEFLATE_ITEMS; item++) {
      plain += s->found[item];
      other += s->hashes[item];
    }
    sums[0] = plain % DEFLATE_ADLER;
    sums[1] = other % DEFLATE_ADLER;
  }
  SYNC();
}

// Group i encodes part `from + i` of tiles at `tiles_at + n * stride` of `len` bytes each, which are divided
// into parts of `part_len` bytes: a multiple of 16, at most 65536. Matches begin at multiples of `unit` bytes: 1
// or 2. The result is at `out_at + part * slot`, and its size at `sizes[first + part]`. A slot has `part_len +
// 32` bytes at least and is aligned to 16 bytes; its last 8 bytes are for the sums of the checksum. `scratch` has
// 6 bytes for every 4 bytes of a part and 28 more, for each group.
KERNEL(32) deflate_encode(GLOBAL const u8 *tiles, u64 tiles_at, u64 stride, u64 len, u32 part_len, u32 unit,
                          GLOBAL u8 *out, u64 out_at, u64 slot, GLOBAL u32 *sizes, u32 first, u32 from,
                          GLOBAL u8 *scratch) {
  LOCAL DeflateShared s;
  u32 parts = (u32)((len + part_len - 1u) / part_len);
  u32 part = from + GRP;
  u32 tile = part / parts;
  u32 index = part - tile * parts;
  u64 part_at = (u64)index * part_len;
  u32 here = len - part_at < part_len ? (u32)(len - part_at) : part_len;
  u32 last = index + 1u == parts ? 1u : 0u;
  GLOBAL const u8 *bytes = tiles + tiles_at + tile * stride + part_at;
  u32 most = part_len / 4u + 2u;
  GLOBAL u32 *sequences = (GLOBAL u32 *)(scratch + (u64)GRP * ((most * 6u + 15u) / 16u * 16u));
  GLOBAL u16 *distances = (GLOBAL u16 *)(sequences + most);
  out += out_at + part * slot;

  deflate_sum(&s, bytes, here, (GLOBAL u32 *)(out + slot) - 2);
  u32 prior = part_at == 0u ? 0u : DEFLATE_PRIOR;
  deflate_find(&s, (GLOBAL const u32 *)(bytes - prior), prior, prior + here, unit, sequences, distances);
  deflate_count(&s, bytes, sequences, distances);
  u32 header = deflate_header(&s);
  u32 dynamic = header + deflate_size(&s, 0u);
  u32 fixed = deflate_size(&s, 1u);
  u32 smallest = dynamic < fixed ? dynamic : fixed;
  // The header of the stream is before the first part.
  u32 before = part_at == 0u ? 2u : 0u;
  // All items pass the same barriers in either case: PoCL 3.1 computes wrong results if they do not.
  u32 stored = here * 8u + 37u <= smallest ? 1u : 0u;
  u32 size = stored != 0u ? deflate_store(bytes, here, out, before, last) : 0u;
  if (fixed <= dynamic) {
    for (u32 i = LID; i < DEFLATE_SYMBOLS; i += DEFLATE_ITEMS) s.lengths[i] = (u8)deflate_fixed(i);
    if (LID == 0u) s.bits = 0u;
  }
  SYNC();
  // Item 1 computes the codes of distances.
  if (LID < 2u) {
    u32 begin = LID * DEFLATE_CODES;
    u32 symbols = LID == 0u ? DEFLATE_CODES : DEFLATE_DISTANCES;
    deflate_codes(s.lengths + begin, symbols, s.number + LID * (DEFLATE_LONGEST + 1u), s.codes + begin);
  }
  if (LID == 0u) {
    u32 kind = last | (fixed <= dynamic ? 1u : 2u) << 1u;
    deflate_prepend(&s, before > 0u ? 0x0178u | kind << 16u : kind, before > 0u ? 19u : 3u);
    if (stored != 0u) s.sequences = s.bits = 0u;
  }
  SYNC();
  u32 written = deflate_write(&s, bytes, sequences, distances, (GLOBAL u32 *)out, last, stored);
  if (LID == 0u) sizes[first + part] = stored != 0u ? size : written;
}

// Each item computes the checksum of a tile and writes it behind the last part.
KERNEL(32) deflate_finish(u64 len, u32 part_len, u32 tiles, GLOBAL u8 *out, u64 out_at, u64 slot, GLOBAL u32 *sizes,
                          u32 first) {
  u32 tile = GRP * DEFLATE_ITEMS + LID;
  if (tile >= tiles) return;
  u32 parts = (u32)((len + part_len - 1u) / part_len);
  out += out_at + (u64)tile * parts * slot;
  u64 low = 1u;
  u64 high = 0u;
  for (u32 part = 0u; part < parts; part++) {
    u64 begin = (u64)part * part_len;
    u64 here = len - begin < part_len ? len - begin : part_len;
    GLOBAL const u32 *sums = (GLOBAL const u32 *)(out + (part + 1u) * slot) - 2;
    high = (high + here * low + sums[1]) % DEFLATE_ADLER;
    low = (low + sums[0]) % DEFLATE_ADLER;
  }
  u32 last = first + tile * parts + parts - 1u;
  u32 size = sizes[last];
  out += (parts - 1u) * slot + size;
  out[0] = (u8)(high >> 8u);
  out[1] = (u8)high;
  out[2] = (u8)(low >> 8u);
  out[3] = (u8)low;
  sizes[last] = size + 4u;
}
