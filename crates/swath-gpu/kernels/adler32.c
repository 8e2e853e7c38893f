// Adler-32 (RFC 1950) of spans of a buffer, one group per span.
//
// The checksum is 1 + the sum of d[i], and n + the sum of (n - i) d[i], both modulo 65521. Neither needs an order, so each item
// adds up every 256th byte, neighbours reading neighbours, and the items' sums are added pairwise at the end.

#define ADLER32_ITEMS 256u
#define ADLER32_MOD 65521u
#define ADLER32_PIECE 4096u  // bytes of an item between two divisions: 255 * 4096 * 4097 / 2 fits into 32 bits

KERNEL(256) adler32(GLOBAL const u8 *data, GLOBAL const u64 *spans, GLOBAL u32 *sums) {
  LOCAL u32 sum_a[ADLER32_ITEMS];
  LOCAL u32 sum_b[ADLER32_ITEMS];
  GLOBAL const u8 *span = data + spans[2u * GRP];
  u64 len = spans[2u * GRP + 1u];
  u64 a = 0u, b = 0u;
  for (u64 at = LID; at < len;) {
    u32 x = 0u, y = 0u, n = 0u;
    u64 weight = (len - at) % ADLER32_MOD;
    for (; n < ADLER32_PIECE && at < len; n++) {
      x += span[at];
      y += x;
      at += ADLER32_ITEMS;
    }
    // Byte k of the n has weight - 256 k, and the sum of the running sums is the sum of (n - k) d.
    a += x;
    b += weight * x + (u64)ADLER32_ITEMS * y + ADLER32_MOD - (u64)ADLER32_ITEMS * n * x % ADLER32_MOD;
    b %= ADLER32_MOD;
  }
  sum_a[LID] = (u32)(a % ADLER32_MOD);
  sum_b[LID] = (u32)b;
  for (u32 step = ADLER32_ITEMS / 2u; step > 0u; step /= 2u) {
    SYNC();
    if (LID < step) {
      sum_a[LID] += sum_a[LID + step];  // 256 * 65520 at most
      sum_b[LID] += sum_b[LID + step];
    }
  }
  if (LID == 0u) sums[GRP] = (u32)((len + sum_b[0]) % ADLER32_MOD) << 16 | (1u + sum_a[0]) % ADLER32_MOD;
}
