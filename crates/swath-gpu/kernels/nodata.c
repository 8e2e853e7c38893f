// Converts between NaN in memory and a nodata value in the file, in place.
//
// Floats are processed as bit patterns: not every device has half or double precision, and a comparison with
// NaN is always false. Without its sign bit a float is ordered as an integer, and the NaNs are above infinity.
// With the negated integer for negative floats, all floats are ordered, and both zeros are 0. The groups share
// the values by a grid stride.

FN u64 nodata_load(GLOBAL const u8 *data, u64 i, u32 size) {
  if (size == 2) return ((GLOBAL const u16 *)data)[i];
  if (size == 4) return ((GLOBAL const u32 *)data)[i];
  return ((GLOBAL const u64 *)data)[i];
}

FN void nodata_store(GLOBAL u8 *data, u64 i, u32 size, u64 value) {
  if (size == 2) {
    ((GLOBAL u16 *)data)[i] = (u16)value;
  } else if (size == 4) {
    ((GLOBAL u32 *)data)[i] = (u32)value;
  } else {
    ((GLOBAL u64 *)data)[i] = value;
  }
}

FN u64 nodata_infinity(u32 size) {
  return size == 2 ? (u64)0x7c00 : size == 4 ? (u64)0x7f800000 : (u64)0x7ff0000000000000;
}

FN u64 nodata_magnitude(u64 value, u32 size) { return value & (~(u64)0 >> (65 - 8 * size)); }

FN i64 nodata_order(u64 value, u32 size) {
  i64 magnitude = (i64)nodata_magnitude(value, size);
  return (value >> (8 * size - 1)) & 1 ? -magnitude : magnitude;
}

KERNEL(256) nan_to_nodata(GLOBAL u8 *data, u64 at, u64 count, u32 size, u64 nodata, u32 groups) {
  u64 infinity = nodata_infinity(size);
  GLOBAL u8 *values = data + at;
  for (u64 i = (u64)GRP * 256 + LID; i < count; i += (u64)groups * 256) {
    u64 value = nodata_load(values, i, size);
    if (nodata_magnitude(value, size) > infinity) nodata_store(values, i, size, nodata);
  }
}

KERNEL(256) nodata_to_nan(GLOBAL u8 *data, u64 at, u64 count, u32 size, u64 low, u64 high, u32 groups) {
  u64 infinity = nodata_infinity(size);
  // Infinity and the highest bit of the mantissa.
  u64 nan = infinity | (size == 2 ? (u64)1 << 9 : size == 4 ? (u64)1 << 22 : (u64)1 << 51);
  i64 from = nodata_order(low, size);
  i64 to = nodata_order(high, size);
  // No float is between limits that are not numbers.
  if (nodata_magnitude(low, size) > infinity || nodata_magnitude(high, size) > infinity) return;
  GLOBAL u8 *values = data + at;
  for (u64 i = (u64)GRP * 256 + LID; i < count; i += (u64)groups * 256) {
    u64 value = nodata_load(values, i, size);
    i64 order = nodata_order(value, size);
    // A NaN is beyond both infinities, so it is never between two limits that are floats.
    if (order >= from && order <= to) nodata_store(values, i, size, nan);
  }
}
