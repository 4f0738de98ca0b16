#include "drafts/describe_drafts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/figures.h"

namespace caption::drafts {

std::string describe_drafts(const DraftCounts& counts, const DraftedSteps& steps,
                            std::int64_t num_steps) {
  const auto per_step = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, num_steps));
  };
  std::string out;
  for (std::size_t i = 0; i < counts.computed.size(); ++i) {
    if (counts.computed[i] == 0) continue;
    if (!out.empty()) out += "; ";
    out += std::string(guess_source_name(static_cast<GuessSource>(i))) + ": " +
           std::to_string(counts.accepted[i]) + " of " + std::to_string(counts.computed[i]) +
           " right, " + format_number(per_step(counts.accepted[i])) + " per step";
  }
  if (out.empty() || steps.with_drafts == 0) return out;
  out += "; in " +
         format_percent(static_cast<double>(steps.with_drafts) / static_cast<double>(steps.all)) +
         " of the engine's steps, which ";
  const double saved_s = steps.saved_us / 1e6;
  const std::string time = format_number(std::abs(saved_s)) + " s";
  return out + (saved_s < 0 ? "cost about " + time + " with all passes and searches for guesses"
                            : "saved about " + time);
}

}  // namespace caption::drafts
