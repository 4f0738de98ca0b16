// price_comparison.h: what two runs over the same clips have in common, for `bench --price`.
#pragma once

#include <vector>

#include "bench/price_report.h"
#include "eval/evaluate.h"
#include "records/record.h"

namespace caption::cli {

// The difference of each metric, which must be a mean of clips, to that of `base`, on the clips
// that both score; the reports have the same metrics.
std::vector<bench::ScoreDifference> differences(const eval::Report& report,
                                                const eval::Report& base);

// Compares the captions of the same video and prompt; failed clips and copies of others do not
// count.
bench::EqualCaptions compare_captions(const std::vector<records::Record>& records,
                                      const std::vector<records::Record>& base);

}  // namespace caption::cli
