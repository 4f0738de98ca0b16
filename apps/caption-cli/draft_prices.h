// apps/caption-cli/draft_prices.h: what drafts save, for `bench VIDEOS --price drafts`.
#pragma once

#include <array>

#include "bench/price_report.h"
#include "config/preset.h"
#include "video_runs.h"

namespace caption::cli {

inline constexpr int kRoundsPerRepeat = 8;

// The methods that every model can have, the first being what the others are compared to; kSelf not
// with compressed attention, and kModel besides them with a draft model.
inline constexpr std::array kPricedMethods = {
    config::DraftMethod::kNone, config::DraftMethod::kNgram, config::DraftMethod::kArchive,
    config::DraftMethod::kSelf};

// Captions the clips once with each method, which gives captions and their scores. Then repeats the
// engine's part in rounds in which the methods take turns (bench/draft_replay.h): kRoundsPerRepeat
// times bench.wanted.repeat rounds. Throws as price_options().
bench::PriceReport price_drafts(const VideoBench& bench, const OpenedModel& opened);

}  // namespace caption::cli
