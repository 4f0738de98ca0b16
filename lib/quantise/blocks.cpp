#include "quantise/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>

#include "base/math.h"
#include "quantise/internal/numbers.h"
#include "weights/quantise.h"

namespace caption::quantise {
namespace {

// The codes in the order of their values; the first of the two zeros of fp4 is lower, as in the
// library's sorted table.
constexpr std::array<std::uint8_t, 16> kNf4Order = {0, 1, 2,  3,  4,  5,  6,  7,
                                                    8, 9, 10, 11, 12, 13, 14, 15};
constexpr std::array<std::uint8_t, 16> kFp4Order = {11, 10, 13, 12, 15, 14, 9, 0,
                                                    8,  1,  6,  7,  4,  5,  2, 3};

// A block whose largest number is below this one is divided by it.
constexpr float kSmallestAbsmax = 1e-38F;

struct Rounding {
  std::array<float, 15> midpoints{};
  std::array<std::uint8_t, 16> order{};

  // Sets the codes of a block, in one loop over it for each midpoint, which compilers vectorise.
  void set_codes(const std::array<float, kBlock>& values,
                 std::array<std::uint8_t, kBlock>& codes) const {
    std::array<std::int32_t, kBlock> below{};
    for (const float midpoint : midpoints) {
      for (std::size_t i = 0; i < values.size(); ++i) below[i] += midpoint < values[i] ? 1 : 0;
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = order[static_cast<std::size_t>(below[i])];
    }
  }
};

Rounding rounding_of(BlockTable table) {
  Rounding rounding{.order = table == BlockTable::kNf4 ? kNf4Order : kFp4Order};
  const std::array<float, 16>& values = table_of(table);
  for (std::size_t i = 0; i < rounding.midpoints.size(); ++i) {
    rounding.midpoints[i] = (values[rounding.order[i]] + values[rounding.order[i + 1]]) / 2;
  }
  return rounding;
}

// Divides the numbers of a block by the largest magnitude of them, which it returns.
float normalise(std::span<float> block, std::int64_t whole_block) {
  float largest = 0;
  for (const float number : block) largest = std::max(largest, std::abs(number));
  const float divisor = std::max(largest, kSmallestAbsmax);
  const bool is_whole = std::ssize(block) == whole_block;
  const float reciprocal = 1.0F / divisor;
  for (float& number : block) {
    number = std::clamp(is_whole ? number * reciprocal : number / divisor, -1.0F, 1.0F);
  }
  return is_whole ? largest : divisor;
}

}  // namespace

const std::array<float, 16>& table_of(BlockTable table) {
  return table == BlockTable::kNf4 ? weights::nf4_codebook() : weights::fp4_codebook();
}

BlockCodes round_to_blocks(ThreadPool& pool, ConstView matrix, BlockTable table) {
  const std::int64_t count = matrix.num_elements();
  const std::int64_t blocks = divide_up(count, kBlock);
  const Rounding rounding = rounding_of(table);
  BlockCodes result;
  result.codes.resize(static_cast<std::size_t>(divide_up(count, 2)));
  result.absmax.resize(static_cast<std::size_t>(blocks));
  pool.parallel_for(blocks, row_grain(kBlock), [&](std::int64_t begin, std::int64_t end) {
    std::array<float, kBlock> numbers{};
    std::array<std::uint8_t, kBlock> found{};
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * kBlock;
      const auto size = static_cast<std::size_t>(std::min(kBlock, count - first));
      const std::span<float> block = std::span(numbers).first(size);
      read_numbers(matrix, first, block);
      result.absmax[static_cast<std::size_t>(b)] = normalise(block, kBlock);
      // The low half after the last of an odd number of numbers is the code of 0.
      std::fill(numbers.begin() + static_cast<std::ptrdiff_t>(size), numbers.end(), 0.0F);
      rounding.set_codes(numbers, found);
      std::uint8_t* const codes = result.codes.data() + first / 2;
      for (std::size_t i = 0; i < size; i += 2) {
        codes[i / 2] = static_cast<std::uint8_t>(unsigned{found[i]} << 4u | found[i + 1]);
      }
    }
  });
  return result;
}

float mean_of(const std::vector<float>& absmax) {
  const double sum = std::accumulate(absmax.begin(), absmax.end(), 0.0);
  return static_cast<float>(sum / static_cast<double>(absmax.size()));
}

NestedScales nest_scales(const std::vector<float>& absmax, float offset) {
  const std::array<float, 256>& map = weights::dynamic_codebook();
  std::array<float, 255> midpoints{};
  for (std::size_t i = 0; i < midpoints.size(); ++i) midpoints[i] = (map[i] + map[i + 1]) / 2;
  NestedScales nested{.codes = {}, .absmax = {}, .offset = offset};
  std::vector<float> block;
  for (std::size_t first = 0; first < absmax.size(); first += kNestedBlock) {
    const std::size_t end = std::min(absmax.size(), first + kNestedBlock);
    block.clear();
    for (std::size_t i = first; i < end; ++i) block.push_back(absmax[i] - offset);
    nested.absmax.push_back(normalise(block, kNestedBlock));
    for (const float value : block) {
      const auto* const at = std::lower_bound(midpoints.begin(), midpoints.end(), value);
      nested.codes.push_back(static_cast<std::uint8_t>(at - midpoints.begin()));
    }
  }
  return nested;
}

}  // namespace caption::quantise
