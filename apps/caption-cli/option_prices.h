// apps/caption-cli/option_prices.h: what settings of the engine cost, for `bench --price attention`,
// `--price kv` and `--price drafts`.
#pragma once

#include "bench/price_report.h"
#include "video_runs.h"

namespace caption::cli {

// Captions the clips with each setting of the option bench.wanted.price, which is one of the
// engine's: interleaved runs, after one to warm up.
bench::PriceReport price_options(const VideoBench& bench, const OpenedModel& opened);

}  // namespace caption::cli
