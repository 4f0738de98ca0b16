// apps/caption-cli/bench_drafts.h: `bench --shape NAME --price drafts --drafts self|model`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/draft_bench.h"
#include "bench_device.h"
#include "config/preset.h"
#include "model/decoder.h"

namespace caption::cli {

// What is measured with drafts of a model.
struct DraftedShape {
  const BenchDevice& device;
  const config::Preset& preset;
  model::Decoder& decoder;
  std::int64_t weight_bytes = 0;
  std::string description;  // heading of the table
  std::string json;         // as BenchFlags::json
};

// Throws Error(kUsage) for drafts that cannot be measured with a shape of `vocab` tokens: the
// methods archive and ngram, a draft model that is no known shape or has another vocabulary, and a
// draft model without --drafts model.
void require_draft_shape(const config::Preset& preset, std::int64_t vocab);

// The layers of a random decoder that nearly return their input, so that self-drafts can leave them
// out: the middle half.
std::vector<std::int32_t> faint_layers(std::int64_t num_layers);

// Measures self-drafts, with the layers that they find, or those of the shape --draft-model names,
// "NAME" or "NAME:LAYERS" for its first layers, in kRoundsPerRepeat times options.repeat rounds.
// The preset is what require_draft_shape() accepts.
int bench_drafts_of_model(const DraftedShape& shape, bench::DraftBenchOptions options);

}  // namespace caption::cli
