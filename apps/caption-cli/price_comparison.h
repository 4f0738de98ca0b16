// apps/caption-cli/price_comparison.h: compares runs over the same clips, for `bench --price`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/price_report.h"
#include "eval/evaluate.h"
#include "records/record.h"
#include "video_runs.h"

namespace caption::cli {

// The difference of each metric, which must be a mean of clips, to that of `base`, on the clips
// that both score; the reports have the same metrics.
std::vector<bench::ScoreDifference> differences(const eval::Report& report,
                                                const eval::Report& base);

// Compares the captions of the same video and prompt; failed clips and copies of others do not
// count.
bench::EqualCaptions compare_captions(const std::vector<records::Record>& records,
                                      const std::vector<records::Record>& base);

// Makes the rows of a report of prices. Captions and scores are those of a row's first run, beside
// those of the first row's, which has to come before the others'.
class PriceCollector {
 public:
  // `bench` is borrowed.
  explicit PriceCollector(const VideoBench& bench) : bench_(bench) {}

  bench::PriceRow& add_row(std::string name);
  void add_run(std::size_t row, bench::VideoRun run, const std::vector<records::Record>& records);
  bench::PriceReport take_report() { return std::move(report_); }
  const std::vector<bench::PriceRow>& rows() const { return report_.rows; }

 private:
  const VideoBench& bench_;
  bench::PriceReport report_;
  std::vector<records::Record> base_records_;
  std::optional<eval::Report> base_scores_;
};

}  // namespace caption::cli
