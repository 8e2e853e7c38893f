// Converts bands that are stored one after another to interleaved bands.
//
// The groups share the samples of the output by a grid stride: neighbouring items write neighbouring samples,
// and read from one stream per band, each in order too. Everything is aligned to the size of a sample.

KERNEL(256)
interleave(GLOBAL const u8 *from, u64 from_at, u64 band_stride, GLOBAL u8 *to, u64 to_at, u64 pixels, u32 bands,
           u32 size, u32 groups) {
  u64 samples = pixels * bands;
  for (u64 i = (u64)GRP * 256 + LID; i < samples; i += (u64)groups * 256) {
    u64 pixel = i / bands;
    GLOBAL const u8 *source = from + from_at + (i - pixel * bands) * band_stride + pixel * size;
    GLOBAL u8 *target = to + to_at + i * size;
    if (size == 1) {
      *target = *source;
    } else if (size == 2) {
      *(GLOBAL u16 *)target = *(GLOBAL const u16 *)source;
    } else {
      for (u32 k = 0; k < size; k += 4) *(GLOBAL u32 *)(target + k) = *(GLOBAL const u32 *)(source + k);
    }
  }
}
