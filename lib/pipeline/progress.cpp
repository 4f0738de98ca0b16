#include "pipeline/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/display_width.h"
#include "base/figures.h"
#include "base/json.h"
#include "base/log.h"
#include "drafts/describe_drafts.h"
#include "pipeline/time_left.h"

namespace caption::pipeline {
namespace {

constexpr std::int64_t kLiveIntervalUs = 200'000;
constexpr std::int64_t kSparseIntervalUs = 10'000'000;
constexpr std::int64_t kLongestSparseIntervalUs = 60'000'000;
// The first clips run with cold caches, so that their time does not predict that of later ones.
constexpr std::int64_t kFirstEstimateUs = 2'000'000;
constexpr int kDefaultColumns = 80;
// On narrower terminals the number of clips is shown without the noun.
constexpr int kNarrowColumns = 40;
// A clip's name is not shown in fewer columns.
constexpr int kMinNameColumns = 8;

// Rate per second of the run; 0 at the start.
double rate(std::int64_t count, std::int64_t elapsed_us) {
  return elapsed_us > 0 ? static_cast<double>(count) * 1e6 / static_cast<double>(elapsed_us) : 0;
}

std::string percent(double share) {
  return std::to_string(std::lround(std::clamp(share, 0.0, 1.0) * 100)) + " %";
}

std::string clips(std::int64_t count) { return counted(count, "clip"); }

// Counts clips, or captions where each clip has several.
std::string captions(const Progress& progress, std::int64_t count) {
  return progress.num_prompts > 1 ? counted(count, "caption") : clips(count);
}

// Empty when nothing was captioned.
std::string caption_rate(const Progress& progress) {
  if (progress.clips_captioned == 0) return {};
  const std::string number = json_number(rate(progress.clips_captioned, progress.elapsed_us), 2);
  return progress.num_prompts > 1 ? counted(number, "caption/s", "captions/s")
                                  : counted(number, "clip/s", "clips/s");
}

std::string token_rate(const Progress& progress) {
  if (progress.output_tokens == 0) return {};
  return counted(json_number(rate(progress.output_tokens, progress.elapsed_us), 0), "token/s",
                 "tokens/s");
}

// Returns text such as "2 min left"; empty when nothing is left or the estimate would be too early.
std::string time_left(const Progress& progress) {
  if (progress.elapsed_us < kFirstEstimateUs) return {};
  const std::optional<double> left_us = time_left_us(progress);
  return left_us.has_value() ? duration_text(*left_us) + " left" : "";
}

std::string failed(const Progress& progress) {
  return progress.clips_failed > 0 ? std::to_string(progress.clips_failed) + " failed" : "";
}

std::string suspicious(const Progress& progress) {
  return progress.clips_suspicious > 0 ? std::to_string(progress.clips_suspicious) + " suspicious"
                                       : "";
}

// Describes the captions of this run, and those tried again without improvement.
std::string made(const Progress& progress) {
  const std::int64_t num_kept = progress.clips_kept;
  if (progress.clips_captioned == 0 && progress.clips_failed == 0) {
    return num_kept == 0 ? "nothing to caption"
                         : captions(progress, num_kept) + " tried again, none came out better";
  }
  std::string out = captions(progress, progress.clips_captioned) +
                    (progress.num_prompts > 1 ? " written" : " captioned");
  if (num_kept > 0) out += ", " + std::to_string(num_kept) + " tried again without a better record";
  return out;
}

// Joins the parts that are not empty.
std::string join_present(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : ", ") + part;
  }
  return out;
}

int stderr_columns() {
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kDefaultColumns;
}

