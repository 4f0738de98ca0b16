#include "config/draft_reading.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/counted.h"
#include "base/json.h"
#include "base/log.h"
#include "config/draft_captions.h"
#include "eval/corpus.h"

namespace caption::config {
namespace {

constexpr std::int64_t kSaidFromUs = 1'000'000;

}  // namespace

std::string describe_reading(std::int64_t num_captions, std::int64_t elapsed_us) {
  if (elapsed_us < kSaidFromUs) return {};
  return "--draft-from: " + counted(num_captions, "caption") + " to guess from read in " +
         json_number(static_cast<double>(elapsed_us) / 1e6, 1) + " s";
}

DraftReading::DraftReading(Preset preset) : preset_(std::move(preset)) {
  if (preset_.speculative.draft_from.empty()) return;
  try {
    read_ = std::async(std::launch::async, [this] { return read(&ends_); });
  } catch (const std::system_error&) {
    // The system has no thread left.
  }
}

DraftReading::~DraftReading() { ends_ = true; }  // the future waits for its thread

DraftReading::Read DraftReading::read(const std::atomic<bool>* cancelled) const {
  const Stopwatch watch;
  Read done{.drafts = draft_options(preset_, cancelled)};
  done.elapsed_us = watch.elapsed_us();
  return done;
}

pipeline::DraftOptions DraftReading::take(const std::atomic<bool>* cancelled) {
  constexpr std::chrono::milliseconds kBetweenLooks(20);
  while (read_.has_value() && read_->wait_for(kBetweenLooks) != std::future_status::ready) {
    if (cancelled != nullptr && cancelled->load()) ends_ = true;
  }
  eval::Problems(cancelled).throw_if_cancelled();
  Read done = read_.has_value() ? read_->get() : read(cancelled);
  const std::string text =
      describe_reading(std::ssize(done.drafts.known_captions), done.elapsed_us);
  if (!text.empty()) log_info("run", text);
  return std::move(done.drafts);
}

}  // namespace caption::config
