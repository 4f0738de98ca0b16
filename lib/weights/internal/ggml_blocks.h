// weights/internal/ggml_blocks.h: the codes, scales and offsets of GGUF's blocks (ggml_type.h).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "tensor/dtype.h"

namespace caption::weights {

constexpr std::int64_t kMaxBlock = 256;

// The codes of a block with the scale and the offset of each group of them.
struct Block {
  std::array<std::int8_t, kMaxBlock> codes;
  std::array<float, 16> scales;
  std::array<float, 16> offsets;
  // Where scales and offsets are integers times F16 numbers: these numbers.
  float scale_unit;
  float offset_unit;
};

inline float half_at(const std::uint8_t* bytes) {
  return to_float(F16{static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8)});
}

// Vectors of the compiler, which every instruction set has.
using Words = std::uint16_t __attribute__((vector_size(16)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));
using FourBytes = std::uint8_t __attribute__((vector_size(4)));
using FourInts = std::int32_t __attribute__((vector_size(16)));
using FourNumbers = float __attribute__((vector_size(16)));
constexpr std::int64_t kVectorBytes = sizeof(Bytes);

inline Bytes load_bytes(const std::uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}

inline void store_codes(Bytes codes, std::int8_t* to) { std::memcpy(to, &codes, sizeof(codes)); }

// Writes the low and then the high nibbles of `count` bytes.
inline void split_nibbles(const std::uint8_t* bytes, std::int64_t count, std::int8_t* codes) {
  for (std::int64_t i = 0; i < count; i += kVectorBytes) {
    const Bytes both = load_bytes(bytes + i);
    store_codes(both & 15, codes + i);
    store_codes(both >> 4, codes + count + i);
  }
}

// The low and the high nibbles of neighbouring bytes, two to a byte: in the low bytes of words.
struct NibblePairs {
  explicit NibblePairs(const std::uint8_t* bytes) {
    static_assert(std::endian::native == std::endian::little);
    Words words;
    std::memcpy(&words, bytes, sizeof(words));
    low = reinterpret_cast<Bytes>((words & 0x0F) | ((words >> 4) & 0xF0));
    high = reinterpret_cast<Bytes>(((words >> 4) & 0x0F) | ((words >> 8) & 0xF0));
  }
  Bytes low, high;
};

// Writes the low bytes of the words of `a` and `b`.
inline void store_low_bytes(Bytes a, Bytes b, std::uint8_t* to) {
  const Bytes bytes =
      __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  std::memcpy(to, &bytes, sizeof(bytes));
}

// The low nibbles of 16 or 32 bytes are the first codes, the high ones those that follow. Writes
// the codes two to a byte, the even one in the low half.
inline void pair_nibbles_16(const std::uint8_t* bytes, std::uint8_t* to) {
  const NibblePairs pairs(bytes);
  store_low_bytes(pairs.low, pairs.high, to);
}
inline void pair_nibbles_32(const std::uint8_t* bytes, std::uint8_t* to) {
  const NibblePairs first(bytes);
  const NibblePairs last(bytes + 16);
  store_low_bytes(first.low, last.low, to);
  store_low_bytes(first.high, last.high, to + 16);
}

inline void read_scale(const std::uint8_t* bytes, Block* block) {
  block->scales[0] = half_at(bytes);
}

inline void read_scale_and_offset(const std::uint8_t* bytes, Block* block) {
  block->scales[0] = half_at(bytes);
  block->offsets[0] = half_at(bytes + 2);
}

inline void unpack_q8_0(const std::uint8_t* bytes, Block* block) {
  block->scales[0] = half_at(bytes);
  std::memcpy(block->codes.data(), bytes + 2, 32);
}

// Q4_0 and IQ4_NL.
inline void unpack_4_bit(const std::uint8_t* bytes, Block* block) {
  read_scale(bytes, block);
  split_nibbles(bytes + 2, 16, block->codes.data());
}

inline void unpack_q4_1(const std::uint8_t* bytes, Block* block) {
  read_scale_and_offset(bytes, block);
  split_nibbles(bytes + 4, 16, block->codes.data());
}

