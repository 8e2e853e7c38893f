// The steps before and after NVIDIA's nvCOMP: they select the blocks that it may decode, check its output, and
// handle the framing that it does not support.
//
// The behaviour of nvCOMP for an invalid stream is undefined. It supports neither zlib's framing nor LZ4's
// frames, and it checks no checksum. So `chunk_admit` checks what can be checked without decoding a stream, and
// writes the table that nvCOMP reads. The pointers in the table are absolute, so the host passes the addresses
// of the buffers. nvCOMP processes a batch as a whole: a block that it must not decode is replaced by a stream
// of a few bytes, whose output is ignored.
//
// An item of `chunk_admit` has a block, because headers are a few bytes that are read one after another. A
// whole group computes a checksum.

#define CHUNK_ZLIB 0u
#define CHUNK_ZSTD 1u
#define CHUNK_LZ4 2u

#define CHUNK_STAND_IN_ROOM 4u

// zlib (RFC 1950): two bytes before the Deflate stream, the checksum after it.
#define CHUNK_ZLIB_HEADER 2u
#define CHUNK_ZLIB_CHECKSUM 4u

#define CHUNK_ZSTD_MAGIC 0xfd2fb528u
#define CHUNK_ZSTD_WINDOW_MAX 0x800000u  // 8 MB, which RFC 8878 requires of every decoder
#define CHUNK_ZSTD_BLOCK_MAX 131072u
#define CHUNK_ZSTD_RLE 1u
#define CHUNK_ZSTD_COMPRESSED 2u
#define CHUNK_ZSTD_RESERVED 3u
// The limit on ZSTD blocks of a frame: a stream of empty blocks would otherwise keep an item busy for seconds.
#define CHUNK_ZSTD_BLOCKS(dst_len) (1024u + (dst_len) / 256u)

#define CHUNK_LZ4_MAGIC 0x184d2204u
#define CHUNK_LZ4_SKIPPABLE 0x184d2a50u  // and the next 15 values
#define CHUNK_LZ4_SIZED 8u               // in FLG: the size of the content is stored
#define CHUNK_LZ4_CHECKSUM 4u            // in FLG: a checksum of the content is at the end
// The required value of FLG, except for these bits and for the bit of independent blocks, which has no effect
// for a single block: version 1, no block checksum, no dictionary. And the required value of BD, except for the
// largest block size.
#define CHUNK_LZ4_FLAGS(flags) ((flags) & 0xd3u)
#define CHUNK_LZ4_FLAGS_KNOWN 0x40u
#define CHUNK_LZ4_SIZES_RESERVED 0x8fu
#define CHUNK_LZ4_STORED 0x80000000u
// The frame that is written: FLG with independent blocks, BD with blocks of up to 4 MB, and the checksum of
// these two.
#define CHUNK_LZ4_FLG 0x60u
#define CHUNK_LZ4_BD 0x70u
#define CHUNK_LZ4_HC 0x73u
#define CHUNK_LZ4_BLOCK_MAX 0x400000u

// The codecs of chunk_frame, and of the checksum in chunk_check.
#define CHUNK_FRAME_NONE 0u
#define CHUNK_FRAME_ZLIB 1u
#define CHUNK_FRAME_LZ4 2u
#define CHUNK_FAILED 0xffffffffu

#define CHUNK_ADLER_ITEMS 256u
#define CHUNK_ADLER_MOD 65521u
#define CHUNK_ADLER_PIECE 4096u  // bytes of an item between two divisions: 255 * 4096 * 4097 / 2 fits into 32 bits

// OpenCL has its own rotation, and Oclgrind does not support the instruction that the compiler makes of two
// shifts.
#ifdef __OPENCL_VERSION__
#define CHUNK_TURN(x, n) rotate((u32)(x), (u32)(n))
#else
#define CHUNK_TURN(x, n) ((u32)(x) << (n) | (u32)(x) >> (32 - (n)))
#endif

FN u32 chunk_zlib(GLOBAL const u8 *src, u32 len) {
  if (len < CHUNK_ZLIB_HEADER + 1u + CHUNK_ZLIB_CHECKSUM) return STATUS_TRUNCATED;
  u32 method = src[0], flags = src[1];
  // Deflate with a window of up to 32 KB, and the check bits of both bytes.
  if ((method & 15u) != 8u || method >> 4 > 7u || (method * 256u + flags) % 31u != 0u) return STATUS_CORRUPT;
  return (flags & 32u) != 0u ? STATUS_UNSUPPORTED : STATUS_OK;  // a dictionary, which a TIFF cannot store
}

