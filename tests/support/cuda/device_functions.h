// tests/support/cuda/device_functions.h: the functions of kernels/cuda/primitives.cuh on the
// emulator; included by that file only, which says what they do.
//
// They are not instrumented: each tells the emulator what it accesses. The parameters `place` are
// where the kernel calls.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <source_location>

#include "kernels/cuda/primitives.cuh"
#include "tensor/dtype.h"
#include "tensor/e4m3.h"

namespace caption::cuda_emulator {

std::byte* shared_memory_begin();
// One access of a thread, of 1, 2, 4, 8 or 16 bytes.
void load_bytes(void* to, const void* from, std::size_t size_bytes);
void store_bytes(void* to, const void* from, std::size_t size_bytes);
void wait_copies(std::size_t groups_left);

}  // namespace caption::cuda_emulator

namespace caption::kernels::cuda {

using Place = std::source_location;

int thread_index();
int lane_index();
int warp_index();
int block_x();
int block_y();
int block_z();
int grid_x();

template <class Shared>
Shared& shared_memory() {
  return *reinterpret_cast<Shared*>(cuda_emulator::shared_memory_begin());
}

void sync_block(Place place = Place::current());
void sync_warp(Place place = Place::current());
float shuffle_xor(float x, int mask, Place place = Place::current());
std::uint32_t shuffle(std::uint32_t x, int lane, Place place = Place::current());
std::uint32_t vote(bool x, Place place = Place::current());

template <class T>
[[gnu::always_inline]] inline T load(const T* from) {
  static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0);
  T x;
  cuda_emulator::load_bytes(&x, from, sizeof x);
  return x;
}
template <class T>
[[gnu::always_inline]] inline void store(T* to, const T& x) {
  static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0);
  cuda_emulator::store_bytes(to, &x, sizeof x);
}
std::uint32_t atomic_add(std::uint32_t* to, std::uint32_t x);
void atomic_or(std::uint32_t* to, std::uint32_t x);
std::uint32_t arrive(std::uint32_t* counter);
void wait_for_launches_before(Place place = Place::current());
[[gnu::always_inline]] inline Bytes16 load_once(const Bytes16* from) { return load(from); }

void copy_16_async(void* to, const void* from, bool is_inside);
template <std::size_t kCopies>
void copy_16_async(const Copy16 (&copies)[kCopies]) {
  for (const Copy16& c : copies) {
    if (c.to != nullptr) copy_16_async(c.to, c.from, c.is_inside);
  }
}
void commit_copies();
template <int kGroupsLeft>
void wait_copies() {
  cuda_emulator::wait_copies(kGroupsLeft);
}

FragmentA ldmatrix_x4(const void* row, Place place = Place::current());
FragmentA ldmatrix_x4_trans(const void* row, Place place = Place::current());
void mma_bf16(FragmentC& c, const FragmentA& a, const FragmentB& b, Place place = Place::current());
void mma_f16(FragmentC& c, const FragmentA& a, const FragmentB& b, Place place = Place::current());
void mma_s8(FragmentC32& c, const FragmentA8& a, const FragmentB8& b,
            Place place = Place::current());
// As the emulated tensor cores sum: those of kAmpere as 8.9's, those of kHopper in two steps.
void mma_e4m3(FragmentC& c, const FragmentA8& a, const FragmentB8& b,
              Place place = Place::current());
inline std::uint16_t e4m3_pair_of_floats(float low, float high) {
  return static_cast<std::uint16_t>(to_e4m3(low) | to_e4m3(high) << 8);
}

// Sums that are no numbers of the type give halves that no test expects.
std::uint32_t add_bf16_pairs(std::uint32_t a, std::uint32_t b);
std::uint32_t add_f16_pairs(std::uint32_t a, std::uint32_t b);

inline float larger(float a, float b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::isnan(b) || a > b ? a : b;
}
inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
inline float divide(float a, float b) { return a / b; }
inline float square_root(float x) { return std::sqrt(x); }
// Beyond the contract, and of a NaN, a number that no test expects.
inline int nearest_integer(float x) {
  return std::abs(x) < 0x1p31F ? static_cast<int>(std::nearbyint(x)) : 0x55555555;
}
inline float float_of_bits(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t bits_of_float(float x) { return std::bit_cast<std::uint32_t>(x); }
inline double double_of_bits(std::uint64_t x) { return std::bit_cast<double>(x); }
inline std::uint16_t f16_of_float(float x) { return to_f16(x).bits; }
inline std::uint32_t bf16_pair_of_floats(float low, float high) {
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16;
}
inline std::uint32_t f16_pair_of_floats(float low, float high) {
  return to_f16(low).bits | static_cast<std::uint32_t>(to_f16(high).bits) << 16;
}
inline float float_of_f16(std::uint16_t half) { return to_float(F16{half}); }

}  // namespace caption::kernels::cuda
