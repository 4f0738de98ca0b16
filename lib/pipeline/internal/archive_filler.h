// pipeline/internal/archive_filler.h: adds captions that are known before a run to the archive that
// drafts are guessed from.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "drafts/token_archive.h"
#include "model/caption_model.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {

// Tokenises the captions on a thread of its own, so that the first clips do not wait for 100,000 of
// them; up to kAtOnce of them before the constructor returns. Captions do not depend on how far it
// is, as they do not on drafts.
class ArchiveFiller {
 public:
  static constexpr std::size_t kAtOnce = 2000;

  // The captions are added in their order. `model` and `shared` are borrowed. Captions that the
  // tokenizer refuses are left out, with one warning for all. Passes on errors of the machine
  // (is_of_machine()) and std::bad_alloc; those of the thread are a Breakdown of `shared`.
  ArchiveFiller(const model::CaptionModel& model, std::vector<std::string> captions,
                std::shared_ptr<drafts::TokenArchive> archive, Shared& shared);
  // Ends the thread soon, whatever is left.
  ~ArchiveFiller();
  ArchiveFiller(const ArchiveFiller&) = delete;
  ArchiveFiller& operator=(const ArchiveFiller&) = delete;

 private:
  void fill();

  const model::CaptionModel& model_;
  std::vector<std::string> captions_;
  std::shared_ptr<drafts::TokenArchive> archive_;
  Shared& shared_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace caption::pipeline
