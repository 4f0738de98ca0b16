#include "engine/internal/step_graphs.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

namespace caption::engine {
namespace {

constexpr std::int64_t kRowStep = 16;
constexpr std::int64_t kPageStep = 16;
constexpr std::int64_t kPageStepsPerOctave = 4;

std::int64_t rounded_up(std::int64_t count, std::int64_t step) {
  return divide_up(count, step) * step;
}

std::int64_t power_of_two_below(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count - 1)));
}

std::int64_t padded_rows(std::int64_t rows) {
  if (rows >= kRowStep) return rounded_up(rows, kRowStep);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
}

// Blocks of attention beyond a sequence's last page end at once, but each has to be started.
std::int64_t padded_pages(std::int64_t pages) {
  return rounded_up(pages, std::max(kPageStep, power_of_two_below(pages) / kPageStepsPerOctave));
}

}  // namespace

StepGraphs::StepGraphs(std::int64_t most_rows, std::int64_t most_table_pages)
    : most_rows_(most_rows), most_table_pages_(most_table_pages) {
  entries_.reserve(kMostGraphs);
}

StepShape StepGraphs::padded(const StepShape& step) const {
  StepShape shape = step;
  shape.rows = std::min(padded_rows(step.rows), most_rows_);
  shape.table_pages = std::min(padded_pages(step.table_pages), most_table_pages_);
  return shape;
}

void StepGraphs::run(Stream& stream, const StepShape& shape, const Memory& memory,
                     const std::function<void()>& launch) {
  ++num_steps_;
  if (memory != memory_) {
    for (Entry& entry : entries_) entry.graph.reset();
    memory_ = memory;
  }
  Entry* const entry = find(shape);
  if (entry != nullptr) {
    entry->last_step = num_steps_;
    if (!entry->graph.has_value() && !entry->is_refused) record(stream, *entry, launch);
    if (entry->graph.has_value()) {
      entry->graph->launch(stream);
      ++num_launches_;
      return;
    }
  }
  launch();
  if (entry == nullptr) add(shape);
}

StepGraphs::Entry* StepGraphs::find(const StepShape& shape) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.shape == shape; });
  return found == entries_.end() ? nullptr : &*found;
}

void StepGraphs::add(const StepShape& shape) {
  if (entries_.size() == kMostGraphs) {
    entries_.erase(
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.last_step < b.last_step; }));
  }
  entries_.push_back({.shape = shape, .graph = std::nullopt, .last_step = num_steps_});
}

void StepGraphs::record(Stream& stream, Entry& entry, const std::function<void()>& launch) {
  try {
    GraphCapture capture(stream);
    launch();
    entry.graph = capture.finish();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    entry.is_refused = true;
    if (has_logged_) return;
    has_logged_ = true;
    log_warning("engine",
                std::string("decode steps are launched kernel by kernel: ") + error.what());
  }
}

}  // namespace caption::engine
