// apps/caption-cli/forced_runs.h: captions that one model writes and that others are led through,
// from videos to logits (bench/logit_price.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/logit_price.h"
#include "pipeline/input_list.h"
#include "records/record.h"
#include "video_runs.h"

namespace caption::cli {

// Clips that no prompt got a caption of: Record::video, and what tells their contents apart.
using FailedClips = std::map<std::string, std::string>;
FailedClips find_failed(const std::vector<records::Record>& records);

// Clips and the captions that the reference wrote of them.
struct ForcedRuns {
  pipeline::InputList inputs;
  std::unique_ptr<bench::ForcedCaptions> captions;  // including the reference's logits; null: none
  FailedClips failed = {};                          // among the clips that were tried
};

// Lets the reference caption clips from all over the list, greedily, until the captions have
// bench.wanted.price_positions tokens or the clips are at their end; then stores its logits.
// Throws Error as pipeline::run() and ForcedCaptions.
ForcedRuns write_forced_runs(const VideoBench& bench, const OpenedModel& reference);

// Leads a model through the captions. Throws Error with the reason when it cannot follow one.
bench::LogitPrice compare_logits(const ForcedRuns& runs, const OpenedModel& opened);

}  // namespace caption::cli
