// tensor/dtype.h: element types and their conversions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace caption {

enum class DType : std::uint8_t { kF32, kBF16, kF16, kI8, kU8, kI32, kI64 };

constexpr std::size_t dtype_size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kF16: return 2;
    case DType::kI8:
    case DType::kU8: return 1;
    case DType::kI64: return 8;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kI8: return "i8";
    case DType::kU8: return "u8";
    case DType::kI32: return "i32";
    case DType::kI64: return "i64";
  }
  return "?";
}

// bfloat16: the upper half of a binary32. Conversion rounds to nearest even; NaN stays NaN.
struct BF16 {
  std::uint16_t bits = 0;
};

// IEEE 754 binary16, subnormals included.
struct F16 {
  std::uint16_t bits = 0;
};

inline float to_float(float x) { return x; }

inline float to_float(std::int8_t x) { return static_cast<float>(x); }

inline float to_float(BF16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

inline float to_float(F16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = x.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

// Returns the smallest BF16 that is >= x, for x >= 0: infinity above the largest BF16; NaN stays
// NaN.
inline BF16 to_bf16_upwards(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (bits > 0x7F800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0xFFFFu) >> 16)};
}

inline BF16 to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // quiet NaN
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

F16 to_f16(float x);

template <class T>
T from_float(float x);
template <>
inline float from_float<float>(float x) {
  return x;
}
template <>
inline BF16 from_float<BF16>(float x) {
  return to_bf16(x);
}
template <>
inline F16 from_float<F16>(float x) {
  return to_f16(x);
}

template <class T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<BF16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<std::int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kI64;

// Calls work(T{}) with T = float, BF16 or F16; throws Error(kInternal) for another dtype.
[[noreturn]] void throw_not_floating(DType dtype);
template <class Work>
decltype(auto) dispatch_float(DType dtype, Work&& work) {
  switch (dtype) {
    case DType::kF32: return work(float{});
    case DType::kBF16: return work(BF16{});
    case DType::kF16: return work(F16{});
    default: throw_not_floating(dtype);
  }
}

}  // namespace caption
