#include "pipeline/internal/archive_filler.h"

#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "pipeline/caption_ids.h"

namespace caption::pipeline {

ArchiveFiller::ArchiveFiller(const model::CaptionModel& model, std::vector<std::string> captions,
                             std::shared_ptr<drafts::TokenArchive> archive, Shared& shared)
    : model_(model), captions_(std::move(captions)), archive_(std::move(archive)), shared_(shared) {
  if (captions_.size() <= kAtOnce) {
    fill();
    return;
  }
  try {
    thread_ = std::thread([this] {
      try {
        fill();
      } catch (...) {
        shared_.breakdown.set(std::current_exception());
      }
    });
  } catch (const std::system_error&) {
    fill();
  }
}

ArchiveFiller::~ArchiveFiller() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void ArchiveFiller::fill() {
  const auto goes_on = [this] { return !ends_ && !shared_.options.stop->load(); };
  std::int64_t num_refused = 0;
  std::string first_reason;
  for (const std::string& caption : captions_) {
    if (!goes_on()) break;
    try {
      archive_->add(caption_ids(model_, caption));
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      if (num_refused++ == 0) first_reason = error.what();
    }
  }
  while (goes_on() && archive_->merge_on()) continue;
  captions_ = {};
  if (num_refused == 0) return;
  log_warning("drafts", counted(num_refused, "known caption is", "known captions are") +
                            " left out of the archive: " + first_reason);
}

}  // namespace caption::pipeline
