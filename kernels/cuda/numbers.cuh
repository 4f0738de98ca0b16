// kernels/cuda/numbers.cuh: numbers of f32, bf16 and f16 in device memory, read and written as f32,
// and the places of vectors in strided views.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives.cuh"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace caption::kernels::cuda {

// kCount adjacent elements that one instruction moves.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Packed {
  T x[kCount];
};

CAPTION_DEVICE float widen(float x) { return x; }
CAPTION_DEVICE float widen(BF16 x) {
  return float_of_bits(static_cast<std::uint32_t>(x.bits) << 16);
}
CAPTION_DEVICE float widen(F16 x) { return float_of_f16(x.bits); }

// Rounds to nearest, ties to even.
CAPTION_DEVICE void narrow(float x, float& to) { to = x; }
CAPTION_DEVICE void narrow(float x, F16& to) { to.bits = f16_of_float(x); }
CAPTION_DEVICE void narrow(float x, BF16& to) {
  const std::uint32_t bits = bits_of_float(x);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const std::uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7FFFu + ((bits >> 16) & 1u);
  to.bits = static_cast<std::uint16_t>(rounded >> 16);
}

// The dtype is f32, bf16 or f16. It is the same for all threads of a launch, so that a branch on it
// costs two instructions and spares a kernel per combination of dtypes.
struct ConstNumbers {
  const void* begin;
  DType dtype;
};
struct Numbers {
  void* begin;
  DType dtype;
};

template <class T, int kCount>
CAPTION_DEVICE Packed<float, kCount> load_widened(const void* begin, std::int64_t first) {
  const auto* const from = static_cast<const T*>(begin) + first;
  const auto packed = load(reinterpret_cast<const Packed<T, kCount>*>(from));
  Packed<float, kCount> wide;
  for (int i = 0; i < kCount; ++i) wide.x[i] = widen(packed.x[i]);
  return wide;
}

// The elements [first, first + kCount); the address of the first is a multiple of their size.
template <int kCount>
CAPTION_DEVICE Packed<float, kCount> load_numbers(ConstNumbers from, std::int64_t first) {
  if (from.dtype == DType::kF32) return load_widened<float, kCount>(from.begin, first);
  if (from.dtype == DType::kBF16) return load_widened<BF16, kCount>(from.begin, first);
  return load_widened<F16, kCount>(from.begin, first);
}

template <class T, int kCount>
CAPTION_DEVICE void store_narrowed(void* begin, std::int64_t first,
                                   const Packed<float, kCount>& wide) {
  Packed<T, kCount> packed;
  for (int i = 0; i < kCount; ++i) narrow(wide.x[i], packed.x[i]);
  store(reinterpret_cast<Packed<T, kCount>*>(static_cast<T*>(begin) + first), packed);
}

template <int kCount>
CAPTION_DEVICE void store_numbers(Numbers to, std::int64_t first,
                                  const Packed<float, kCount>& wide) {
  if (to.dtype == DType::kF32) return store_narrowed<float>(to.begin, first, wide);
  if (to.dtype == DType::kBF16) return store_narrowed<BF16>(to.begin, first, wide);
  return store_narrowed<F16>(to.begin, first, wide);
}

inline ConstNumbers numbers_of(ConstView view) { return {view.raw(), view.dtype()}; }
inline Numbers numbers_of(View view) { return {view.raw(), view.dtype()}; }

// The vectors along the last axis of a view of rank 2 or more, numbered from 0.
struct Vectors {
  std::int64_t row_stride;  // elements between rows of the first axis
  int per_row;              // vectors in a row of the first axis
  int dim;                  // elements of a vector

  // The first element of a vector.
  CAPTION_DEVICE std::int64_t offset(int vector) const {
    return vector / per_row * row_stride + static_cast<std::int64_t>(vector % per_row) * dim;
  }
};

inline Vectors vectors_of(ConstView view) {
  std::int64_t per_row = 1;
  for (int axis = 1; axis + 1 < view.shape().rank(); ++axis) per_row *= view.dim(axis);
  return {.row_stride = view.row_stride(),
          .per_row = static_cast<int>(per_row),
          .dim = static_cast<int>(view.dim(-1))};
}

inline unsigned count_vectors(ConstView view) {
  return static_cast<unsigned>(view.dim(0) * vectors_of(view).per_row);
}

// Whether `count` adjacent elements of a vector can be moved at once from every multiple of
// `count`.
inline bool allows_packs(ConstView view, std::int64_t count) {
  const auto pack_bytes = static_cast<std::uintptr_t>(count) * dtype_size_bytes(view.dtype());
  const bool has_rows = view.shape().rank() > 1;
  return reinterpret_cast<std::uintptr_t>(view.raw()) % pack_bytes == 0 &&
         view.dim(-1) % count == 0 && (!has_rows || view.row_stride() % count == 0);
}

}  // namespace caption::kernels::cuda
