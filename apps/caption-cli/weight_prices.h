// apps/caption-cli/weight_prices.h: what the formats of a model's weights cost, for `bench --price
// weights`: meteor-ko, equal captions, divergence of the next token's distributions, memory, speed.
//
// One model is in memory at a time. The reference, f32, writes captions until there are enough
// positions; then each format is opened, led through the same tokens, which also warms it up, and
// measured on all clips. The runs of a format follow one another. KV pages have the dtype that
// `run` would take for the format.
#pragma once

#include "bench/price_report.h"
#include "config/preset.h"
#include "video_runs.h"

namespace caption::cli {

// Measures every format in which the preset's model can be held, in place of the preset's own. If
// all clips were captioned and there were enough positions, writes the price table of the model
// (plan/price_table.h) to the folder of the locations and says where. Throws Error as open_model()
// and pipeline::run(); kUsage when bench.wanted.price_base is another model's.
bench::PriceReport price_weights(const VideoBench& bench, const config::Preset& preset);

}  // namespace caption::cli
