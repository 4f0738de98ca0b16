#include "pipeline/internal/archive_filler.h"

#include <exception>
#include <system_error>
#include <utility>

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
  for (const std::string& caption : captions_) {
    if (!goes_on()) break;
    archive_->add(caption_ids(model_, caption));
  }
  while (goes_on() && archive_->merge_on()) continue;
  captions_ = {};
}

}  // namespace caption::pipeline
