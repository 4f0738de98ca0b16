// apps/caption-cli/weight_prices.h: what the formats of a model's weights cost, for `bench --price
// weights`: meteor-ko, equal captions, divergence of the next token's distributions, memory, speed.
//
// One model is in memory at a time. The reference, f32, writes captions until there are enough
// positions; then each format is opened, led through the same tokens, which also warms it up, and
// measured on all clips. The runs of a format follow one another. KV pages have the dtype that
// `run` would take for the format.
#pragma once

#include <string>

#include "bench/price_report.h"
#include "config/preset.h"
#include "video_runs.h"

namespace caption::cli {

struct PricedWeights {
  bench::PriceReport report;  // no row: the reference captioned no clip, and nothing was compared
  std::string work = {};      // describe_work()
  std::string warning = {};   // why the table could not be written; empty if nothing failed
};

// Measures every format in which the preset's model can be held, in place of the preset's own.
// Writes the price table of the model (plan/price_table.h) to the folder of the locations, and says
// where, unless something makes it no basis for later choices, which is said: clips failed, there
// were too few positions, the KV dtype, the attention or an adapter changes the logits, or the
// model is quantised and has no base. Throws Error as open_model() and pipeline::run(); kUsage when
// bench.wanted.price_base is another model's or is quantised itself. Clips that the reference
// cannot caption are not tried again and count as failed in every row.
PricedWeights price_weights(const VideoBench& bench, const config::Preset& preset);

}  // namespace caption::cli
