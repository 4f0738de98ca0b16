// apps/caption-cli/forced_runs.h: captions that one model writes and that others are led through,
// from videos to logits (bench/logit_price.h).
#pragma once

#include <memory>

#include "bench/logit_price.h"
#include "pipeline/input_list.h"
#include "video_runs.h"

namespace caption::cli {

// Clips and the captions that the reference wrote of them.
struct ForcedRuns {
  pipeline::InputList inputs;
  std::unique_ptr<bench::ForcedCaptions> captions;  // with the reference's logits; null: no caption
};

// Lets the reference write captions, greedily, of clips from all over the list until they have
// bench.wanted.price_positions tokens or the clips are at their end; then stores its logits.
// Throws Error as pipeline::run() and ForcedCaptions.
ForcedRuns write_forced_runs(const VideoBench& bench, const OpenedModel& reference);

// Leads a model through the captions. Throws Error with the reason when it cannot follow one.
bench::LogitPrice compare_logits(const ForcedRuns& runs, const OpenedModel& opened);

}  // namespace caption::cli
