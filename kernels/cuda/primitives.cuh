// kernels/cuda/primitives.cuh: what the code of CUDA kernels calls, one function per instruction.
//
// nvcc compiles the bodies below. Any other compiler takes functions of the same names from the
// emulator (tests/support/cuda/device_functions.h), which runs kernels on the CPU; a function that
// the emulator lacks does not compile there. This and warpgroup.cuh are the only files with PTX, and
// with launch.cuh the only ones with CUDA's own names (scripts/check_layers.py).
//
// A result has the same bits on a GPU and in the emulator: division and square root are rounded as
// IEEE 754 demands, no function is an approximate instruction, and products are fused with sums
// only by fused(), because nvcc compiles kernels with -fmad=false. Exceptions are the payload of a
// NaN and the sums of tensor cores (tests/support/cuda/tensor_core.h).
//
// Collectives (sync_*, shuffle*, vote*, ldmatrix_*, mma_*) are called by all threads of a block, or
// by all 32 lanes of a warp, from one place of the source.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caption::kernels::cuda {

// 16 bytes, which one instruction loads, stores or copies.
struct alignas(16) Bytes16 {
  std::uint32_t word[4];
};

// 16 bytes that copy_16_async() copies, or zeros; without `to` none.
struct Copy16 {
  Bytes16* to;
  const void* from;
  bool is_inside;
};

// Operands of m16n8k16, as the PTX ISA 8.x, "Matrix Fragments for mma.m16n8k16", defines them: with
// g = lane / 4 and t = lane % 4, pairs of 16-bit elements with the lower column (of B: row) in the
// lower half.
struct FragmentA {
  std::uint32_t pair[4];  // rows g, g + 8, g, g + 8; columns 2t, 2t, 2t + 8, 2t + 8
};
struct FragmentB {
  std::uint32_t pair[2];  // rows 2t, 2t + 8; column g
};
struct FragmentC {
  float sum[4];  // rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1
};

// Operands of m16n8k32 with 8-bit integers or e4m3 numbers (tensor/e4m3.h), four to a register with
// the lowest column (of B: row) in the lowest byte.
struct FragmentA8 {
  std::uint32_t four[4];  // rows g, g + 8, g, g + 8; columns 4t, 4t, 4t + 16, 4t + 16
};
struct FragmentB8 {
  std::uint32_t four[2];  // rows 4t, 4t + 16; column g
};
struct FragmentC32 {
  std::int32_t sum[4];  // as FragmentC
};

}  // namespace caption::kernels::cuda

#ifndef __CUDACC__

#define CAPTION_DEVICE inline
#define CAPTION_UNROLL
#define CAPTION_NO_UNROLL
#include "tests/support/cuda/device_functions.h"

#else

#include <cuda_runtime.h>

#define CAPTION_DEVICE __device__ __forceinline__
// Before a loop over a thread's own array, which is in registers only if all its indices are known.
#define CAPTION_UNROLL _Pragma("unroll")
// Before a loop whose body is long.
#define CAPTION_NO_UNROLL _Pragma("unroll 1")

namespace caption::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// ---- where a thread is ----
CAPTION_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
CAPTION_DEVICE int lane_index() { return thread_index() % 32; }
CAPTION_DEVICE int warp_index() { return thread_index() / 32; }
CAPTION_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
CAPTION_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
CAPTION_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
CAPTION_DEVICE int grid_x() { return static_cast<int>(gridDim.x); }

// The block's dynamic shared memory, uninitialised.
template <class Shared>
CAPTION_DEVICE Shared& shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return *reinterpret_cast<Shared*>(dynamic_shared_memory);
}

// ---- order and exchange ----
// All accesses to memory before it happen before those after it, of the block or of the warp.
CAPTION_DEVICE void sync_block() { __syncthreads(); }
CAPTION_DEVICE void sync_warp() { __syncwarp(); }

// The value that the lane `lane ^ mask`, or `lane`, of the warp passes. Does not order memory.
CAPTION_DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(kAllLanes, x, mask); }
CAPTION_DEVICE std::uint32_t shuffle(std::uint32_t x, int lane) {
  return __shfl_sync(kAllLanes, x, lane);
}
// Bit i is whether lane i passes true.
CAPTION_DEVICE std::uint32_t vote(bool x) { return __ballot_sync(kAllLanes, x); }

// ---- memory ----
// One access of 1, 2, 4, 8 or 16 bytes; the address is a multiple of their number.
template <class T>
CAPTION_DEVICE T load(const T* from) {
  static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0);
  return *from;
}
template <class T>
CAPTION_DEVICE void store(T* to, const T& x) {
  static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0);
  *to = x;
}
// For what the kernel reads once and does not write: bypasses L1.
CAPTION_DEVICE Bytes16 load_once(const Bytes16* from) {
  Bytes16 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
               : "l"(from));
  return x;
}

