#include "video/internal/sample_frames.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/join.h"
#include "base/json.h"

namespace caption::video {
namespace {

constexpr int kMaxNumFrames = 4096;
constexpr double kUsPerSecond = 1e6;

// The strategies without a number of their own.
struct NamedStrategy {
  std::string_view name;
  SamplingStrategy strategy;
};
constexpr NamedStrategy kNamedStrategies[] = {{"arange", SamplingStrategy::kArange},
                                              {"linspace", SamplingStrategy::kLinspace},
                                              {"internvl", SamplingStrategy::kInternVl},
                                              {"qwen3-vl", SamplingStrategy::kQwen3Vl}};
constexpr std::string_view kFpsPrefix = "fps=";

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const NamedStrategy& named : kNamedStrategies) names.emplace_back(named.name);
  return names;
}

std::int64_t arange_at(std::int64_t i, std::int64_t total, std::int64_t wanted) {
  const double step = static_cast<double>(total) / static_cast<double>(wanted);
  return std::min(total - 1, static_cast<std::int64_t>(static_cast<double>(i) * step));
}

std::int64_t linspace_at(std::int64_t i, std::int64_t total, std::int64_t wanted) {
  if (wanted == 1) return 0;
  if (i == wanted - 1) return total - 1;
  const double step = static_cast<double>(total - 1) / static_cast<double>(wanted - 1);
  return std::min(total - 1, static_cast<std::int64_t>(static_cast<double>(i) * step));
}

// Source: transformers 4.57.6 video_processing_internvl.py; torch rounds the sum to f32 before it
// truncates.
std::int64_t internvl_at(std::int64_t i, std::int64_t total, std::int64_t wanted) {
  const double step = static_cast<double>(total) / static_cast<double>(wanted);
  const auto at = static_cast<float>(step / 2 + static_cast<double>(i) * step);
  return std::min(total - 1, static_cast<std::int64_t>(at));
}

// Source: transformers 4.57.6 video_processing_qwen3_vl.py; numpy rounds halves to even numbers.
std::int64_t qwen3_vl_at(std::int64_t i, std::int64_t total, std::int64_t wanted) {
  if (wanted == 1) return 0;
  if (i == wanted - 1) return total - 1;
  const double step = static_cast<double>(total - 1) / static_cast<double>(wanted - 1);
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(i) * step));
}

std::int64_t qwen3_vl_frames(const SamplingOptions& options, const Timeline& timeline) {
  constexpr std::int64_t kFewest = 4;
  const double seconds = static_cast<double>(timeline.end_us) / kUsPerSecond;
  const auto by_length =
      static_cast<std::int64_t>(std::min(seconds * options.frames_per_second(), 1e9));
  return std::min(
      {std::max(by_length, kFewest), std::int64_t{options.num_frames}, timeline.num_frames()});
}

// The frame shown at a time: the last one that has started.
std::int64_t shown_at(double time_us, const Timeline& timeline) {
  const double latest = time_us + static_cast<double>(timeline.tolerance_us);
  const auto next = std::upper_bound(
      timeline.start_us.begin(), timeline.start_us.end(), latest,
      [](double time, std::int64_t start) { return time < static_cast<double>(start); });
  return std::max<std::int64_t>(0, next - timeline.start_us.begin() - 1);
}

// Number of the times 0, 1/fps, 2/fps, ... before the end of the timeline; at least one.
std::int64_t num_ticks(double fps, const Timeline& timeline) {
  const double last_us = static_cast<double>(timeline.end_us - timeline.tolerance_us);
  const double ticks = std::ceil(last_us * fps / kUsPerSecond);
  // Above 2^53 a double cannot represent every integer; no video has that many frames.
  return ticks < 1 ? 1 : static_cast<std::int64_t>(std::min(ticks, 9e15));
}

}  // namespace

std::vector<std::int64_t> sample_frames(const SamplingOptions& options, const Timeline& timeline) {
  const std::int64_t total = timeline.num_frames();
  CAPTION_CHECK(total > 0, "a video without frames has no samples");
  std::int64_t wanted = options.num_frames;
  std::int64_t ticks = 0;
  if (options.strategy == SamplingStrategy::kFps) {
    ticks = num_ticks(options.fps, timeline);
    wanted = std::min(wanted, ticks);
  } else if (options.strategy == SamplingStrategy::kQwen3Vl) {
    wanted = qwen3_vl_frames(options, timeline);
  }
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(wanted));
  for (std::int64_t i = 0; i < wanted; ++i) {
    switch (options.strategy) {
      case SamplingStrategy::kArange: positions.push_back(arange_at(i, total, wanted)); break;
      case SamplingStrategy::kLinspace: positions.push_back(linspace_at(i, total, wanted)); break;
      case SamplingStrategy::kInternVl: positions.push_back(internvl_at(i, total, wanted)); break;
      case SamplingStrategy::kQwen3Vl: positions.push_back(qwen3_vl_at(i, total, wanted)); break;
      case SamplingStrategy::kFps: {
        const auto tick = static_cast<double>(arange_at(i, ticks, wanted));
        positions.push_back(shown_at(tick * kUsPerSecond / options.fps, timeline));
        break;
      }
    }
  }
  return positions;
}

void require_valid(const SamplingOptions& options) {
  if (options.num_frames < 1 || options.num_frames > kMaxNumFrames) {
    throw Error(ErrorCode::kUsage, "frames: " + std::to_string(options.num_frames) +
                                       " is out of range; 1 to " + std::to_string(kMaxNumFrames) +
                                       " can be sampled");
  }
  if (options.strategy == SamplingStrategy::kFps &&
      !(std::isfinite(options.fps) && options.fps > 0)) {
    throw Error(ErrorCode::kUsage, "sampling: fps must be a number above 0");
  }
}

std::vector<std::string> sampling_forms() {
  std::vector<std::string> forms = strategy_names();
  forms.push_back(std::string(kFpsPrefix) + "F");
  return forms;
}

SamplingOptions parse_sampling(std::string_view text, int num_frames) {
  SamplingOptions options;
  options.num_frames = num_frames;
  const auto* const named =
      std::find_if(std::begin(kNamedStrategies), std::end(kNamedStrategies),
                   [text](const NamedStrategy& one) { return one.name == text; });
  bool is_known = named != std::end(kNamedStrategies);
  if (is_known) {
    options.strategy = named->strategy;
  } else if (text.starts_with(kFpsPrefix)) {
    options.strategy = SamplingStrategy::kFps;
    const std::string_view number = text.substr(kFpsPrefix.size());
    const auto [end, problem] =
        std::from_chars(number.data(), number.data() + number.size(), options.fps);
    is_known = problem == std::errc() && end == number.data() + number.size() &&
               std::isfinite(options.fps) && options.fps > 0;
  }
  if (!is_known) {
    throw Error(ErrorCode::kUsage, "sampling: \"" + std::string(text) + "\" is not known; " +
                                       join(strategy_names()) + " or " + std::string(kFpsPrefix) +
                                       "NUMBER (above 0)");
  }
  require_valid(options);
  return options;
}

std::string sampling_text(const SamplingOptions& options) {
  if (options.strategy == SamplingStrategy::kFps) {
    return std::string(kFpsPrefix) + json_number(options.fps);
  }
  return std::string(
      std::find_if(std::begin(kNamedStrategies), std::end(kNamedStrategies),
                   [&](const NamedStrategy& one) { return one.strategy == options.strategy; })
          ->name);
}

}  // namespace caption::video
