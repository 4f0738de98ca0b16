#include "pipeline/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/log.h"

namespace caption::pipeline {
namespace {

constexpr std::int64_t kLiveIntervalUs = 200'000;
constexpr std::int64_t kSparseIntervalUs = 10'000'000;
// The first clips wait for caches and say little of those that follow.
constexpr std::int64_t kFirstEstimateUs = 2'000'000;
constexpr std::size_t kDefaultColumns = 80;

// Per second of the run; 0 before the clock has moved.
double rate(std::int64_t count, std::int64_t elapsed_us) {
  return elapsed_us > 0 ? static_cast<double>(count) * 1e6 / static_cast<double>(elapsed_us) : 0;
}

std::string percent(double share) {
  return std::to_string(std::lround(std::clamp(share, 0.0, 1.0) * 100)) + " %";
}

// `count` is a number as it is printed.
std::string counted(const std::string& count, const char* one, const char* several) {
  return count + " " + (count == "1" ? one : several);
}

std::string counted(std::int64_t count, const char* one, const char* several) {
  return counted(std::to_string(count), one, several);
}

std::string clips(std::int64_t count) { return counted(count, "clip", "clips"); }

// Clips, or captions where each clip has several.
std::string captions(const Progress& progress, std::int64_t count) {
  return progress.num_prompts > 1 ? counted(count, "caption", "captions") : clips(count);
}

std::string caption_rate(const Progress& progress, std::int64_t count) {
  const std::string number = json_number(rate(count, progress.elapsed_us), 2);
  return progress.num_prompts > 1 ? counted(number, "caption/s", "captions/s")
                                  : counted(number, "clip/s", "clips/s");
}

std::int64_t num_captioned(const Progress& progress) {
  return progress.clips_done - progress.clips_failed - progress.clips_moved - progress.clips_copied;
}

// "40 s", "3 min", "2 h 05 min"
std::string duration_text(std::int64_t seconds) {
  if (seconds < 60) return std::to_string(std::max<std::int64_t>(seconds, 1)) + " s";
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  const std::string rest = std::to_string(minutes % 60);
  return std::to_string(minutes / 60) + " h " + (rest.size() < 2 ? "0" : "") + rest + " min";
}

// Empty when nothing is left, or too little is done to tell.
std::string time_left(const Progress& progress) {
  const std::int64_t num_left = progress.clips_total - progress.clips_done;
  if (num_left <= 0 || progress.clips_done <= 0 || progress.elapsed_us < kFirstEstimateUs) {
    return {};
  }
  const double per_clip_us =
      static_cast<double>(progress.elapsed_us) / static_cast<double>(progress.clips_done);
  const double left_s = per_clip_us * static_cast<double>(num_left) / 1e6;
  return "about " + duration_text(std::llround(left_s)) + " left";
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::size_t stderr_columns() {
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kDefaultColumns;
}

}  // namespace

std::string describe_progress(const Progress& progress) {
  std::vector<std::string> parts = {std::to_string(progress.clips_done) + "/" +
                                    captions(progress, progress.clips_total)};
  if (progress.clips_failed > 0) parts.push_back(std::to_string(progress.clips_failed) + " failed");
  if (const std::string left = time_left(progress); !left.empty()) parts.push_back(left);
  if (num_captioned(progress) > 0) {
    parts.push_back(caption_rate(progress, num_captioned(progress)));
  }
  if (progress.output_tokens > 0) {
    parts.push_back(json_number(rate(progress.output_tokens, progress.elapsed_us), 0) +
                    " tokens/s");
  }
  return join(parts);
}

std::string describe_speed(const Outcome& outcome) {
  const Progress& progress = outcome.progress;
  const std::int64_t captioned = num_captioned(progress);
  std::vector<std::string> parts = {
      captioned == 0 && progress.clips_failed == 0
          ? std::string("nothing to caption")
          : captions(progress, captioned) + (progress.num_prompts > 1 ? " written" : " captioned")};
  if (progress.clips_failed > 0) parts.push_back(std::to_string(progress.clips_failed) + " failed");
  if (progress.files_skipped > 0) {
    parts.push_back(counted(progress.files_skipped, "file in folders is no video",
                            "files in folders are no videos"));
  }
  std::string out = join(parts);
  if (captioned == 0 && progress.clips_failed == 0) return out;
  out += " in " + json_number(static_cast<double>(progress.elapsed_us) / 1e6, 2) + " s";
  if (captioned == 0) return out;
  out += ": " + caption_rate(progress, captioned) + ", ";
  out += json_number(rate(progress.output_tokens, progress.elapsed_us), 1) + " output tokens/s, ";
  return out + counted(json_number(outcome.engine.mean_batch, 1), "sequence per step",
                       "sequences per step");
}

std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads) {
  struct Stage {
    const char* name;
    double share;
  };
  const double wall_us =
      static_cast<double>(std::max<std::int64_t>(1, outcome.progress.elapsed_us));
  std::vector<Stage> stages = {
      Stage{"hashing", static_cast<double>(outcome.busy.identity_us) / (wall_us * threads.decode)},
      Stage{"decode", static_cast<double>(outcome.busy.decode_us) / (wall_us * threads.decode)},
      Stage{"vision", static_cast<double>(outcome.busy.vision_us) / wall_us},
      Stage{"engine", static_cast<double>(outcome.busy.engine_us) / wall_us}};
  if (outcome.busy.cache_us > 0) {
    const auto busy_us = static_cast<double>(outcome.busy.cache_us);
    stages.push_back({"cache look-up", busy_us / (wall_us * threads.decode)});
  }
  std::string out = "busy:";
  for (const Stage& stage : stages)
    out += std::string(" ") + stage.name + " " + percent(stage.share);
  const auto limiting =
      std::max_element(stages.begin(), stages.end(),
                       [](const Stage& a, const Stage& b) { return a.share < b.share; });
  return out + "; " + limiting->name + " limits";
}

std::string describe_caches(const Outcome& outcome) {
  const engine::EngineStats& engine = outcome.engine;
  if (engine.prefix_lookup_tokens == 0) return {};
  std::string out = "prefix cache: " + percent(engine.prefix_hit_rate()) + " of prompt tokens hit";
  if (engine.disk_hit_tokens > 0) {
    out += ", " + std::to_string(engine.disk_hit_tokens) + " tokens from disk";
  }
  if (outcome.clips_seen_before > 0) {
    out += "; " + clips(outcome.clips_seen_before) + " seen before, neither decoded nor encoded";
  }
  return out;
}

std::string fit_to_width(const std::string& line, std::size_t columns) {
  if (line.size() <= columns) return line;
  const std::size_t comma = line.rfind(", ", columns);
  return line.substr(0, comma == std::string::npos ? columns : comma);
}

ProgressStyle choose_progress_style(bool is_terminal, const char* term) {
  const bool can_redraw = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return is_terminal && can_redraw ? ProgressStyle::kLive : ProgressStyle::kSparse;
}

ProgressLine::~ProgressLine() {
  if (style_ == ProgressStyle::kLive) set_status_line("");
}

void ProgressLine::update(const Progress& progress) {
  if (style_ == ProgressStyle::kSilent) return;
  const std::int64_t interval_us =
      style_ == ProgressStyle::kLive ? kLiveIntervalUs : kSparseIntervalUs;
  if (progress.elapsed_us - last_us_ < interval_us) return;
  last_us_ = progress.elapsed_us;
  if (style_ == ProgressStyle::kLive) {
    // One column stays free: in the last one some terminals begin a new line.
    set_status_line(fit_to_width(describe_progress(progress), stderr_columns() - 1));
  } else {
    log_info("run", describe_progress(progress));
  }
}

}  // namespace caption::pipeline
