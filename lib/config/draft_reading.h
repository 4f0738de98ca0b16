// config/draft_reading.h: reads the captions that drafts are guessed from beside other work.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "config/preset.h"
#include "pipeline/pipeline.h"

namespace caption::config {

// What is said of captions whose reading took so long; empty below a second.
std::string describe_reading(std::int64_t num_captions, std::int64_t elapsed_us);

// Calls draft_options() (config/draft_captions.h) on a thread of its own, which begins with the
// constructor, so that a run loads its model meanwhile. take() calls it where draft_from is empty
// or the system has no thread left.
class DraftReading {
 public:
  explicit DraftReading(Preset preset);
  // Ends the reading soon.
  ~DraftReading();
  DraftReading(const DraftReading&) = delete;
  DraftReading& operator=(const DraftReading&) = delete;

  // Waits for the captions, and logs describe_reading(). Call it once. Throws as draft_options().
  pipeline::DraftOptions take(const std::atomic<bool>* cancelled);

 private:
  struct Read {
    pipeline::DraftOptions drafts;
    std::int64_t elapsed_us = 0;
  };
  Read read(const std::atomic<bool>* cancelled) const;

  Preset preset_;
  std::atomic<bool> ends_{false};
  std::optional<std::future<Read>> read_;
};

}  // namespace caption::config
