#include "drafts/internal/copied_text.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace caption::drafts {
namespace {

// Guess::match_length of a copy: one for each class of Acceptance, the longer, the more alike two
// things look. A class is as wide as a factor of 4 in the square of the distance.
std::int32_t match_length_of(float squared_distance) {
  constexpr std::array<std::int32_t, 7> kLengths = {20, 12, 8, 5, 3, 2, 1};
  constexpr float kFactor = 4;
  float bound = 0x1.0p-12F;
  std::size_t index = 0;
  for (; index + 1 < kLengths.size() && squared_distance >= bound; ++index) bound *= kFactor;
  return kLengths[index];
}

bool begins_with(std::span<const std::int32_t> text, std::span<const std::int32_t> beginning) {
  return text.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), text.begin());
}

}  // namespace

void guess_copy(std::span<const std::int32_t> output, std::int64_t most,
                std::span<const NearestTexts::Found> texts, std::vector<Guess>& guesses) {
  guesses.clear();
  if (texts.empty()) return;
  const std::vector<std::int32_t>& copied = *texts.front().text;
  if (!begins_with(copied, output)) return;
  const std::int32_t match_length = match_length_of(texts.front().squared_distance);
  const std::size_t end = std::min(copied.size(), output.size() + static_cast<std::size_t>(most));
  std::vector<const std::vector<std::int32_t>*> equal;  // texts with the tokens so far
  for (const NearestTexts::Found& found : texts) {
    if (begins_with(*found.text, output)) equal.push_back(found.text.get());
  }
  for (std::size_t i = output.size(); i < end; ++i) {
    const auto num_before = static_cast<std::int32_t>(equal.size());
    std::erase_if(equal,
                  [&](const auto* text) { return i >= text->size() || (*text)[i] != copied[i]; });
    guesses.push_back({.token = copied[i],
                       .match_length = match_length,
                       .count = static_cast<std::int32_t>(equal.size()),
                       .total = num_before});
  }
}

}  // namespace caption::drafts