// Adds x to, or sets the bits of x in, *to, which other threads may do at the same time; atomic_add
// returns the value before. Accesses of another kind need a barrier between.
CAPTION_DEVICE std::uint32_t atomic_add(std::uint32_t* to, std::uint32_t x) {
  return atomicAdd(to, x);
}
CAPTION_DEVICE void atomic_or(std::uint32_t* to, std::uint32_t x) { atomicOr(to, x); }

CAPTION_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes from global to shared memory while the thread goes on; zeros if !is_inside, and
// then `from` is not read. The bytes may be read after a wait_copies() of the same thread, and by
// other threads after a barrier that follows it. sm_75 lacks the instruction: there the copy is
// complete when the call returns.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CAPTION_DEVICE void copy_16_async(void* to, const void* from, bool is_inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(is_inside ? 16 : 0)
               : "memory");
}
// Makes a group of the thread's copies since its last group; a group may be empty.
CAPTION_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the last kGroupsLeft groups are not complete.
template <int kGroupsLeft>
CAPTION_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}
#else
CAPTION_DEVICE void copy_16_async(void* to, const void* from, bool is_inside) {
  Bytes16 x{};
  if (is_inside) x = *static_cast<const Bytes16*>(from);
  *static_cast<Bytes16*>(to) = x;
}
CAPTION_DEVICE void commit_copies() {}
template <int kGroupsLeft>
CAPTION_DEVICE void wait_copies() {}
#endif
// Several such copies. On sm_75 all their loads are under way before the first store.
template <int kCopies>
CAPTION_DEVICE void copy_16_async(const Copy16 (&copies)[kCopies]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    const Copy16& c = copies[i];
    if (c.to != nullptr) copy_16_async(c.to, c.from, c.is_inside);
  }
#else
  Bytes16 x[kCopies];
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    x[i] = Bytes16{};
    if (copies[i].is_inside) x[i] = load_once(static_cast<const Bytes16*>(copies[i].from));
  }
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    if (copies[i].to != nullptr) *copies[i].to = x[i];
  }
#endif
}

// ---- tensor cores ----
// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes the address of row
// l % 8 of matrix l / 8; it gets the elements [l / 4][2 (l % 4)] and [l / 4][2 (l % 4) + 1] of
// each.
CAPTION_DEVICE FragmentA ldmatrix_x4(const void* row) {
  FragmentA r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.pair[0]), "=r"(r.pair[1]), "=r"(r.pair[2]), "=r"(r.pair[3])
               : "r"(shared_address(row))
               : "memory");
  return r;
}
// The same of the transposed matrices.
CAPTION_DEVICE FragmentA ldmatrix_x4_trans(const void* row) {
  FragmentA r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.pair[0]), "=r"(r.pair[1]), "=r"(r.pair[2]), "=r"(r.pair[3])
               : "r"(shared_address(row))
               : "memory");
  return r;
}

// c [16, 8] += a [16, 16] * b [16, 8]. bf16 needs sm_80: on sm_75, for which a kernel is compiled
// all the same, it ends the launch with an error. There f16 is two steps of k = 8.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CAPTION_DEVICE void mma_bf16(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
      : "r"(a.pair[0]), "r"(a.pair[1]), "r"(a.pair[2]), "r"(a.pair[3]), "r"(b.pair[0]),
        "r"(b.pair[1]));
}
CAPTION_DEVICE void mma_f16(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
      : "r"(a.pair[0]), "r"(a.pair[1]), "r"(a.pair[2]), "r"(a.pair[3]), "r"(b.pair[0]),
        "r"(b.pair[1]));
}
#else
CAPTION_DEVICE void mma_bf16(FragmentC&, const FragmentA&, const FragmentB&) { __trap(); }
CAPTION_DEVICE void mma_f16(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  for (int step = 0; step < 2; ++step) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
        : "r"(a.pair[2 * step]), "r"(a.pair[2 * step + 1]), "r"(b.pair[step]));
  }
}
#endif

// c [16, 8] += a [16, 32] * b [32, 8] with signed integers of 8 bits; exact below 2^31.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CAPTION_DEVICE void mma_s8(FragmentC32& c, const FragmentA8& a, const FragmentB8& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c.sum[0]), "+r"(c.sum[1]), "+r"(c.sum[2]), "+r"(c.sum[3])
      : "r"(a.four[0]), "r"(a.four[1]), "r"(a.four[2]), "r"(a.four[3]), "r"(b.four[0]),
        "r"(b.four[1]));
}
#else
CAPTION_DEVICE void mma_s8(FragmentC32& c, const FragmentA8& a, const FragmentB8& b) {
  for (int part = 0; part < 4; ++part) {
    const int half = part % 2;  // the upper or the lower half of the rows
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+r"(c.sum[2 * half]), "+r"(c.sum[2 * half + 1])
                 : "r"(a.four[part]), "r"(b.four[part / 2]));
  }
}
#endif

