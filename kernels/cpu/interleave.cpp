#include "kernels/cpu/interleave.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/tier.h"
#include "tensor/e4m3.h"

namespace caption::kernels::cpu {
namespace {

// Vectors of the compiler, which every instruction set has.
using Words2 = std::uint16_t __attribute__((vector_size(16)));
using Words4 = std::uint32_t __attribute__((vector_size(16)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));

constexpr std::int64_t kTileBytes = 64;
// The processor's prefetchers follow fewer streams than a panel has rows.
constexpr std::int64_t kPrefetchBytes = 512;

template <class Vector>
Vector load(const std::byte* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
template <class Value>
void store(const Value& value, void* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Transposes a block of as many rows as a vector has words; rows of the result are
// `stride_bytes` apart.
void transpose(const std::array<const std::byte*, 4>& from, Words4 flipped, std::byte* to,
               std::size_t stride_bytes) {
  const auto a = load<Words4>(from[0]) ^ flipped;
  const auto b = load<Words4>(from[1]) ^ flipped;
  const auto c = load<Words4>(from[2]) ^ flipped;
  const auto d = load<Words4>(from[3]) ^ flipped;
  const Words4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Words4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Words4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Words4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + stride_bytes);
  store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * stride_bytes);
  store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * stride_bytes);
}

void transpose(const std::array<const std::byte*, 8>& from, std::byte* to,
               std::size_t stride_bytes) {
  // Three rounds, each of which interleaves the words of rows i and i + 4.
  std::array<Words2, 8> rows;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = load<Words2>(from[i]);
  for (int round = 0; round < 3; ++round) {
    std::array<Words2, 8> next;
    for (std::size_t i = 0; i < 4; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    rows = next;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) store(rows[i], to + i * stride_bytes);
}

alignas(64) constexpr std::array<std::byte, kTileBytes> kZeros{};

// Calls block(from, first word, first row) for the blocks of whole vectors, and single(word, i, r)
// for the words behind them. Rows are read side by side, a tile of each at a time.
template <class Word, std::size_t kRows, class Block, class Single>
void over_blocks(std::span<const std::byte* const> rows, std::int64_t row_bytes, const Block& block,
                 const Single& single) {
  constexpr auto kWordBytes = static_cast<std::int64_t>(sizeof(Word));
  constexpr std::int64_t kBlockBytes = static_cast<std::int64_t>(kRows) * kWordBytes;
  for (std::int64_t tile = 0; tile < row_bytes; tile += kTileBytes) {
    const std::int64_t tile_bytes = std::min(row_bytes - tile, kTileBytes);
    const bool is_far_from_end = tile + kPrefetchBytes < row_bytes;
    for (std::size_t r = 0; r < rows.size(); r += kRows) {
      std::array<const std::byte*, kRows> from;
      for (std::size_t i = 0; i < kRows; ++i) {
        const std::byte* const row = rows[r + i];
        from[i] = row == nullptr ? kZeros.data() : row + tile;
        if (is_far_from_end && row != nullptr) __builtin_prefetch(from[i] + kPrefetchBytes);
      }
      std::int64_t done = 0;
      for (; done + kBlockBytes <= tile_bytes; done += kBlockBytes) {
        block(from, (tile + done) / kWordBytes, r);
        for (const std::byte*& row : from) row += kBlockBytes;
      }
      for (; done < tile_bytes; done += kWordBytes) {
        const std::int64_t bytes = std::min(kWordBytes, tile_bytes - done);
        for (std::size_t i = 0; i < kRows; ++i) {
          Word word = 0;
          std::memcpy(&word, from[i], static_cast<std::size_t>(bytes));
          single(word, (tile + done) / kWordBytes, r + i);
          from[i] += bytes;
        }
      }
    }
  }
}

}  // namespace

void interleave_2(std::span<const std::byte* const> rows, std::int64_t row_bytes, void* to) {
  const std::size_t stride = rows.size();
  const auto at = [&](std::int64_t i, std::size_t r) {
    return static_cast<std::byte*>(to) + (static_cast<std::size_t>(i) * stride + r) * 2;
  };
  over_blocks<std::uint16_t, 8>(
      rows, row_bytes,
      [&](const auto& from, std::int64_t i, std::size_t r) {
        transpose(from, at(i, r), stride * 2);
      },
      [&](std::uint16_t word, std::int64_t i, std::size_t r) { store(word, at(i, r)); });
}

void interleave_4(std::span<const std::byte* const> rows, std::int64_t row_bytes, void* to,
                  std::uint32_t flipped) {
  const std::size_t stride = rows.size();
  const auto at = [&](std::int64_t i, std::size_t r) {
    return static_cast<std::byte*>(to) + (static_cast<std::size_t>(i) * stride + r) * 4;
  };
  const Words4 flips = {flipped, flipped, flipped, flipped};
  over_blocks<std::uint32_t, 4>(
      rows, row_bytes,
      [&](const auto& from, std::int64_t i, std::size_t r) {
        transpose(from, flips, at(i, r), stride * 4);
      },
      [&](std::uint32_t word, std::int64_t i, std::size_t r) { store(word ^ flipped, at(i, r)); });
}

void merge_nibbles(const std::uint8_t* low, const std::uint8_t* high, std::int64_t num_bytes,
                   std::uint8_t* to, bool has_odd_first) {
  constexpr std::int64_t kBytes = sizeof(Bytes);
  std::int64_t i = 0;
  for (; i + kBytes <= num_bytes; i += kBytes) {
    const auto a = load<Bytes>(reinterpret_cast<const std::byte*>(low + i));
    const Bytes b =
        high == nullptr ? Bytes{} : load<Bytes>(reinterpret_cast<const std::byte*>(high + i));
    Bytes even = (a & 15) | (b << 4);
    Bytes odd = (a >> 4) | (b & 240);
    if (has_odd_first) std::swap(even, odd);
    store(
        __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
        to + 2 * i);
    store(__builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                  15, 31),
          to + 2 * i + kBytes);
  }
  for (; i < num_bytes; ++i) {
    const unsigned b = high == nullptr ? 0 : high[i];
    to[2 * i + (has_odd_first ? 1 : 0)] =
        static_cast<std::uint8_t>((low[i] & 15u) | (b & 15u) << 4u);
    to[2 * i + (has_odd_first ? 0 : 1)] = static_cast<std::uint8_t>(low[i] >> 4u | (b & 240u));
  }
}

