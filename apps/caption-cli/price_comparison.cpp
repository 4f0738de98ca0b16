#include "price_comparison.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "eval/bootstrap.h"

namespace caption::cli {

std::vector<bench::ScoreDifference> differences(const eval::Report& report,
                                                const eval::Report& base) {
  std::map<std::string, std::size_t> of_base;
  for (std::size_t i = 0; i < base.ids.size(); ++i) {
    if (base.has_caption[i]) of_base.emplace(base.ids[i], i);
  }
  std::vector<bench::ScoreDifference> out;
  for (std::size_t m = 0; m < report.metrics.size(); ++m) {
    std::vector<double> of_clips;
    for (std::size_t i = 0; i < report.ids.size(); ++i) {
      const auto found = of_base.find(report.ids[i]);
      if (!report.has_caption[i] || found == of_base.end()) continue;
      of_clips.push_back(report.metrics[m].clip_scores[i] -
                         base.metrics[m].clip_scores[found->second]);
    }
    const auto mean = [](std::span<const double> sums, std::int64_t count) {
      return sums[0] / static_cast<double>(count);
    };
    const eval::Interval interval = eval::bootstrap_interval(of_clips, 1, mean, {});
    const double sum = std::accumulate(of_clips.begin(), of_clips.end(), 0.0);
    out.push_back({.value = of_clips.empty() ? 0 : sum / static_cast<double>(of_clips.size()),
                   .low = interval.low,
                   .high = interval.high});
  }
  return out;
}

bench::EqualCaptions compare_captions(const std::vector<records::Record>& records,
                                      const std::vector<records::Record>& base) {
  std::map<std::pair<std::string, std::string>, std::string> captions;
  const auto is_captioned = [](const records::Record& record) {
    return record.status != records::Status::kFailed && record.copy_of.empty();
  };
  for (const records::Record& record : base) {
    if (is_captioned(record)) captions[{record.video, record.prompt}] = record.caption;
  }
  bench::EqualCaptions out;
  for (const records::Record& record : records) {
    const auto found = captions.find({record.video, record.prompt});
    if (!is_captioned(record) || found == captions.end()) continue;
    ++out.all;
    out.equal += found->second == record.caption ? 1 : 0;
  }
  return out;
}

bench::PriceRow& PriceCollector::add_row(std::string name) {
  report_.rows.push_back({.name = std::move(name)});
  return report_.rows.back();
}

void PriceCollector::add_run(std::size_t row, bench::VideoRun run,
                             const std::vector<records::Record>& records) {
  bench::PriceRow& price = report_.rows.at(row);
  price.runs.push_back(std::move(run));
  if (price.runs.size() > 1) return;
  if (row == 0) base_records_ = records;
  price.captions = compare_captions(records, base_records_);
  if (!bench_.references.has_value()) return;
  eval::Report scores = evaluate(*bench_.references, bench_.prompts.front().name, records);
  price.scores = scores_of(scores);
  if (row > 0) price.differences = differences(scores, *base_scores_);
  if (row == 0) base_scores_ = std::move(scores);
}

}  // namespace caption::cli
