// config/draft_captions.h: the captions that drafts are guessed from (drafts/drafter.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/preset.h"
#include "pipeline/pipeline.h"

namespace caption::config {

// Speculation as the preset asks for it, with the captions of speculative.draft_from: records, or
// references of any kind that eval/corpus.h reads. Throws Error(kUsage) for draft_from without the
// archive; Error(kBadReference | kIo | kOutOfMemory) as eval::read_references().
pipeline::DraftOptions draft_options(const Preset& preset);

// The captions of an output of earlier runs, in its order; what is no record of a caption is passed
// over, so that opening the output reports it.
std::vector<std::string> earlier_captions(const std::filesystem::path& output);

}  // namespace caption::config
