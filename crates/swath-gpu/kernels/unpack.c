// Copies decoded blocks to the output, as `place` does, and converts every sample on the way: nodata becomes NaN,
// scale and offset are applied, and the result is stored as float32 or float64. It can also report whether nodata
// occurs. The results are those of the CPU (crates/swath-python/src/pixels.rs and numpy), bit for bit.
//
// Singles are processed as bit patterns and computed with as doubles, because a device may flush small singles to
// zero. A product of two singles is exact as a double, and the rounding of a sum to a double does not change the
// rounded single. NaN is processed as bit patterns too, because devices differ in the NaN that arithmetic returns.
//
// Only scaling needs doubles, and the conversion of integers. Without doubles the file still compiles, and the host
// must not launch the kernel.

#ifdef __OPENCL_VERSION__
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define UNPACK_DOUBLES 1
#define UNPACK_DOUBLE_OF(bits) as_double(bits)
#define UNPACK_BITS_OF(value) as_ulong(value)
#endif
#else
#define UNPACK_DOUBLES 1
#define UNPACK_DOUBLE_OF(bits) __longlong_as_double((i64)(bits))
#define UNPACK_BITS_OF(value) ((u64)__double_as_longlong(value))
#endif

// `kind`, with `size` the type of a sample.
#define UNPACK_UNSIGNED 0u
#define UNPACK_SIGNED 1u
#define UNPACK_FLOAT 2u

// `flags`.
#define UNPACK_EQUALS 1u  // a sample that equals `nodata` is nodata
#define UNPACK_IS_NAN 2u  // NaN is nodata
#define UNPACK_MASK 4u    // nodata becomes NaN
#define UNPACK_SCALE 8u   // there is a table of factors
#define UNPACK_LOOK 16u   // each group reports whether it met nodata

#define UNPACK_INFINITY 0x7ff0000000000000ul
#define UNPACK_NAN 0x7ff8000000000000ul
#define UNPACK_NAN_SINGLE 0x7fc00000u
// The NaN that x86 processors return where no operand is NaN: infinity times 0.
#define UNPACK_INVALID 0xfff8000000000000ul
#define UNPACK_MAGNITUDE 0x7ffffffffffffffful

// What to do with a sample: the same for the whole grid.
typedef struct {
  u32 kind;
  u32 size;
  u32 flags;
  u32 work;     // bytes of the float in which is computed, or 0: samples stay as they are
  u32 target;   // bytes of the result
  u64 nodata;   // bits of a sample; of a single for halves
} UnpackRule;

FN u32 unpack_from_half(u32 bits) {
  u32 sign = (bits >> 15) << 31;
  u32 magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00) return sign | UNPACK_NAN_SINGLE | (magnitude & 0x3ff) << 13;
  if (magnitude == 0x7c00) return sign | 0x7f800000;
  if (magnitude >= 0x400) return sign | ((magnitude << 13) + (112u << 23));
  if (magnitude == 0) return sign;
  u32 exponent = 113;
  for (; (magnitude & 0x400) == 0; exponent--) magnitude <<= 1;
  return sign | exponent << 23 | (magnitude & 0x3ff) << 13;
}

FN u64 unpack_from_single(u32 bits) {
  u64 sign = (u64)(bits >> 31) << 63;
  u32 magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | UNPACK_NAN | (u64)(magnitude & 0x7fffff) << 29;
  if (magnitude == 0x7f800000) return sign | UNPACK_INFINITY;
  if (magnitude >= 0x800000) return sign | (((u64)magnitude << 29) + ((u64)896 << 52));
  if (magnitude == 0) return sign;
  u64 exponent = 897;
  for (; (magnitude & 0x800000) == 0; exponent--) magnitude <<= 1;
  return sign | exponent << 52 | (u64)(magnitude & 0x7fffff) << 29;
}

// Rounds a double to the nearest single, or to the even one of two.
FN u32 unpack_to_single(u64 bits) {
  u32 sign = (u32)(bits >> 63) << 31;
  u64 magnitude = bits & UNPACK_MAGNITUDE;
  if (magnitude > UNPACK_INFINITY) return sign | UNPACK_NAN_SINGLE | (u32)(magnitude >> 29 & 0x7fffff);
  i32 exponent = (i32)(magnitude >> 52) - 1023;
  if (exponent > 127) return sign | 0x7f800000;
  if (exponent < -150) return sign;
  u64 mantissa = (magnitude & 0xffffffffffffful) | 0x10000000000000ul;
  u32 drop = exponent >= -126 ? 29 : (u32)(-97 - exponent);
  u64 kept = mantissa >> drop;
  u64 rest = mantissa & (((u64)1 << drop) - 1);
  u64 tie = (u64)1 << (drop - 1);
  if (rest > tie || (rest == tie && (kept & 1))) kept++;
  // The highest bit of the mantissa, and one to which rounding carries, increase the exponent.
  return sign | ((exponent >= -126 ? (u32)(exponent + 126) << 23 : 0) + (u32)kept);
}