// Checks for one frame without dictionary and checksum, whose blocks end where the stream ends.
FN u32 chunk_zstd(GLOBAL const u8 *src, u32 len, u32 dst_len) {
  if (len < 5u) return STATUS_TRUNCATED;
  u32 head = src[4], single = head >> 5 & 1u;
  // Refuses a dictionary, a checksum, which the CPU would check, and reserved bits.
  if ((u32)load_sample(src, 4u, 0u) != CHUNK_ZSTD_MAGIC || (head & 31u) != 0u) return STATUS_UNSUPPORTED;
  u32 size_bytes = head >> 6 != 0u ? 1u << (head >> 6) : single;
  u32 at = 5u;
  if (len - at < 1u - single + size_bytes) return STATUS_TRUNCATED;
  u64 window = dst_len;
  if (!single) {
    u64 unit = (u64)1 << (10u + (src[at] >> 3));
    window = unit + (unit >> 3) * (src[at] & 7u);
    if (window > CHUNK_ZSTD_WINDOW_MAX) return STATUS_UNSUPPORTED;
    at++;
  }
  if (size_bytes != 0u) {
    u64 content = load_sample(src + at, size_bytes, 0u);
    if (content + (size_bytes == 2u ? 256u : 0u) != dst_len) return STATUS_CORRUPT;
    at += size_bytes;
  }

  u32 block_max = window < CHUNK_ZSTD_BLOCK_MAX ? (u32)window : CHUNK_ZSTD_BLOCK_MAX;
  u32 room = dst_len;  // minus the known output: stored blocks and runs
  for (u32 block = 0u; block < CHUNK_ZSTD_BLOCKS(dst_len); block++) {
    if (len - at < 3u) return STATUS_TRUNCATED;
    u32 kind = src[at] >> 1 & 3u, last = src[at] & 1u;
    u32 size = (u32)src[at] >> 3 | (u32)src[at + 1u] << 5 | (u32)src[at + 2u] << 13;
    at += 3u;
    if (kind == CHUNK_ZSTD_RESERVED || size > block_max) return STATUS_CORRUPT;
    // A compressed block has at least two headers of one byte.
    if (kind == CHUNK_ZSTD_COMPRESSED ? size < 2u : size > room) return STATUS_CORRUPT;
    if (kind != CHUNK_ZSTD_COMPRESSED) room -= size;
    u32 bytes = kind == CHUNK_ZSTD_RLE ? 1u : size;
    if (len - at < bytes) return STATUS_TRUNCATED;
    at += bytes;
    if (last) return at == len ? STATUS_OK : STATUS_UNSUPPORTED;
  }
  return STATUS_UNSUPPORTED;
}

// The end of xxHash32: the bytes after the stripes of 16 bytes, and the mixing.
FN u32 chunk_xxh32_end(u32 hash, GLOBAL const u8 *data, u32 len) {
  u32 at = 0u;
  for (; len - at >= 4u; at += 4u) {
    hash += (u32)load_sample(data + at, 4u, 0u) * 3266489917u;
    hash = CHUNK_TURN(hash, 17) * 668265263u;
  }
  for (; at < len; at++) {
    hash += data[at] * 374761393u;
    hash = CHUNK_TURN(hash, 11) * 2654435761u;
  }
  hash = (hash ^ hash >> 15) * 2246822519u;
  hash = (hash ^ hash >> 13) * 3266489917u;
  return hash ^ hash >> 16;
}

// xxHash32 of fewer than 16 bytes, which does not use its four lanes.
FN u32 chunk_xxh32(GLOBAL const u8 *data, u32 len) { return chunk_xxh32_end(374761393u + len, data, len); }

// xxHash32 of any number of bytes, computed by the whole group: four items have one lane each, and a lane is
// sequential.
FN u32 chunk_xxh32_long(GLOBAL const u8 *data, u32 len, LOCAL_PTR u32 *lanes) {
  u32 stripes = len / 16u;
  if (stripes == 0u) return chunk_xxh32(data, len);
  if (LID < 4u) {
    u32 lane = LID == 0u ? 606290984u : LID == 1u ? 2246822519u : LID == 2u ? 0u : 1640531535u;
    for (u32 stripe = 0u; stripe < stripes; stripe++) {
      lane += (u32)load_sample(data + 16u * (u64)stripe + 4u * LID, 4u, 0u) * 2246822519u;
      lane = CHUNK_TURN(lane, 13) * 2654435761u;
    }
    lanes[LID] = lane;
  }
  SYNC();
  u32 hash = CHUNK_TURN(lanes[0], 1) + CHUNK_TURN(lanes[1], 7) + CHUNK_TURN(lanes[2], 12) + CHUNK_TURN(lanes[3], 18);
  return chunk_xxh32_end(hash + len, data + 16u * (u64)stripes, len - 16u * stripes);
}

