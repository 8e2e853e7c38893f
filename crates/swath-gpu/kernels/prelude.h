// Every kernel file is compiled by two compilers, as OpenCL C 1.2 and as CUDA C (as C++), after this prelude.
//
// A kernel may use only the common subset: C99 without variable-length arrays, an address space on every
// pointer, LOCAL arrays of fixed size at the top of a kernel (32 KB together, which every GPU has), no warp
// intrinsics.
//
// A pointer to LOCAL memory is LOCAL_PTR: CUDA allows __shared__ only on variables. Functions are always
// inlined in OpenCL: if they were not, PoCL 3.1 made them read other memory than the LOCAL variable that was
// passed.
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL(n) __kernel __attribute__((reqd_work_group_size(n, 1, 1))) void
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_PTR __local
#define CONSTANT __constant
#define FN static inline __attribute__((always_inline))
#define LID ((u32)get_local_id(0))
#define GRP ((u32)get_group_id(0))
#define LDIM ((u32)get_local_size(0))
#define SYNC() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef int i32;
typedef long i64;
#else
#define KERNEL(n) extern "C" __global__ void __launch_bounds__(n)
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_PTR
#define CONSTANT __constant__
#define FN __device__ static
#define LID ((u32)threadIdx.x)
#define GRP ((u32)blockIdx.x)
#define LDIM ((u32)blockDim.x)
#define SYNC() __syncthreads()
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
#endif

// One block of a batch: the position of its bytes and of its pixels. A table of these is at the start of the
// batch, and the compressed bytes follow, so that one upload transfers both. `src/block.rs` has the same
// struct.
typedef struct {
  u64 src;        // first compressed byte, from the start of the batch
  u64 dst;        // first decoded byte, from the start of the decoded buffer
  u32 src_len;    // compressed bytes
  u32 dst_len;    // decoded bytes: exactly this many must be produced
  u32 flags;      // BLOCK_SPARSE, BLOCK_TOP
  u32 from_row;   // the requested part of the block
  u32 from_col;
  u32 rows;
  u32 cols;
  u32 to_row;     // the position of that part in the output
  u32 to_col;
  u32 band;       // the output band, in planar files
  u32 reserved[2];
} Block;

#define BLOCK_SPARSE 1u  // not stored: filled
#define BLOCK_TOP 2u     // only the first dst_len bytes are requested; the stream continues after them

// The status of a block. With any value other than OK its pixels are undefined, and the CPU decodes the block
// or reports the error.
#define STATUS_OK 0u
#define STATUS_TRUNCATED 1u    // the stream ends before the block is full
#define STATUS_CORRUPT 2u      // it breaks the rules of the format
#define STATUS_CHECKSUM 3u     // its checksum does not match
#define STATUS_UNSUPPORTED 4u  // a variant of the format that the kernel does not support
#define STATUS_REFUSED 6u      // a library of NVIDIA refused it

#define BLOCK(batch, i) (((GLOBAL const Block *)(batch))[i])

// A sample of 1, 2, 4 or 8 bytes, little-endian. It is accessed byte by byte unless its address is known to be
// aligned.
FN u64 load_sample(GLOBAL const u8 *from, u32 size, u32 typed) {
  u64 value = 0;
  if (size == 1) return *from;
  if (!typed) {
    for (u32 k = 0; k < size; k++) value |= (u64)from[k] << (8 * k);
    return value;
  }
  if (size == 2) return *(GLOBAL const u16 *)from;
  if (size == 4) return *(GLOBAL const u32 *)from;
  return *(GLOBAL const u64 *)from;
}

FN void store_sample(GLOBAL u8 *to, u64 value, u32 size, u32 typed) {
  if (size == 1) {
    *to = (u8)value;
  } else if (!typed) {
    for (u32 k = 0; k < size; k++) to[k] = (u8)(value >> (8 * k));
  } else if (size == 2) {
    *(GLOBAL u16 *)to = (u16)value;
  } else if (size == 4) {
    *(GLOBAL u32 *)to = (u32)value;
  } else {
    *(GLOBAL u64 *)to = value;
  }
}

// The storage of a sample: as in the output, perhaps in the other byte order; as byte planes of the row, most
// significant first; as bits, packed most significant first; or as in the output, but with a separate plane for
// each sample of a pixel, one after another in the block. In the last case `row_bytes` is the size of a row of
// such a plane.
#define PLACE_STORED 0u
#define PLACE_PLANES 1u
#define PLACE_BITS 2u
#define PLACE_COMPONENTS 3u

// Reverses the bytes of each unit of 2, 4 or 8 bytes.
FN u64 swap_units(u64 value, u32 unit) {
  if (unit >= 2) value = ((value >> 8) & (u64)0x00ff00ff00ff00ff) | ((value & (u64)0x00ff00ff00ff00ff) << 8);
  if (unit >= 4) value = ((value >> 16) & (u64)0x0000ffff0000ffff) | ((value & (u64)0x0000ffff0000ffff) << 16);
  if (unit >= 8) value = (value >> (4 * unit)) | (value << (4 * unit));
  return value;
}

// The sample whose bytes lie `plane` bytes apart, most significant first.
FN u64 join_planes(GLOBAL const u8 *from, u64 plane, u32 size) {
  u64 value = 0;
  for (u32 k = 0; k < size; k++) value = value << 8 | from[k * plane];
  return value;
}

// The `bits` bits from bit `at` of the row. No byte without one of these bits is read.
FN u64 unpack_bits(GLOBAL const u8 *row, u64 at, u32 bits) {
  GLOBAL const u8 *from = row + (at >> 3);
  u32 have = 8 - (u32)(at & 7);
  u64 value = *from & (0xffu >> (8 - have));
  if (have >= bits) return value >> (have - bits);
  for (; have + 8 <= bits; have += 8) value = value << 8 | *++from;
  if (have < bits) value = value << (bits - have) | *++from >> (8 - (bits - have));
  return value;
}