// Adds bit i of the 32 bits at `bytes` to code i, as its bit 4.
inline void add_fifth_bits(const std::uint8_t* bytes, std::int8_t* codes) {
  constexpr Bytes kBits = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  for (std::int64_t i = 0; i < 32; i += kVectorBytes) {
    Bytes two{};
    std::memcpy(&two, bytes + i / 8, 2);
    const Bytes spread =
        __builtin_shufflevector(two, two, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const auto is_set = reinterpret_cast<Bytes>((spread & kBits) == kBits);
    Bytes fours;
    std::memcpy(&fours, codes + i, sizeof(fours));
    store_codes(fours | (is_set & 16), codes + i);
  }
}

inline void unpack_q5_0(const std::uint8_t* bytes, Block* block) {
  block->scales[0] = half_at(bytes);
  split_nibbles(bytes + 6, 16, block->codes.data());
  add_fifth_bits(bytes + 2, block->codes.data());
  for (std::int8_t& code : std::span(block->codes).first<32>()) {
    code = static_cast<std::int8_t>(code - 16);
  }
}

inline void unpack_q5_1(const std::uint8_t* bytes, Block* block) {
  block->scales[0] = half_at(bytes);
  block->offsets[0] = half_at(bytes + 2);
  split_nibbles(bytes + 8, 16, block->codes.data());
  add_fifth_bits(bytes + 4, block->codes.data());
}

// Sets the scales and offsets of the 8 groups of a Q4_K or Q5_K block, which starts with d, dmin
// and 12 bytes of integers of 6 bits: those of groups 0 to 3 are the low bits of bytes 0 to 3
// (scales) and 4 to 7 (offsets); those of groups 4 to 7 have their low 4 bits in bytes 8 to 11 and
// their high 2 bits above the ones of groups 0 to 3.
inline void unpack_k_scales(const std::uint8_t* bytes, Block* block) {
  const float d = half_at(bytes);
  const float dmin = half_at(bytes + 2);
  std::array<std::uint32_t, 3> words;  // four groups side by side
  std::memcpy(words.data(), bytes + 4, sizeof(words));
  constexpr std::uint32_t kSixBits = 0x3f3f3f3f;
  constexpr std::uint32_t kFourBits = 0x0f0f0f0f;
  constexpr std::uint32_t kHighBits = 0x30303030;
  const auto multiply = [](float unit, std::uint32_t integers, float* to) {
    const auto ints = __builtin_convertvector(std::bit_cast<FourBytes>(integers), FourInts);
    const FourNumbers products = unit * __builtin_convertvector(ints, FourNumbers);
    std::memcpy(to, &products, sizeof(products));
  };
  float* const scales = block->scales.data();
  float* const offsets = block->offsets.data();
  block->scale_unit = d;
  block->offset_unit = -dmin;
  multiply(d, words[0] & kSixBits, scales);
  multiply(d, (words[2] & kFourBits) | (words[0] >> 2 & kHighBits), scales + 4);
  multiply(-dmin, words[1] & kSixBits, offsets);
  multiply(-dmin, (words[2] >> 4 & kFourBits) | (words[1] >> 2 & kHighBits), offsets + 4);
}

inline void unpack_q4_k(const std::uint8_t* bytes, Block* block) {
  unpack_k_scales(bytes, block);
  for (std::int64_t chunk = 0; chunk < 4; ++chunk) {
    split_nibbles(bytes + 16 + 32 * chunk, 32, block->codes.data() + 64 * chunk);
  }
}

inline void unpack_q5_k(const std::uint8_t* bytes, Block* block) {
  unpack_k_scales(bytes, block);
  for (std::int64_t i = 0; i < 32; i += kVectorBytes) {
    Bytes high = load_bytes(bytes + 16 + i);  // bit g is that of group g
    for (std::int64_t chunk = 0; chunk < 4; ++chunk, high >>= 2) {
      const Bytes both = load_bytes(bytes + 48 + 32 * chunk + i);
      std::int8_t* const codes = block->codes.data() + 64 * chunk + i;
      store_codes((both & 15) | (high & 1) << 4, codes);
      store_codes(both >> 4 | (high & 2) << 3, codes + 32);
    }
  }
}

// The low 4 bits of a half block of 128 codes are two runs of 64 nibbles, low ones first; bits 4
// and 5 are in 32 bytes, two bits for each quarter of 32 codes.
inline void unpack_q6_k(const std::uint8_t* bytes, Block* block) {
  const float d = half_at(bytes + 208);
  block->scale_unit = d;
  for (std::int64_t g = 0; g < 16; ++g) {
    block->scales[g] = d * static_cast<float>(static_cast<std::int8_t>(bytes[192 + g]));
  }
  for (std::int64_t half = 0; half < 2; ++half) {
    for (std::int64_t i = 0; i < 32; i += kVectorBytes) {
      const Bytes first = load_bytes(bytes + 64 * half + i);
      const Bytes last = load_bytes(bytes + 64 * half + 32 + i);
      const Bytes high = load_bytes(bytes + 128 + 32 * half + i);
      std::int8_t* const codes = block->codes.data() + 128 * half + i;
      store_codes(((first & 15) | (high & 3) << 4) - 32, codes);
      store_codes(((last & 15) | (high & 12) << 2) - 32, codes + 32);
      store_codes((first >> 4 | (high & 48)) - 32, codes + 64);
      store_codes((last >> 4 | (high >> 6) << 4) - 32, codes + 96);
    }
  }
}

}  // namespace caption::weights