// Reads a frame of one block, or a bare block. `from` and `bytes` become those of the block. `bytes` is 0 for a
// stored block, which nvCOMP does not support: chunk_check copies it.
FN u32 chunk_lz4(GLOBAL const u8 *src, u32 len, u32 dst_len, u32 *from, u32 *bytes) {
  if (len == 0u) return STATUS_TRUNCATED;
  u32 magic = len >= 4u ? (u32)load_sample(src, 4u, 0u) : 0u;
  if ((magic & ~15u) == CHUNK_LZ4_SKIPPABLE) return STATUS_UNSUPPORTED;
  if (magic != CHUNK_LZ4_MAGIC) return STATUS_OK;

  if (len < 6u) return STATUS_TRUNCATED;
  u32 flags = src[4], sizes = src[5];
  if (CHUNK_LZ4_FLAGS(flags) != CHUNK_LZ4_FLAGS_KNOWN || (sizes & CHUNK_LZ4_SIZES_RESERVED) != 0u) {
    return STATUS_UNSUPPORTED;
  }
  u32 fields = (flags & CHUNK_LZ4_SIZED) != 0u ? 10u : 2u;
  u32 data = 4u + fields + 1u + 4u;
  if (len < data) return STATUS_TRUNCATED;
  if (sizes < 0x40u || src[4u + fields] != (chunk_xxh32(src + 4, fields) >> 8 & 255u)) return STATUS_CORRUPT;
  if (fields == 10u && load_sample(src + 6, 8u, 0u) != dst_len) return STATUS_CORRUPT;

  u32 size = (u32)load_sample(src + data - 4u, 4u, 0u);
  u32 stored = size & CHUNK_LZ4_STORED;
  size &= ~CHUNK_LZ4_STORED;
  if (size == 0u || (stored && size != dst_len)) return STATUS_UNSUPPORTED;
  if (size > 1u << (2u * (sizes >> 4) + 8u)) return STATUS_CORRUPT;
  // The end mark, and perhaps a checksum of the content, which chunk_check compares.
  u32 end = (flags & CHUNK_LZ4_CHECKSUM) != 0u ? 8u : 4u;
  if (len - data < size || len - data - size < end) return STATUS_TRUNCATED;
  if ((u32)load_sample(src + data + size, 4u, 0u) != 0u || len - data - size != end) return STATUS_UNSUPPORTED;
  *from = data;
  *bytes = stored ? 0u : size;
  return STATUS_OK;
}

// At `chunks_at` of the batch: u64 from[count], from_bytes[count], room[count], to[count], which this kernel
// writes, and u64 written[count], u32 outcome[count], which nvCOMP writes.
KERNEL(32) chunk_admit(GLOBAL u8 *batch, GLOBAL u32 *status, u64 batch_address, u64 decoded_address, u64 chunks_at, u32 count,
                       u32 codec, u64 stand_in, u32 stand_in_len) {
  u32 number = GRP * 32u + LID;
  if (number >= count) return;
  GLOBAL const Block *block = &BLOCK(batch, number);
  GLOBAL const u8 *src = batch + block->src;
  u32 len = block->src_len, dst_len = block->dst_len;
  u32 sparse = (block->flags & BLOCK_SPARSE) != 0u;

  u32 from = 0u, bytes = len;
  u32 result = STATUS_OK;
  if (sparse) {
    // A sparse block has no stored bytes to check.
  } else if ((block->flags & BLOCK_TOP) != 0u) {
    result = STATUS_UNSUPPORTED;
  } else if (codec == CHUNK_ZLIB) {
    result = chunk_zlib(src, len);
    from = CHUNK_ZLIB_HEADER;
    bytes = len - CHUNK_ZLIB_HEADER - CHUNK_ZLIB_CHECKSUM;
  } else if (codec == CHUNK_ZSTD) {
    result = chunk_zstd(src, len, dst_len);
  } else if (codec == CHUNK_LZ4) {
    result = chunk_lz4(src, len, dst_len, &from, &bytes);
  } else {
    result = STATUS_UNSUPPORTED;
  }

  u32 admitted = !sparse && result == STATUS_OK && bytes != 0u;
  GLOBAL u64 *chunk = (GLOBAL u64 *)(batch + chunks_at) + number;
  u64 next = count;
  chunk[0] = batch_address + (admitted ? block->src + from : stand_in);
  chunk[next] = admitted ? bytes : stand_in_len;
  chunk[2u * next] = admitted ? dst_len : CHUNK_STAND_IN_ROOM;
  chunk[3u * next] = decoded_address + block->dst;
  // These are reset, so that values that nvCOMP does not write are not those of the previous batch.
  chunk[4u * next] = 0u;
  ((GLOBAL u32 *)(batch + chunks_at))[10u * next + number] = 0xffffffffu;
  status[number] = result;
}

