// apps/caption-cli/option_prices.h: what settings of the engine cost, for `bench --price attention`
// and `--price kv`.
#pragma once

#include <array>
#include <cstdint>

#include "bench/price_report.h"
#include "tensor/dtype.h"
#include "video_runs.h"

namespace caption::cli {

// Vision tokens of clips that are encoded before the engine begins (pipeline::Options).
inline constexpr std::int64_t kEncodedBytes = 1LL << 30;

// The pages that `--price kv` compares; the first are those that the others are compared to.
inline constexpr std::array kPricedPages = {DType::kBF16, DType::kF16, DType::kI8, DType::kF32};

// One run, so that the first row, to which the others are compared, does not pay for what is read
// once. Returns the mean prompt tokens of a caption. Throws Error(kDecode) when no clip could be
// captioned.
std::int64_t warm_up(const VideoBench& bench, const OpenedModel& opened);

// Captions the clips with each setting of the option bench.wanted.price, which is one of the
// engine's: interleaved runs, after one to warm up. Throws as warm_up().
bench::PriceReport price_options(const VideoBench& bench, const OpenedModel& opened);

}  // namespace caption::cli
