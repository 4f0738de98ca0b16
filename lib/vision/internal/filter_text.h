// vision/internal/filter_text.h: the implementation of FilterLoops for vector registers of
// kRegisterBytes, which the including file defines.
//
// It uses the vector extensions of GCC and clang: +, * and >> act on each lane. Everything is in an
// unnamed namespace, so that each tier's file compiles a separate copy.
// NOLINTBEGIN(misc-definitions-in-headers)
#pragma once

#include "vision/internal/filter_loops.h"

namespace caption::vision::internal {
namespace {

// These are not templates of the register size: GCC 12 would not treat such types as vectors.
using Ints = std::int32_t __attribute__((vector_size(kRegisterBytes)));
using Bytes = std::uint8_t __attribute__((vector_size(kRegisterBytes / 4)));
constexpr int kLanes = kRegisterBytes / 4;

Ints load(const std::int32_t* x) {
  Ints ints;
  __builtin_memcpy(&ints, x, sizeof ints);
  return ints;
}

void store_rounded(Ints sums, int bits, std::uint8_t* y) {
  const Ints lowest = Ints{}, highest = Ints{} + 255;
  sums = sums >> bits;
  sums = sums < lowest ? lowest : sums;
  sums = sums > highest ? highest : sums;
  const Bytes bytes = __builtin_convertvector(sums, Bytes);
  __builtin_memcpy(y, &bytes, sizeof bytes);
}

void filter_columns(const AxisTaps& taps, const std::int32_t* in, int begin_in, std::uint8_t* out) {
  constexpr std::int64_t kPixelLanes = kChannels * kStripRows;
  const int bits = taps.precision_bits;
  const Ints half = Ints{} + (1 << (bits - 1));
  for (std::int64_t x = 0; x < taps.num_out; ++x, out += kPixelLanes) {
    const std::int16_t* const weights = taps.weights + x * taps.max_taps;
    const std::int32_t* const first = in + (taps.first_in[x] - begin_in) * kPixelLanes;
    for (int lane = 0; lane < kStripRows; lane += kLanes) {
      Ints red = half, green = half, blue = half;
      const std::int32_t* pixel = first + lane;
      for (int t = 0; t < taps.num_taps[x]; ++t, pixel += kPixelLanes) {
        const Ints weight = Ints{} + weights[t];
        red += weight * load(pixel);
        green += weight * load(pixel + kStripRows);
        blue += weight * load(pixel + 2 * kStripRows);
      }
      store_rounded(red, bits, out + lane);
      store_rounded(green, bits, out + lane + kStripRows);
      store_rounded(blue, bits, out + lane + 2 * kStripRows);
    }
  }
}

// Plain loops, which compilers vectorise here because the bytes are contiguous. Rows are processed
// in chunks whose sums fit the L1 cache.
void filter_rows(const AxisTaps& taps, const std::uint8_t* in, int begin_in, std::int64_t row_bytes,
                 std::uint8_t* out) {
  constexpr std::int64_t kChunk = 512;
  const int bits = taps.precision_bits;
  std::int32_t sums[kChunk];
  for (std::int64_t y = 0; y < taps.num_out; ++y) {
    const std::int16_t* const weights = taps.weights + y * taps.max_taps;
    const std::uint8_t* const first = in + (taps.first_in[y] - begin_in) * row_bytes;
    for (std::int64_t begin = 0; begin < row_bytes; begin += kChunk) {
      const std::int64_t size = begin + kChunk < row_bytes ? kChunk : row_bytes - begin;
      for (std::int64_t i = 0; i < size; ++i) sums[i] = 1 << (bits - 1);
      const std::uint8_t* row = first + begin;
      for (int t = 0; t < taps.num_taps[y]; ++t, row += row_bytes) {
        const std::int32_t weight = weights[t];
        for (std::int64_t i = 0; i < size; ++i) sums[i] += weight * row[i];
      }
      std::uint8_t* const to = out + y * row_bytes + begin;
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int32_t value = sums[i] >> bits;
        to[i] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
      }
    }
  }
}

constexpr FilterLoops kFilterLoops = {filter_columns, filter_rows};

}  // namespace
}  // namespace caption::vision::internal
// NOLINTEND(misc-definitions-in-headers)