FN u32 unpack_is_nan(u64 bits, u32 size) {
  return size == 4 ? (bits & 0x7fffffff) > 0x7f800000 : (bits & UNPACK_MAGNITUDE) > UNPACK_INFINITY;
}

// Whether a sample is nodata. A half is given as a single.
FN u32 unpack_is_nodata(u64 value, u32 size, UnpackRule rule) {
  if (rule.kind != UNPACK_FLOAT) return (rule.flags & UNPACK_EQUALS) && value == rule.nodata;
  if (unpack_is_nan(value, size)) return (rule.flags & UNPACK_IS_NAN) != 0;
  if (!(rule.flags & UNPACK_EQUALS)) return 0;
  u32 above = 64 - 8 * size;
  // Zeros of both signs are equal.
  return value == rule.nodata || ((value << above << 1) == 0 && (rule.nodata << above << 1) == 0);
}

#ifdef UNPACK_DOUBLES
// The sample as a float of `work` bytes, scaled.
FN u64 unpack_work(u64 value, u32 size, UnpackRule rule, GLOBAL const u64 *factors) {
  u32 single = rule.work == 4;
  u32 scaled = (rule.flags & UNPACK_SCALE) != 0;
  u64 bits = value;
  if (rule.kind != UNPACK_FLOAT) {
    u32 above = 64 - 8 * size;
    if (rule.kind == UNPACK_SIGNED) value = (u64)((i64)(value << above) >> above);
    // Both halves are exact as doubles, so only the sum is rounded.
    double high = rule.kind == UNPACK_SIGNED ? (double)(i32)(u32)(value >> 32) : (double)(u32)(value >> 32);
    bits = UNPACK_BITS_OF(high * 4294967296.0 + (double)(u32)value);
  } else if (unpack_is_nan(value, size)) {
    // Arithmetic sets the highest bit of the mantissa.
    return !scaled ? value : single ? value | UNPACK_NAN_SINGLE : value | UNPACK_NAN;
  } else if (single) {
    if (!scaled) return value;
    bits = unpack_from_single((u32)value);
  }
  if (!scaled) return bits;
  // The host has rounded the factors to the type of the arithmetic.
  double product = UNPACK_DOUBLE_OF(bits) * UNPACK_DOUBLE_OF(factors[0]);
  if (single) product = UNPACK_DOUBLE_OF(unpack_from_single(unpack_to_single(UNPACK_BITS_OF(product))));
  bits = UNPACK_BITS_OF(product + UNPACK_DOUBLE_OF(factors[1]));
  if (unpack_is_nan(bits, 8)) bits = UNPACK_INVALID;
  return single ? unpack_to_single(bits) : bits;
}
#endif

// The bits of the result for a sample, and whether the sample is nodata.
FN u64 unpack_sample(u64 value, UnpackRule rule, GLOBAL const u64 *factors, u32 *found) {
  u32 size = rule.size;
  if (rule.kind == UNPACK_FLOAT && size == 2) {
    value = unpack_from_half((u32)value);
    size = 4;
  }
  u32 hit = unpack_is_nodata(value, size, rule);
  *found |= hit;
  if (rule.work == 0) return value;
#ifdef UNPACK_DOUBLES
  value = unpack_work(value, size, rule, factors);
#endif
  if (hit && (rule.flags & UNPACK_MASK)) value = rule.work == 4 ? (u64)UNPACK_NAN_SINGLE : UNPACK_NAN;
  if (rule.target == rule.work) return value;
  return rule.target == 8 ? unpack_from_single((u32)value) : (u64)unpack_to_single(value);
}