// Adler-32 (RFC 1950) of a span, computed by the whole group.
//
// The checksum is 1 + the sum of d[i], and n + the sum of (n - i) d[i], both modulo 65521. Neither needs an
// order, so each item sums every 256th byte, with neighbouring items reading neighbouring bytes, and the sums
// of the items are added pairwise at the end.
FN u32 chunk_adler(GLOBAL const u8 *span, u64 len, LOCAL_PTR u32 *sum_a, LOCAL_PTR u32 *sum_b) {
  u64 a = 0u, b = 0u;
  for (u64 at = LID; at < len;) {
    u32 x = 0u, y = 0u, n = 0u;
    u64 weight = (len - at) % CHUNK_ADLER_MOD;
    for (; n < CHUNK_ADLER_PIECE && at < len; n++) {
      x += span[at];
      y += x;
      at += CHUNK_ADLER_ITEMS;
    }
    // Byte k of the n has weight - 256 k, and the sum of the running sums is the sum of (n - k) d.
    a += x;
    b += weight * x + (u64)CHUNK_ADLER_ITEMS * y + CHUNK_ADLER_MOD - (u64)CHUNK_ADLER_ITEMS * n * x % CHUNK_ADLER_MOD;
    b %= CHUNK_ADLER_MOD;
  }
  sum_a[LID] = (u32)(a % CHUNK_ADLER_MOD);
  sum_b[LID] = (u32)b;
  SYNC();
  for (u32 step = CHUNK_ADLER_ITEMS / 2u; step > 0u; step /= 2u) {
    if (LID < step) {
      sum_a[LID] += sum_a[LID + step];  // 256 * 65520 at most
      sum_b[LID] += sum_b[LID + step];
    }
    SYNC();
  }
  return (u32)((len + sum_b[0]) % CHUNK_ADLER_MOD) << 16 | (1u + sum_a[0]) % CHUNK_ADLER_MOD;
}

// Group i reports whether nvCOMP decoded block i correctly. The table is that of chunk_admit.
KERNEL(256) chunk_check(GLOBAL const u8 *batch, GLOBAL u8 *decoded, GLOBAL u32 *status, u64 chunks_at, u32 count,
                        u32 checksum) {
  LOCAL u32 sum_a[CHUNK_ADLER_ITEMS];
  LOCAL u32 sum_b[CHUNK_ADLER_ITEMS];
  GLOBAL const Block *block = &BLOCK(batch, GRP);
  u32 admitted = status[GRP] == STATUS_OK && (block->flags & BLOCK_SPARSE) == 0u;
  // Item 0 writes the status below, after all items have read it.
  SYNC();
  if (!admitted) return;

  GLOBAL const u64 *written = (GLOBAL const u64 *)(batch + chunks_at) + 4u * (u64)count;
  GLOBAL const u32 *outcome = (GLOBAL const u32 *)(written + count);
  u32 result = STATUS_OK;
  GLOBAL const u8 *src = batch + block->src;
  u32 framed = checksum == CHUNK_FRAME_LZ4 && block->src_len >= 6u && (u32)load_sample(src, 4u, 0u) == CHUNK_LZ4_MAGIC;
  u32 data = framed && (src[4] & CHUNK_LZ4_SIZED) != 0u ? 19u : 11u;
  u32 stored = framed && (load_sample(src + data - 4u, 4u, 0u) & CHUNK_LZ4_STORED) != 0u;
  if (stored) {
    // chunk_admit checked that its length equals its content.
    for (u32 at = LID; at < block->dst_len; at += 256u) decoded[block->dst + at] = src[data + at];
    SYNC();
  }
  if (!stored && outcome[GRP] != 0u) {
    result = STATUS_REFUSED;
  } else if (!stored && written[GRP] > block->dst_len) {
    result = STATUS_CORRUPT;
  } else if (!stored && written[GRP] < block->dst_len) {
    result = STATUS_TRUNCATED;
  } else if (checksum == CHUNK_FRAME_ZLIB) {
    u32 sum = chunk_adler(decoded + block->dst, block->dst_len, sum_a, sum_b);
    GLOBAL const u8 *stored = batch + block->src + block->src_len - CHUNK_ZLIB_CHECKSUM;
    u32 expected = (u32)stored[0] << 24 | (u32)stored[1] << 16 | (u32)stored[2] << 8 | (u32)stored[3];
    if (sum != expected) result = STATUS_CHECKSUM;
  } else if (framed && (src[4] & CHUNK_LZ4_CHECKSUM) != 0u) {
    u32 sum = chunk_xxh32_long(decoded + block->dst, block->dst_len, sum_a);
    if (sum != (u32)load_sample(src + block->src_len - 4u, 4u, 0u)) result = STATUS_CHECKSUM;
  }
  if (LID == 0u && result != STATUS_OK) status[GRP] = result;
}

