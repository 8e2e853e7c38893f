// Computes the next coarser level: every output pixel represents 2 x 2 source pixels, fewer at the right and
// lower edge. The output bytes are the same as those of the CPU (crates/swath/src/write/reduce.rs).
//
// One item computes one output sample after another, a whole grid apart. Neighbouring items of a group have
// neighbouring samples, so their loads and stores fall into the same cache lines, and all branches on type and
// method go the same way in the whole grid. Items share nothing and do not wait for each other, so their order
// does not matter.
//
// Values of every type are compared as integers ("keys"), so that it does not matter whether a device flushes
// small floats to zero. Only the means of f32 and f64 need doubles. Without doubles the file still compiles,
// and the host must not request these two (`DeviceRules::needs_doubles`). The host must also not enable relaxed
// mathematics, because zeros have signs here.
//
// Loops over the four source samples are unrolled by pragma, so that the samples are in registers everywhere:
// PoCL does not unroll by itself, and is 1.3 to 1.6 times as fast with the pragma.

// `dtype`. Nearest uses only the size and treats any type as the unsigned one of that size, or as REDUCE_PAIR.
#define REDUCE_U8 0u
#define REDUCE_I8 1u
#define REDUCE_U16 2u
#define REDUCE_I16 3u
#define REDUCE_U32 4u
#define REDUCE_I32 5u
#define REDUCE_U64 6u
#define REDUCE_I64 7u
#define REDUCE_F16 8u
#define REDUCE_F32 9u
#define REDUCE_F64 10u
#define REDUCE_PAIR 11u  // 16 bytes, nearest only

// `method`.
#define REDUCE_NEAREST 0u
#define REDUCE_MEAN 1u
#define REDUCE_MIN 2u
#define REDUCE_MAX 3u
#define REDUCE_MODE 4u

#define REDUCE_TOP 0x8000000000000000ul

#ifdef __OPENCL_VERSION__
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define REDUCE_DOUBLES 1
#define REDUCE_DOUBLE_OF(bits) as_double(bits)
#define REDUCE_BITS_OF(value) as_ulong(value)
#define REDUCE_SINGLE_OF(bits) as_float(bits)
#define REDUCE_BITS_OF_SINGLE(value) as_uint(value)
#endif
#else
#define REDUCE_DOUBLES 1
#define REDUCE_DOUBLE_OF(bits) __longlong_as_double((i64)(bits))
#define REDUCE_BITS_OF(value) ((u64)__double_as_longlong(value))
#define REDUCE_SINGLE_OF(bits) __uint_as_float(bits)
#define REDUCE_BITS_OF_SINGLE(value) __float_as_uint(value)
#endif

// The properties of the type, the same for the whole grid.
typedef struct {
  u32 dtype;
  u32 size;      // bytes of a sample
  u32 floats;    // some bit patterns are not numbers
  u64 zero;      // the key of the number 0
  u64 least;     // the keys of all numbers
  u64 greatest;
  u64 low;       // the keys of nodata; none if low > high
  u64 high;
} ReduceType;

// The source samples of one output sample, row by row.
typedef struct {
  u64 bits[4];
  u64 keys[4];
  u32 there;  // bit i: sample i is inside the level and not missing
  u32 count;  // the number of these samples
} ReduceSamples;

FN u32 reduce_size(u32 dtype) {
  if (dtype == REDUCE_PAIR) return 16;
  if (dtype <= REDUCE_I8) return 1;
  if (dtype <= REDUCE_I16 || dtype == REDUCE_F16) return 2;
  return dtype <= REDUCE_I32 || dtype == REDUCE_F32 ? 4 : 8;
}

// The sample at a position; `aligned` if it can be loaded at once. Bytes are in the order of the device, which
// is little-endian, as that of every host with a device.
FN u64 reduce_load(GLOBAL const u8 *at, u32 size, u32 aligned) {
  if (aligned) {
    if (size == 1) return *at;
    if (size == 2) return *(GLOBAL const u16 *)at;
    if (size == 4) return *(GLOBAL const u32 *)at;
    return *(GLOBAL const u64 *)at;
  }
  u64 bits = 0;
  for (u32 i = 0; i < size; i++) bits |= (u64)at[i] << (8 * i);
  return bits;
}

FN void reduce_store(GLOBAL u8 *at, u64 bits, u32 size, u32 aligned) {
  if (aligned) {
    if (size == 1) *at = (u8)bits;
    else if (size == 2) *(GLOBAL u16 *)at = (u16)bits;
    else if (size == 4) *(GLOBAL u32 *)at = (u32)bits;
    else *(GLOBAL u64 *)at = bits;
    return;
  }
  for (u32 i = 0; i < size; i++) at[i] = (u8)(bits >> (8 * i));
}

