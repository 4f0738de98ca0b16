#include "model/internal/mrope.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/mend_advice.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMaxTime = std::int64_t{1} << 30;

// The position in time of the last image of a block whose first has the position `first`.
std::int64_t last_time_of(const VisionGrid& grid, std::int64_t first) {
  const std::int64_t last_time = first + (grid.images - 1) * grid.time_step;
  if (last_time > kMaxTime) {
    throw Error(ErrorCode::kTooLarge,
                "the frames of the clip are too far apart: the last of them "
                "would have the position " +
                    std::to_string(last_time));
  }
  return last_time;
}

}  // namespace

std::vector<std::int32_t> mrope_positions(const PromptIds& prompt,
                                          std::span<const VisionGrid> blocks) {
  const std::size_t count = prompt.ids.size();
  std::vector<std::int32_t> positions(3 * count);
  const auto set = [&](std::size_t index, std::int64_t time, std::int64_t height,
                       std::int64_t width) {
    positions[index] = static_cast<std::int32_t>(time);
    positions[count + index] = static_cast<std::int32_t>(height);
    positions[2 * count + index] = static_cast<std::int32_t>(width);
  };
  std::int64_t next = 0;
  std::size_t vision = 0;
  auto block = blocks.begin();
  for (std::size_t index = 0; index < count;) {
    const bool is_vision = vision < prompt.vision_positions.size() &&
                           static_cast<std::size_t>(prompt.vision_positions[vision]) == index;
    if (!is_vision) {
      set(index++, next, next, next);
      ++next;
      continue;
    }
    CAPTION_CHECK(block != blocks.end(), "more vision tokens than their blocks have");
    const VisionGrid& grid = *block++;
    const std::int64_t last_time = last_time_of(grid, next);
    for (std::int64_t image = 0; image < grid.images; ++image) {
      const std::int64_t time = next + image * grid.time_step;
      for (std::int64_t row = 0; row < grid.rows; ++row) {
        for (std::int64_t column = 0; column < grid.columns; ++column) {
          CAPTION_CHECK(index < count, "fewer vision tokens than their blocks have");
          set(index++, time, next + row, next + column);
        }
      }
    }
    vision += static_cast<std::size_t>(grid.images * grid.rows * grid.columns);
    next = std::max({last_time + 1, next + grid.rows, next + grid.columns});
  }
  CAPTION_CHECK(block == blocks.end() && vision == prompt.vision_positions.size(),
                "vision tokens that do not fill their blocks");
  return positions;
}

std::array<std::int64_t, 3> parse_mrope_section(const JsonObject& config, std::int64_t head_dim,
                                                const std::array<std::int64_t, 3>& fallback) {
  auto scaling = config.get_object("rope_parameters");
  if (!scaling) scaling = config.get_object("rope_scaling");
  std::vector<std::int64_t> section;
  if (scaling) section = scaling->get_ints("mrope_section");
  if (section.empty()) section.assign(fallback.begin(), fallback.end());
  const bool is_bounded = std::all_of(section.begin(), section.end(), [&](std::int64_t size) {
    return size > 0 && size <= head_dim;
  });
  const bool is_good =
      section.size() == 3 && is_bounded && section[0] + section[1] + section[2] == head_dim / 2;
  if (!is_good) {
    std::string found;
    for (const std::int64_t size : section)
      found += (found.empty() ? "" : ", ") + std::to_string(size);
    fail_bad_file(config.name() + ": mrope_section must be three positive numbers with the sum " +
                  std::to_string(head_dim / 2) + ", half of head_dim; found " + found);
  }
  return {section[0], section[1], section[2]};
}

}  // namespace caption::model
