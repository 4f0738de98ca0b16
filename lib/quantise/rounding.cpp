#include "quantise/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "quantise/internal/awq_groups.h"
#include "quantise/internal/gptq_grid.h"
#include "quantise/internal/numbers.h"

namespace caption::quantise {
namespace {

// One group of a row: its numbers, and where its codes go.
struct Group {
  std::span<const float> numbers;
  std::int8_t* codes;
};
struct GroupScale {
  float scale = 0;
  std::uint8_t zero = 0;
};

std::int8_t clamp_code(float code, float low, float high) {
  return static_cast<std::int8_t>(std::clamp(code, low, high));
}

// Calls round_group(Group) for every group of every row. `prepare` may change a row's numbers
// before.
template <class Prepare, class RoundGroup>
RoundedMatrix round_groups(ThreadPool& pool, ConstView matrix, std::int64_t group_columns,
                           const Prepare& prepare, const RoundGroup& round_group) {
  RoundedMatrix rounded{.rows = matrix.dim(0), .columns = matrix.dim(1)};
  rounded.group_columns = group_columns == 0 ? rounded.columns : group_columns;
  const std::int64_t columns = rounded.columns;
  const std::int64_t groups = rounded.groups();
  rounded.codes.resize(static_cast<std::size_t>(rounded.rows * columns));
  rounded.scales.resize(static_cast<std::size_t>(rounded.rows * groups));
  rounded.zeros.resize(rounded.scales.size());
  pool.parallel_for(rounded.rows, row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::int64_t n = begin; n < end; ++n) {
      read_numbers(matrix, n * columns, row);
      prepare(std::span(row));
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t first = g * rounded.group_columns;
        const std::int64_t count = std::min(rounded.group_columns, columns - first);
        const GroupScale scale =
            round_group(Group{std::span<const float>(row).subspan(static_cast<std::size_t>(first),
                                                                  static_cast<std::size_t>(count)),
                              rounded.codes.data() + n * columns + first});
        rounded.scales[static_cast<std::size_t>(n * groups + g)] = scale.scale;
        rounded.zeros[static_cast<std::size_t>(n * groups + g)] = scale.zero;
      }
    }
  });
  return rounded;
}

void leave(std::span<float> /*row*/) {}

GroupScale round_awq_group(const Group& group) {
  const auto [lowest, highest] = std::minmax_element(group.numbers.begin(), group.numbers.end());
  const float min = std::min(*lowest, 0.0F);
  const float max = std::max(*highest, 0.0F);
  const float smallest_range = round_f16(1e-5F);
  const float scale = round_f16(std::max(round_f16(max - min), smallest_range) / 15.0F);
  const float zero = std::clamp(-std::nearbyint(round_f16(min / scale)), 0.0F, 15.0F);
  for (std::size_t k = 0; k < group.numbers.size(); ++k) {
    const float code = std::nearbyint(round_f16(group.numbers[k] / scale)) + zero;
    group.codes[k] = clamp_code(code, 0, 15);
  }
  return {.scale = scale, .zero = static_cast<std::uint8_t>(zero)};
}

}  // namespace

RoundedMatrix round_llm_int8(ThreadPool& pool, ConstView matrix) {
  RoundedMatrix rounded =
      round_groups(pool, matrix, 0, round_to_f16, [](const Group& group) -> GroupScale {
        const float scale = largest_magnitude(group.numbers);
        // The library divides so: torch multiplies by a reciprocal.
        const float factor = scale == 0 ? 0 : 1.0F / scale * 127.0F;
        for (std::size_t k = 0; k < group.numbers.size(); ++k) {
          group.codes[k] = clamp_code(std::nearbyint(group.numbers[k] * factor), -127, 127);
        }
        return {.scale = scale};
      });
  rounded.zeros.clear();
  return rounded;
}

RoundedMatrix round_symmetric(ThreadPool& pool, ConstView matrix, int bits,
                              std::int64_t group_columns) {
  const auto codes = static_cast<float>((1 << bits) - 1);  // steps from the lowest to the highest
  const float low = -static_cast<float>(1 << (bits - 1));
  constexpr float kSmallestScale = 0x1p-23F;
  RoundedMatrix rounded =
      round_groups(pool, matrix, group_columns, leave, [&](const Group& group) -> GroupScale {
        const float exact =
            std::max(largest_magnitude(group.numbers) / (codes / 2), kSmallestScale);
        const float scale = dispatch_float(
            matrix.dtype(), [&](auto tag) { return to_float(from_float<decltype(tag)>(exact)); });
        for (std::size_t k = 0; k < group.numbers.size(); ++k) {
          const float code = std::clamp(group.numbers[k] / scale, low, -low - 1);
          group.codes[k] = static_cast<std::int8_t>(std::nearbyint(code));
        }
        return {.scale = scale};
      });
  rounded.zeros.clear();
  return rounded;
}

RoundedMatrix round_awq(ThreadPool& pool, ConstView matrix, std::int64_t group_columns) {
  return round_groups(pool, matrix, group_columns, round_to_f16, round_awq_group);
}

RoundedMatrix round_gptq(ThreadPool& pool, ConstView matrix, std::int64_t group_columns,
                         bool symmetric) {
  return round_groups(pool, matrix, group_columns, leave, [&](const Group& group) -> GroupScale {
    const auto [min, max] = std::minmax_element(group.numbers.begin(), group.numbers.end());
    const GptqGrid grid = find_gptq_grid(*min, *max, symmetric);
    for (std::size_t k = 0; k < group.numbers.size(); ++k) {
      group.codes[k] = static_cast<std::int8_t>(grid.code(group.numbers[k]));
    }
    return {.scale = grid.scale, .zero = static_cast<std::uint8_t>(grid.zero)};
  });
}

}  // namespace caption::quantise