// e4m3 numbers (tensor/e4m3.h), for the GPUs kGpusOfE4M3 (kernels/cuda/gpus.h). The functions for the
// others are there to be named, and never called.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// The e4m3 codes of two numbers, to nearest, ties to even, with `low` in the lower byte; magnitudes
// beyond 448 become 448.
CAPTION_DEVICE std::uint16_t e4m3_pair_of_floats(float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
// The two numbers of e4m3 codes as f16, exactly.
CAPTION_DEVICE std::uint32_t f16_pair_of_e4m3(std::uint32_t pair) {
  std::uint32_t wide;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(static_cast<std::uint16_t>(pair)));
  return wide;
}
#else
CAPTION_DEVICE std::uint16_t e4m3_pair_of_floats(float, float) {
  __trap();
  return 0;
}
#endif

// c [16, 8] += a [16, 32] * b [32, 8] with e4m3 numbers. Tensor cores of 8.9 keep 13 fractional
// bits of the sum (tests/support/cuda/tensor_core.h). Those of 9.0 multiply e4m3 by wgmma alone, so
// that there the numbers are widened to f16 for two steps of k = 16.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
CAPTION_DEVICE void mma_e4m3(FragmentC& c, const FragmentA8& a, const FragmentB8& b) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    FragmentA wide_a;
    FragmentB wide_b;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int shift = 16 * half;
      wide_a.pair[2 * half] = f16_pair_of_e4m3(a.four[2 * step] >> shift);
      wide_a.pair[2 * half + 1] = f16_pair_of_e4m3(a.four[2 * step + 1] >> shift);
      wide_b.pair[half] = f16_pair_of_e4m3(b.four[step] >> shift);
    }
    mma_f16(c, wide_a, wide_b);
  }
}
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && \
    __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
CAPTION_DEVICE void mma_e4m3(FragmentC& c, const FragmentA8& a, const FragmentB8& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.sum[0]), "+f"(c.sum[1]), "+f"(c.sum[2]), "+f"(c.sum[3])
      : "r"(a.four[0]), "r"(a.four[1]), "r"(a.four[2]), "r"(a.four[3]), "r"(b.four[0]),
        "r"(b.four[1]));
}
#else
CAPTION_DEVICE void mma_e4m3(FragmentC&, const FragmentA8&, const FragmentB8&) { __trap(); }
#endif

// ---- arithmetic ----
// The sums of two pairs of 16-bit numbers, which must be numbers of that type. bf16 needs sm_80, as
// mma_bf16().
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CAPTION_DEVICE std::uint32_t add_bf16_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3F803F80u), "r"(b));  // a * 1
  return sum;
}
#else
CAPTION_DEVICE std::uint32_t add_bf16_pairs(std::uint32_t, std::uint32_t) {
  __trap();
  return 0;
}
#endif
CAPTION_DEVICE std::uint32_t add_f16_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
// The larger number; of a NaN and a number the number, and 0 is larger than -0.
CAPTION_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
// a * b + c, rounded once.
CAPTION_DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
CAPTION_DEVICE double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
CAPTION_DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
CAPTION_DEVICE float square_root(float x) { return __fsqrt_rn(x); }
// To the nearest integer, ties to even; |x| < 2^31.
CAPTION_DEVICE int nearest_integer(float x) { return __float2int_rn(x); }
CAPTION_DEVICE float float_of_bits(std::uint32_t x) { return __uint_as_float(x); }
CAPTION_DEVICE std::uint32_t bits_of_float(float x) { return __float_as_uint(x); }
CAPTION_DEVICE double double_of_bits(std::uint64_t x) {
  return __longlong_as_double(static_cast<long long>(x));
}
// IEEE binary16, to nearest, ties to even; subnormals are kept.
CAPTION_DEVICE std::uint16_t f16_of_float(float x) {
  std::uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
}
// Two numbers to bf16 or f16, to nearest, ties to even, with `low` in the lower half. bf16 needs
// sm_80, as mma_bf16().
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
CAPTION_DEVICE std::uint32_t bf16_pair_of_floats(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
CAPTION_DEVICE std::uint32_t f16_pair_of_floats(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
CAPTION_DEVICE std::uint32_t bf16_pair_of_floats(float, float) {
  __trap();
  return 0;
}
CAPTION_DEVICE std::uint32_t f16_pair_of_floats(float low, float high) {
  return f16_of_float(low) | static_cast<std::uint32_t>(f16_of_float(high)) << 16;
}
#endif
CAPTION_DEVICE float float_of_f16(std::uint16_t half) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
}

}  // namespace caption::kernels::cuda

#endif