// `kind`, `flags`, `work`, `target` and `nodata` are those of UnpackRule. The table at `factors_at` has the scale and
// the offset of each band of the output, as doubles; `first_band` is the band of the output that receives the first
// band. The word of each group at `found_at` of `status` is 1 if the group met nodata, else 0.
KERNEL(256)
place_unpack(GLOBAL const u8 *batch, GLOBAL const u8 *decoded, GLOBAL u32 *status, GLOBAL u8 *out, u64 out_at,
             u64 row_stride, u64 pixel_stride, u64 band_stride, u64 bands_at, u32 bands, u32 planar, u32 row_bytes,
             u32 width, u32 samples, u32 bits, u32 size, u32 mode, u32 swap, u64 fill, u32 parts, u64 factors_at,
             u32 first_band, u32 kind, u32 flags, u32 work, u32 target, u64 nodata, u64 found_at) {
  LOCAL u32 found_by[256];
  u32 number = GRP / parts;
  u32 part = GRP - number * parts;
  GLOBAL const Block *block = &BLOCK(batch, number);
  u32 sparse = (block->flags & BLOCK_SPARSE) != 0;
  u32 rows = status[number] == STATUS_OK ? block->rows : 0;
  u32 cols = block->cols;
  u64 from_col = block->from_col;
  GLOBAL const u32 *band_list = (GLOBAL const u32 *)(batch + bands_at);
  GLOBAL const u64 *factors = (GLOBAL const u64 *)(batch + factors_at) + 2 * (u64)first_band;
  GLOBAL const u8 *from = decoded + block->dst + (u64)block->from_row * row_bytes;
  GLOBAL u8 *to = out + out_at + block->to_row * row_stride + block->to_col * pixel_stride;
  if (planar) {
    // `bands` is 1 then.
    to += block->band * band_stride;
    factors += 2 * (u64)block->band;
  }
  UnpackRule rule;
  rule.kind = kind;
  rule.size = size;
  rule.flags = flags;
  rule.work = work;
  rule.target = target;
  rule.nodata = nodata;
  if (mode == PLACE_COMPONENTS && samples <= 1) mode = PLACE_STORED;
  u32 plane = mode == PLACE_COMPONENTS ? block->dst_len / samples : 0;
  u32 typed_load = (((u64)from | row_bytes | plane) & (size - 1)) == 0;
  u32 typed_store = (((u64)to | row_stride | pixel_stride | band_stride) & (target - 1)) == 0;

  // The digits are (band, column, row) if the bands of a pixel are interleaved, otherwise (column, row, band), and
  // are counted up as in `place`.
  u32 bands_last = bands > 1 && band_stride < pixel_stride;
  u64 total = (u64)rows * cols * bands;
  u32 low_end = total == 0 ? 1 : bands_last ? bands : cols;
  u32 middle_end = total == 0 ? 1 : bands_last ? cols : rows;
  u64 share = ((total + parts - 1) / parts + 255) / 256 * 256;
  u64 at = part * share + LID;
  u64 end = (part + 1) * share < total ? (part + 1) * share : total;
  u64 line = at / low_end;
  u32 low = (u32)(at - line * low_end);
  u32 high = (u32)(line / middle_end);
  u32 middle = (u32)(line - (u64)high * middle_end);
  u32 line_step = 256 / low_end;
  u32 low_step = 256 - line_step * low_end;
  u32 high_step = line_step / middle_end;
  u32 middle_step = line_step - high_step * middle_end;

  u32 found = 0;
  for (; at < end; at += 256) {
    u32 band = bands_last ? low : high;
    u32 col = bands_last ? middle : low;
    u32 row = bands_last ? high : middle;
    u64 sample = planar ? 0 : band_list[band];
    GLOBAL const u8 *source = from + (u64)row * row_bytes + sample * plane;
    u64 index = plane != 0 ? from_col + col : (from_col + col) * samples + sample;
    u64 value = fill;
    if (!sparse) {
      if (mode == PLACE_PLANES) {
        value = join_planes(source + index, (u64)width * samples, size);
      } else if (mode == PLACE_BITS) {
        value = unpack_bits(source, index * bits, bits);
      } else {
        value = swap_units(load_sample(source + index * size, size, typed_load), swap);
      }
    }
    value = unpack_sample(value, rule, factors + 2 * (u64)band, &found);
    store_sample(to + row * row_stride + col * pixel_stride + band * band_stride, value, target, typed_store);

    low += low_step;
    u32 carry = low >= low_end;
    low -= carry ? low_end : 0;
    middle += middle_step + carry;
    carry = middle >= middle_end;
    middle -= carry ? middle_end : 0;
    high += high_step + carry;
  }

  found_by[LID] = found;
  SYNC();
  u32 any = 0;
  for (u32 k = 0; LID < 16 && k < 16; k++) any |= found_by[LID * 16 + k];
  SYNC();
  if (LID < 16) found_by[LID] = any;
  SYNC();
  any = 0;
  for (u32 k = 0; LID == 0 && k < 16; k++) any |= found_by[k];
  if (LID == 0 && (flags & UNPACK_LOOK)) status[found_at / 4 + GRP] = any;
}
