// Reverses the bits of each byte, for FillOrder 2. All compressed bytes of the batch are reversed at once,
// before any of them is decoded. The groups share them by a grid stride, one word per item, so that
// neighbouring items read neighbouring words.

FN u32 reverse_word(u32 word) {
  word = ((word >> 1) & 0x55555555u) | ((word & 0x55555555u) << 1);
  word = ((word >> 2) & 0x33333333u) | ((word & 0x33333333u) << 2);
  return ((word >> 4) & 0x0f0f0f0fu) | ((word & 0x0f0f0f0fu) << 4);
}

// This does not use the shifts of reverse_word: LLVM turns these into a byte instruction that Oclgrind does not
// support.
FN u8 reverse_byte(u8 b) { return (u8)(((b * 0x80200802UL) & 0x0884422110UL) * 0x0101010101UL >> 32); }

KERNEL(256) reverse_bits(GLOBAL u8 *batch, u64 from, u64 len, u32 groups) {
  GLOBAL u8 *bytes = batch + from;
  u64 item = (u64)GRP * 256 + LID;
  u64 items = (u64)groups * 256;
  u64 head = (4 - ((u64)bytes & 3)) & 3;
  if (head > len) head = len;
  u64 words = (len - head) / 4;
  GLOBAL u32 *word = (GLOBAL u32 *)(bytes + head);
  for (u64 i = item; i < words; i += items) word[i] = reverse_word(word[i]);

  // At most three bytes before the words and three after them.
  u64 tail = head + words * 4;
  if (item < head) bytes[item] = reverse_byte(bytes[item]);
  if (item < len - tail) bytes[tail + item] = reverse_byte(bytes[tail + item]);
}