namespace {

using PanelRows = std::array<const std::byte*, kPanelColumns>;

PanelRows rows_of(const PanelRowsArgs& args) {
  PanelRows rows{};
  for (std::size_t n = 0; n < rows.size(); ++n) {
    rows[n] = reinterpret_cast<const std::byte*>(args.rows[n]);
  }
  return rows;
}

// Codes of 4 bits of a panel: 16 rows of `row_bytes` bytes, each of which holds the codes of one
// column and two features, n and n + 16. Columns that the matrix does not have are zeros.
class MergedRows {
 public:
  MergedRows(const PanelRowsArgs& args, std::int64_t row_bytes)
      : bytes_(static_cast<std::size_t>(kRows * row_bytes)) {
    for (std::int64_t n = 0; n < kRows && args.rows[n] != nullptr; ++n) {
      std::uint8_t* const to = bytes_.data() + n * row_bytes;
      merge_nibbles(args.rows[n], args.rows[n + kRows], divide_up(args.length, 2), to,
                    args.has_odd_first);
      if (args.length % 2 != 0) to[args.length] = 0;
      rows_[static_cast<std::size_t>(n)] = reinterpret_cast<const std::byte*>(to);
    }
  }
  std::span<const std::byte* const> rows() const { return rows_; }

 private:
  static constexpr std::int64_t kRows = kPanelColumns / 2;
  std::vector<std::uint8_t> bytes_;
  std::array<const std::byte*, kRows> rows_{};
};

}  // namespace

void pack_dwords_reference(const PanelRowsArgs& args) {
  interleave_4(rows_of(args), args.length, args.to, args.flipped);
}

void pack_words_reference(const PanelRowsArgs& args) {
  interleave_2(rows_of(args), args.length, args.to);
}

bool pack_e4m3_reference(const PanelRowsArgs& args) {
  pack_words_reference(args);
  bool has_nan = false;
  for (std::int64_t n = 0; n < kPanelColumns && args.rows[n] != nullptr; ++n) {
    has_nan |= std::any_of(args.rows[n], args.rows[n] + args.length, is_nan_e4m3);
  }
  return !has_nan;
}

void pack_nibbles_reference(const PanelRowsArgs& args) {
  const std::int64_t row_bytes = divide_up(args.length, 2) * 2;
  interleave_2(MergedRows(args, row_bytes).rows(), row_bytes, args.to);
}

void pack_nibble_quads_reference(const PanelRowsArgs& args) {
  const std::int64_t row_bytes = divide_up(args.length, 4) * 4;
  interleave_4(MergedRows(args, row_bytes).rows(), row_bytes, args.to);
}

}  // namespace caption::kernels::cpu