// Whether every sample of a buffer can be accessed at once.
FN u32 reduce_aligned(u64 address, u64 first, u64 stride, u32 size) {
  return ((address | first | stride) & (size < 8 ? size - 1 : 7)) == 0;
}

// A number whose unsigned order is that of the samples. The two zeros have the same key. Bit patterns that are
// not numbers are beyond the infinities.
FN u64 reduce_key(u64 bits, u32 size, u32 floats, u64 zero) {
  if (zero == 0) return bits;
  u32 spare = 64 - 8 * size;
  u64 wide = (u64)((i64)(bits << spare) >> spare);
  // As integers, floats of one sign are in order, and floats below zero are in reverse order.
  if (floats && wide >= REDUCE_TOP) wide = (u64)((i64)REDUCE_TOP >> spare) - wide;
  return wide ^ REDUCE_TOP;
}

// The mean as a key, with halves rounded away from zero. The CPU rounds the exact quotient in the same way. For
// types of 16 bits or less it rounds `sum / count + 0.5` in doubles, which is exact for counts of 1, 2 and 4. A
// quotient by 3 is at least 1/6 away from the point where the result changes, far more than the error of a
// double. The CPU sums and divides wider types in integers.
//
// A key is its value plus a constant, and so is a mean of keys. The sum may not fit into 64 bits, but the sums
// of the quotients and of the remainders do: the first is at most the mean, the second at most 4 * 3.
FN u64 reduce_mean_whole(ReduceSamples s, u64 zero) {
  u64 whole = 0;
  u32 rest = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    if (!(s.there >> i & 1)) continue;
    u64 part = s.count == 3 ? s.keys[i] / 3 : s.keys[i] >> (s.count >> 1);
    whole += part;
    rest += (u32)(s.keys[i] - part * s.count);
  }
  u32 more = s.count == 3 ? rest / 3 : rest >> (s.count >> 1);
  whole += more;
  rest = 2 * (rest - more * s.count);
  // A half: for values below zero, rounding down is rounding away from zero.
  return whole + (rest > s.count || (rest == s.count && whole >= zero));
}

// `value >> drop`, rounded to nearest, halves to even; 0 < drop < 64.
FN u64 reduce_round(u64 value, u32 drop) {
  u64 kept = value >> drop;
  u64 lost = value - (kept << drop);
  u64 middle = (u64)1 << (drop - 1);
  return kept + (lost > middle || (lost == middle && (kept & 1)));
}

FN u32 reduce_width(u64 value) {
  u32 width = 0;
  for (u32 step = 32; step > 0; step >>= 1) {
    if (value >> step) {
      value >>= step;
      width += step;
    }
  }
  return width + (value != 0);
}

// The result of infinities among the samples: their sum is one of them, or NaN. That NaN has the sign bit set,
// as on x86. 0 without infinities.
FN u64 reduce_infinite(ReduceSamples s, ReduceType t) {
  u32 up = 0, down = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    up |= (s.there >> i & 1) && s.keys[i] == t.greatest;
    down |= (s.there >> i & 1) && s.keys[i] == t.least;
  }
  if (!(up | down)) return 0;
  u32 spare = 64 - 8 * t.size;
  u64 infinity = (t.greatest ^ REDUCE_TOP) << spare;
  u32 fraction = t.dtype == REDUCE_F16 ? 10 : t.dtype == REDUCE_F32 ? 23 : 52;
  u64 quiet = (u64)1 << (spare + fraction - 1);
  u64 bits = up && down ? infinity | REDUCE_TOP | quiet : down ? infinity | REDUCE_TOP : infinity;
  return bits >> spare;
}

// The mean of half floats, in integers: each is a multiple of 2^-24 and less than 2^40 such units, and the
// CPU's doubles represent their sum exactly. The CPU rounds the quotient to single precision and that to half
// precision. It first rounds to double precision, which changes nothing: the distance of a quotient by 3 to the
// midpoint of two singles is at least a third of half their distance.
FN u64 reduce_mean_half(ReduceSamples s) {
  u64 above = 0, below = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    if (!(s.there >> i & 1)) continue;
    u32 bits = (u32)s.bits[i];
    u32 exponent = (bits >> 10) & 31;
    u64 value = exponent == 0 ? bits & 1023 : (u64)((bits & 1023) | 1024) << (exponent - 1);
    if (bits >> 15) below += value;
    else above += value;
  }
  u64 sign = below > above ? 0x8000 : 0;
  u64 scaled = (sign ? below - above : above - below) << 20;
  u64 mean = s.count == 3 ? scaled / 3 : scaled >> (s.count >> 1);
  // The last bit marks a remainder, which is all the information that the rounding needs.
  mean |= s.count == 3 && mean * 3 != scaled;
  u32 width = reduce_width(mean);
  if (width > 24) {
    mean = reduce_round(mean, width - 24) << (width - 24);
    width = reduce_width(mean);
  }
  // In units of 2^-44. Below 2^-14 the last digit of a half float does not move.
  if (width <= 30) return sign | reduce_round(mean, 20);
  // A mantissa that is rounded up to the next power of two increases the exponent.
  return sign | (((u64)(width - 31) << 10) + reduce_round(mean, width - 11));
}

