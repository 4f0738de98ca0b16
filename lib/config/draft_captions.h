// config/draft_captions.h: the captions that drafts are guessed from (drafts/drafter.h).
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "config/preset.h"
#include "pipeline/pipeline.h"

namespace caption::config {

// Speculation as the preset asks for it, with the captions of speculative.draft_from: records, or
// references of any kind that eval/corpus.h reads; the last ones, as many bytes as the archive of
// their tokens may have. Throws Error(kUsage) for draft_from without the archive, for standard
// input and for a FIFO; Error(kBadReference | kIo | kOutOfMemory), each with the file's name, as
// eval::read_references(); Error(kCancelled) soon after `cancelled` has become true.
pipeline::DraftOptions draft_options(const Preset& preset,
                                     const std::atomic<bool>* cancelled = nullptr);

// The captions of an output of earlier runs, in its order; what is no record of a caption is passed
// over, so that opening the output reports it.
std::vector<std::string> earlier_captions(const std::filesystem::path& output,
                                          const std::atomic<bool>* cancelled = nullptr);
// Adds captions, which are the more useful the later they come, and drops the first ones of all
// where they exceed drafts.max_archive_bytes.
void add_known_captions(std::vector<std::string> captions, pipeline::DraftOptions& drafts);

}  // namespace caption::config
