// Copies pieces of different lengths into contiguous memory, so that results at scattered positions become one
// download.
//
// A group copies a span, its items neighbouring words, as wide as the positions of the span allow: 16 bytes if
// source and destination have the same distance to a 16-byte boundary, otherwise 4, otherwise single bytes. The
// bytes before the first and after the last word are copied one by one.

KERNEL(256) gather(GLOBAL const u64 *spans, GLOBAL const u8 *from, GLOBAL u8 *to) {
  GLOBAL const u8 *source = from + spans[3 * (u64)GRP];
  GLOBAL u8 *target = to + spans[3 * (u64)GRP + 1];
  u64 len = spans[3 * (u64)GRP + 2];
  u64 apart = (u64)source ^ (u64)target;
  u32 word = (apart & 15) == 0 ? 16 : (apart & 3) == 0 ? 4 : 1;

  u64 head = (word - ((u64)target & (word - 1))) & (word - 1);
  if (head > len) head = len;
  u64 words = (len - head) / word;
  u64 tail = head + words * word;
  if (LID < head) target[LID] = source[LID];
  if (LID < len - tail) target[tail + LID] = source[tail + LID];
  for (u64 i = LID; i < words; i += 256) {
    u64 at = head + i * word;
    if (word == 16) {
      *(GLOBAL uint4 *)(target + at) = *(GLOBAL const uint4 *)(source + at);
    } else if (word == 4) {
      *(GLOBAL u32 *)(target + at) = *(GLOBAL const u32 *)(source + at);
    } else {
      target[at] = source[at];
    }
  }
}