#ifdef REDUCE_DOUBLES
// This is done by hand for devices that might flush the value to zero.
FN double reduce_from_single(u32 bits) {
  if (bits << 1 >> 24) return (double)REDUCE_SINGLE_OF(bits);
  double value = (double)(i32)(bits & 0x7fffff) * 0x1p-149;
  return bits >> 31 ? -value : value;
}

FN u32 reduce_to_single(double value) {
  double size = value < 0.0 ? -value : value;
  // The bits of a subnormal number are its multiple of the smallest number.
  if (size < 0x1p-126) return (u32)(REDUCE_BITS_OF(value) >> 63) << 31 | (u32)rint(size * 0x1p149);
  return REDUCE_BITS_OF_SINGLE((float)value);
}

// The mean of f32 or f64 without infinities. A missing sample, or one beyond the edge, is added as 0.
FN u64 reduce_mean_float(ReduceSamples s, u32 single) {
  double values[4];
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    values[i] = !(s.there >> i & 1) ? 0.0 : single ? reduce_from_single((u32)s.bits[i]) : REDUCE_DOUBLE_OF(s.bits[i]);
  }
  // The sum starts at 0 and goes row by row, as on the CPU, so it is never -0.
  double sum = (0.0 + (values[0] + values[1])) + (values[2] + values[3]);
  double mean = s.count == 3 ? sum / 3.0 : sum * (s.count == 1 ? 1.0 : s.count == 2 ? 0.5 : 0.25);
  if (single) return reduce_to_single(mean);
  if ((REDUCE_BITS_OF(mean) & 0x7ff0000000000000ul) == 0x7ff0000000000000ul) {
    // The sum is too large for a double, but the sum of the quotients is not.
    mean = -0.0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      if (s.there >> i & 1) mean += values[i] / (double)(i32)s.count;
    }
  }
  return REDUCE_BITS_OF(mean);
}
#endif

FN u64 reduce_mean(ReduceSamples s, ReduceType t, u64 beside, u32 any) {
  u64 bits = 0, key;
  if (t.floats) {
    bits = reduce_infinite(s, t);
    if (bits == 0) {
      if (t.dtype == REDUCE_F16) bits = reduce_mean_half(s);
#ifdef REDUCE_DOUBLES
      else bits = reduce_mean_float(s, t.dtype == REDUCE_F32);
#endif
    }
    key = reduce_key(bits, t.size, t.floats, t.zero);
  } else {
    key = reduce_mean_whole(s, t.zero);
    bits = key ^ t.zero;
  }
  // A valid result must not become nodata.
  return any && key >= t.low && key <= t.high ? beside : bits;
}

// The smallest or the largest sample; of equal samples, which only zeros can be, the first.
FN u64 reduce_extreme(ReduceSamples s, u32 greatest) {
  u64 bits = 0, best = 0;
  u32 found = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    if (!(s.there >> i & 1)) continue;
    if (!found || (greatest ? s.keys[i] > best : s.keys[i] < best)) {
      best = s.keys[i];
      bits = s.bits[i];
      found = 1;
    }
  }
  return bits;
}

// The most frequent sample; of several, the first that reaches that count. Of equal zeros, the one at that
// position.
FN u64 reduce_mode(ReduceSamples s) {
  u64 bits = 0;
  u32 best = 0;
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    if (!(s.there >> i & 1)) continue;
    u32 met = 1;
    for (u32 j = 0; j < i; j++) met += (s.there >> j & 1) && s.keys[j] == s.keys[i];
    if (met > best) {
      best = met;
      bits = s.bits[i];
    }
  }
  return bits;
}

FN ReduceType reduce_type(u32 dtype, u64 low, u64 high) {
  ReduceType t;
  t.dtype = dtype;
  t.size = reduce_size(dtype);
  t.floats = dtype >= REDUCE_F16 && dtype <= REDUCE_F64;
  t.zero = t.floats || (dtype < REDUCE_F16 && (dtype & 1)) ? REDUCE_TOP : 0;
  t.least = 0;
  t.greatest = ~(u64)0;
  if (t.floats) {
    u64 infinity = dtype == REDUCE_F16 ? 0x7c00 : dtype == REDUCE_F32 ? 0x7f800000 : 0x7ff0000000000000ul;
    t.least = REDUCE_TOP - infinity;
    t.greatest = REDUCE_TOP + infinity;
  }
  t.low = reduce_key(low, t.size, t.floats, t.zero);
  t.high = reduce_key(high, t.size, t.floats, t.zero);
  return t;
}