std::string why_no_drafts(const Outcome& outcome) {
  if (outcome.found_layers.has_value()) {
    return outcome.found_layers->pays()
               ? "the layers to leave out were found only near the end of the run; the next run "
                 "guesses from its first caption on"
               : "no set of layers to leave out promises to save time";
  }
  if (!outcome.layer_search.has_value()) {
    return "no guess was found, or none was expected to save time";
  }
  const drafts::UnfinishedSearch& search = *outcome.layer_search;
  return "the search for the layers to leave out is not finished (" +
         std::to_string(search.num_texts) + " of at most " + counted(search.most_texts, "piece") +
         " of captions scored); it takes dozens of captions of one run, and the next run begins it "
         "anew";
}

}  // namespace

std::string describe_progress(const Progress& progress) {
  const std::string left = time_left(progress);
  return join_present(
      {std::to_string(progress.num_settled()) + "/" + captions(progress, progress.num_wanted()),
       failed(progress), suspicious(progress), left.empty() ? left : "about " + left,
       caption_rate(progress), token_rate(progress)});
}

std::string live_line(const Progress& progress, int columns) {
  // Parts in the order of the line.
  enum Part { kCount, kFailed, kSuspicious, kLeft, kRate, kTokens, kName };
  const std::string settled = std::to_string(progress.num_settled()) + "/";
  const std::int64_t total = progress.num_wanted();
  std::vector<std::string> texts = {
      settled + (columns < kNarrowColumns ? std::to_string(total) : captions(progress, total)),
      failed(progress),
      suspicious(progress),
      time_left(progress),
      caption_rate(progress),
      token_rate(progress),
      printable(progress.last_clip)};
  if (display_width(texts[kCount]) > columns) return {};
  int used = 0;
  for (const Part part : {kCount, kLeft, kFailed, kRate, kSuspicious, kName, kTokens}) {
    std::string& text = texts[part];
    const int separator = used > 0 ? 2 : 0;
    const int room = columns - used - separator;
    if (part == kName && room >= kMinNameColumns) text = shorten_path(text, room);
    if (display_width(text) > room) text.clear();
    if (!text.empty()) used += separator + display_width(text);
  }
  return join_present(texts);
}

std::string describe_speed(const Outcome& outcome) {
  const Progress& progress = outcome.progress;
  const std::int64_t captioned = progress.clips_captioned;
  const std::int64_t num_tried = captioned + progress.clips_failed + progress.clips_kept;
  std::vector<std::string> parts = {made(progress), failed(progress)};
  if (const std::int64_t num_files = progress.files_skipped / progress.num_prompts; num_files > 0) {
    parts.push_back(
        counted(num_files, "file in folders is no video", "files in folders are no videos"));
  }
  if (progress.folders_unread > 0) {
    parts.push_back(counted(progress.folders_unread, "folder") + " could not be read");
  }
  std::string out = join_present(parts);
  if (num_tried == 0) return out;
  out += " in " + json_number(static_cast<double>(progress.elapsed_us) / 1e6, 2) + " s";
  if (captioned == 0) return out;
  out += ": " + caption_rate(progress) + ", ";
  out += counted(json_number(rate(progress.output_tokens, progress.elapsed_us), 1),
                 "output token/s", "output tokens/s");
  return out + ", " +
         counted(json_number(outcome.engine.mean_batch, 1), "sequence per step",
                 "sequences per step");
}

std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads) {
  struct Stage {
    const char* name;
    double share;
  };
  const double wall_us =
      static_cast<double>(std::max<std::int64_t>(1, outcome.progress.elapsed_us));
  const double replicas = outcome.progress.work.num_replicas;
  std::vector<Stage> stages = {
      Stage{"hashing", static_cast<double>(outcome.busy.identity_us) / (wall_us * threads.decode)},
      Stage{"decode", static_cast<double>(outcome.busy.decode_us) / (wall_us * threads.decode)},
      Stage{"vision", static_cast<double>(outcome.busy.vision_us) / (wall_us * replicas)},
      Stage{"engine", static_cast<double>(outcome.busy.engine_us) / (wall_us * replicas)}};
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
  return out + "; " + limiting->name + " is the slowest stage";
}