// Group i writes the framing around nvCOMP's output for tile i and stores the total number of bytes in
// sizes[i]: 0xFFFFFFFF if the output is not usable. At `chunks_at` of the pool: u64 from[count],
// from_bytes[count], to[count], written[count], u32 outcome[count]. No stream has more than `room` bytes. zlib
// needs 2 bytes before the stream and 4 after it, LZ4 needs 11 and 4.
KERNEL(256) chunk_frame(GLOBAL const u8 *tiles, GLOBAL u8 *pool, u64 tiles_address, u64 pool_address, u64 chunks_at, u32 count,
                        u32 framing, u32 header, u64 room, GLOBAL u32 *sizes) {
  LOCAL u32 sum_a[CHUNK_ADLER_ITEMS];
  LOCAL u32 sum_b[CHUNK_ADLER_ITEMS];
  GLOBAL const u64 *chunk = (GLOBAL const u64 *)(pool + chunks_at) + GRP;
  GLOBAL const u32 *outcome = (GLOBAL const u32 *)(pool + chunks_at) + 8u * (u64)count;
  u64 next = count;
  u64 len = chunk[next], size = chunk[3u * next];
  u32 usable = outcome[GRP] == 0u && size <= room && size <= 0xffffff00u;
  // Larger tiles need more than one block, and readers refuse them.
  if (framing == CHUNK_FRAME_LZ4) usable = usable && len <= CHUNK_LZ4_BLOCK_MAX && size <= CHUNK_LZ4_BLOCK_MAX;
  u32 sum = 0u;
  if (usable && framing == CHUNK_FRAME_ZLIB) sum = chunk_adler(tiles + (chunk[0] - tiles_address), len, sum_a, sum_b);
  if (LID != 0u) return;
  if (!usable) {
    sizes[GRP] = CHUNK_FAILED;
    return;
  }
  // Byte by byte, because nothing here is aligned.
  GLOBAL u8 *stream = pool + (chunk[2u * next] - pool_address);
  if (framing == CHUNK_FRAME_ZLIB) {
    GLOBAL u8 *head = stream - CHUNK_ZLIB_HEADER;
    head[0] = (u8)header;
    head[1] = (u8)(header >> 8);
    for (u32 k = 0u; k < 4u; k++) stream[size + k] = (u8)(sum >> (24u - 8u * k));
    size += CHUNK_ZLIB_HEADER + CHUNK_ZLIB_CHECKSUM;
  } else if (framing == CHUNK_FRAME_LZ4) {
    GLOBAL u8 *head = stream - 11;
    store_sample(head, CHUNK_LZ4_MAGIC, 4u, 0u);
    head[4] = CHUNK_LZ4_FLG;
    head[5] = CHUNK_LZ4_BD;
    head[6] = CHUNK_LZ4_HC;
    store_sample(head + 7, size, 4u, 0u);
    store_sample(stream + size, 0u, 4u, 0u);
    size += 15u;
  }
  sizes[GRP] = (u32)size;
}