// Computes rows out_row .. out_row + out_rows of the level that is half as wide and high as `width` x `height`,
// both rounded up. The bands of a pixel are interleaved. Row r of the source is at src + src_at + (r - src_row)
// * src_stride, and the output has the same layout. The rows 2r of all output rows r must be present, and
// except for nearest also 2r + 1 if the level has it. `alpha` is the band whose zeros mark a pixel as missing
// in the other bands; it is beyond the bands if there is none. `low`, `high`, `fill` and `beside` are samples,
// zero-extended; `any` is whether a number is nodata. `groups` is the number of launched groups.
KERNEL(256) reduce(GLOBAL const u8 *src, u64 src_at, u64 src_stride, u32 src_row, u32 width, u32 height, u32 bands,
                   u32 dtype, u32 method, u32 alpha, GLOBAL u8 *out, u64 out_at, u64 out_stride, u32 out_row,
                   u32 out_rows, u64 low, u64 high, u64 fill, u64 beside, u32 any, u32 groups) {
  u32 cols = width / 2 + (width & 1);
  u64 rows = height / 2 + (height & 1);
  rows = rows < (u64)out_row + out_rows ? rows : (u64)out_row + out_rows;
  if (cols == 0 || bands == 0 || groups == 0) return;
  ReduceType t = reduce_type(dtype, low, high);
  u32 src_aligned = reduce_aligned((u64)(size_t)src, src_at, src_stride, t.size);
  u32 out_aligned = reduce_aligned((u64)(size_t)out, out_at, out_stride, t.size);
  u64 pixel = (u64)bands * t.size;
  // Row, column and band are counted up like the digits of a clock, so one division is enough.
  u64 per_row = (u64)cols * bands;
  u64 first = (u64)GRP * LDIM + LID, step = (u64)groups * LDIM;
  u64 row = first / per_row, step_row = step / per_row;
  u64 in_row = first - row * per_row, step_in_row = step - step_row * per_row;
  u32 col = (u32)(in_row / bands), step_col = (u32)(step_in_row / bands);
  u32 band = (u32)(in_row - (u64)col * bands), step_band = (u32)(step_in_row - (u64)step_col * bands);
  row += out_row;
  while (row < rows) {
    GLOBAL const u8 *from = src + src_at + (2 * row - src_row) * src_stride + 2 * (u64)col * pixel;
    GLOBAL u8 *to = out + out_at + (row - out_row) * out_stride + col * pixel + (u64)band * t.size;
    if (method == REDUCE_NEAREST) {
      from += (u64)band * t.size;
      u32 part = t.size < 8 ? t.size : 8;
      for (u32 at = 0; at < t.size; at += part) {
        reduce_store(to + at, reduce_load(from + at, part, src_aligned), part, out_aligned);
      }
    } else {
      ReduceSamples s;
      s.there = 0;
      s.count = 0;
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        s.bits[i] = 0;
        s.keys[i] = 0;
        if (2 * (u64)col + (i & 1) >= width || 2 * row + (i >> 1) >= height) continue;
        GLOBAL const u8 *at = from + (i >> 1) * src_stride + (i & 1) * pixel;
        s.bits[i] = reduce_load(at + (u64)band * t.size, t.size, src_aligned);
        s.keys[i] = reduce_key(s.bits[i], t.size, t.floats, t.zero);
        u32 there = s.keys[i] >= t.least && s.keys[i] <= t.greatest;
        if (any && s.keys[i] >= t.low && s.keys[i] <= t.high) there = 0;
        // Any set bit counts: as on the CPU, a float -0 is not zero here.
        if (alpha < bands && alpha != band) {
          there &= reduce_load(at + (u64)alpha * t.size, t.size, src_aligned) != 0;
        }
        s.there |= there << i;
        s.count += there;
      }
      u64 bits = fill;
      if (s.count > 0) {
        if (method == REDUCE_MEAN) bits = reduce_mean(s, t, beside, any);
        else if (method == REDUCE_MODE) bits = reduce_mode(s);
        else bits = reduce_extreme(s, method == REDUCE_MAX);
      }
      reduce_store(to, bits, t.size, out_aligned);
    }
    band += step_band;
    u32 carry = band >= bands;
    band -= carry ? bands : 0;
    col += step_col + carry;
    carry = col >= cols;
    col -= carry ? cols : 0;
    row += step_row + carry;
  }
}