std::string describe_caches(const Outcome& outcome) {
  const engine::EngineStats& engine = outcome.engine;
  if (engine.prefix_lookup_tokens == 0) return {};
  std::string out = "prefix cache: " + percent(engine.prefix_hit_rate()) + " of prompt tokens hit";
  if (engine.host_hit_tokens > 0) {
    out += ", " + counted(engine.host_hit_tokens, "token") + " from host memory";
  }
  if (engine.disk_hit_tokens > 0) {
    out += ", " + counted(engine.disk_hit_tokens, "token") + " from disk";
  }
  if (outcome.clips_seen_before > 0) {
    out += "; " + clips(outcome.clips_seen_before) + " seen before, neither decoded nor encoded";
  }
  return out;
}

std::string describe_drafts(const Outcome& outcome) {
  const engine::EngineStats& engine = outcome.engine;
  if (!outcome.had_drafts || engine.decode_tokens == 0) return {};
  if (engine.draft_tokens == 0) return "drafts: none was computed: " + why_no_drafts(outcome);
  const std::int64_t steps =
      std::max<std::int64_t>(1, engine.decode_tokens - engine.accepted_tokens);
  const std::string by_source =
      drafts::describe_drafts(outcome.drafts, outcome.drafted_steps, steps);
  return "drafts: " +
         format_number(static_cast<double>(engine.decode_tokens) / static_cast<double>(steps)) +
         " tokens of a caption per step" + (by_source.empty() ? "" : "; " + by_source);
}

std::string describe_suspicious(const Progress& progress) {
  const std::int64_t count = progress.clips_suspicious;
  if (count == 0) return {};
  return counted(count, "caption is", "captions are") +
         " suspicious: " + std::string(plural(count, "its record says", "each record says")) +
         " why";
}

std::string describe_truncated(const Progress& progress) {
  const std::int64_t count = progress.clips_truncated;
  if (count == 0) return {};
  return counted(count, "caption is", "captions are") +
         " truncated: --max-new-tokens allows longer ones";
}

std::string describe_warned(const Progress& progress) {
  const std::int64_t count = progress.clips_warned;
  if (count == 0) return {};
  return counted(count, "record has", "records have") +
         " warnings; the last one: " + progress.last_warning;
}

std::string describe_interruption(const Progress& progress) {
  return "interrupted; " + std::to_string(progress.num_settled()) + " of " +
         counted(progress.num_wanted(), "record") + " written";
}

std::string describe_reader_gone(const Progress& progress) {
  return "nobody reads standard output any more; " + std::to_string(progress.num_settled()) +
         " of " + counted(progress.num_wanted(), "record") + " written";
}

ProgressStyle choose_progress_style(bool is_terminal, const char* term) {
  const bool can_redraw = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return is_terminal && can_redraw ? ProgressStyle::kLive : ProgressStyle::kSparse;
}

ProgressLine::~ProgressLine() {
  if (style_ == ProgressStyle::kLive) set_status_line("");
}

bool is_line_due(ProgressStyle style, const ShownProgress& last, const Progress& now) {
  const std::int64_t passed_us = now.elapsed_us - last.elapsed_us;
  switch (style) {
    case ProgressStyle::kSilent: return false;
    case ProgressStyle::kLive: return passed_us >= kLiveIntervalUs;
    case ProgressStyle::kSparse: break;
  }
  const bool is_tenth = 10 * (now.num_passed() - last.num_passed) >= now.num_listed();
  return passed_us >= (is_tenth ? kSparseIntervalUs : kLongestSparseIntervalUs);
}

void ProgressLine::update(const Progress& progress) {
  if (!is_line_due(style_, last_, progress)) return;
  last_ = {.elapsed_us = progress.elapsed_us, .num_passed = progress.num_passed()};
  if (style_ == ProgressStyle::kLive) {
    // One column is left free, because some terminals wrap after the last one.
    set_status_line(live_line(progress, stderr_columns() - 1));
  } else {
    log_info("run", describe_progress(progress));
  }
}

}  // namespace caption::pipeline
