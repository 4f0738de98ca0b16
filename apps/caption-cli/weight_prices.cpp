#include "weight_prices.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "config/choices.h"
#include "forced_runs.h"
#include "plan/price_table.h"
#include "price_comparison.h"
#include "version.h"

namespace caption::cli {
namespace {

using config::WeightFormat;

struct Variant {
  std::string format;  // as --dtype names it
  config::Preset preset;
  bool is_base = false;  // the reference, if it is another model than the one that is priced
};

Variant variant_in(const config::Preset& preset, WeightFormat format) {
  Variant variant{.format = std::string(config::choice_name(format)), .preset = preset};
  variant.preset.quantization.weights = format;
  return variant;
}

// The reference first.
std::vector<Variant> variants_of(const config::Preset& preset, const std::string& base) {
  std::vector<Variant> variants;
  if (!base.empty()) {
    variants.push_back(variant_in(preset, WeightFormat::kF32));
    variants.back().is_base = true;
    config::ModelSection& model = variants.back().preset.model;
    model = {};
    model.path = base;
    model.adapter = preset.model.adapter;
  }
  for (const weights::WeightFormat format : weights::all_weight_formats()) {
    if (!weights::can_be_held(format)) continue;
    variants.push_back(
        variant_in(preset, config::find_choice<WeightFormat>(config::option_name(format)).value()));
  }
  return variants;
}

// std::nullopt, with a line in the log, for a format that the model cannot be held in: codes of a
// file are not rounded a second time. The reference has to open.
std::optional<OpenedModel> open(const VideoBench& bench, const Variant& variant, bool is_first) {
  try {
    return open_for_bench(bench, variant.preset);
  } catch (const Error& error) {
    if (is_first || error.code() != ErrorCode::kUnavailable) throw;
    log_info("bench", "left out: " + std::string(error.what()));
    return std::nullopt;
  }
}

class WeightPricing {
 public:
  explicit WeightPricing(const VideoBench& bench) : bench_(bench), collector_(bench) {}

  void measure(const Variant& variant);
  bench::PriceReport finish();

 private:
  bool is_first() const { return collector_.rows().empty(); }
  void measure_logits(const Variant& variant, const OpenedModel& opened, bench::PriceRow& row);
  void note_model(const Variant& variant, const OpenedModel& opened);
  // Why the figures are no table for later choices; empty if they are.
  std::string find_obstacle() const;
  plan::PriceTable make_table() const;

  const VideoBench& bench_;
  PriceCollector collector_;
  std::optional<ForcedRuns> forced_;
  std::vector<Variant> measured_;  // parallel to the rows
  std::string model_hash_;
  std::string base_hash_;
};

void WeightPricing::measure(const Variant& variant) {
  const std::optional<OpenedModel> opened = open(bench_, variant, is_first());
  if (!opened.has_value()) return;
  note_model(variant, *opened);
  const std::string name = variant.format + (variant.is_base ? " of " + bench_.wanted.price_base
                                                             : std::string(" weights"));
  if (is_first()) {
    log_info("bench", name + ": writes the captions that the others are compared on");
    forced_ = write_forced_runs(bench_, *opened);
  }
  bench::PriceRow& row = collector_.add_row(name);
  row.weight_bytes = opened->model->weight_bytes();
  measured_.push_back(variant);
  measure_logits(variant, *opened, row);
  const std::size_t number = measured_.size() - 1;
  std::vector<records::Record> records;
  for (int round = 0; round < bench_.wanted.repeat; ++round) {
    log_info("bench", name + ", run " + std::to_string(round + 1) + " of " +
                          std::to_string(bench_.wanted.repeat));
    bench::VideoRun run = run_once(bench_, *opened, opened->options, records);
    collector_.add_run(number, std::move(run), records);
  }
}

void WeightPricing::measure_logits(const Variant& variant, const OpenedModel& opened,
                                   bench::PriceRow& row) {
  if (forced_->captions == nullptr) return;
  log_info("bench", variant.format + ": logits at " +
                        counted(forced_->captions->positions(), "position", "positions"));
  row.logits = compare_logits(*forced_, opened);
}

void WeightPricing::note_model(const Variant& variant, const OpenedModel& opened) {
  (variant.is_base ? base_hash_ : model_hash_) = opened.model->content_hash().hex();
}

std::string WeightPricing::find_obstacle() const {
  const bench::PriceRow& reference = collector_.rows().front();
  if (!reference.logits.has_value()) return "no clip was captioned";
  for (const bench::PriceRow& row : collector_.rows()) {
    if (row.median_run().num_failed > 0) return "clips failed";
  }
  if (reference.logits->positions < bench_.wanted.price_positions) {
    return "the captions have " + std::to_string(reference.logits->positions) + " of " +
           std::to_string(bench_.wanted.price_positions) +
           " positions; give more clips or prompts, or a smaller --price-positions";
  }
  if (model_hash_.empty()) return "the model could be held in no format";
  if (bench_.locations.prices.empty()) return "neither XDG_CACHE_HOME nor HOME names a folder";
  return {};
}

plan::PriceTable WeightPricing::make_table() const {
  const std::vector<bench::PriceRow>& rows = collector_.rows();
  plan::PriceTable table{.model_hash = model_hash_,
                         .base_hash = base_hash_,
                         .arithmetic = std::string(cpu_tier_name(bench_.context.cpu_tier)),
                         .positions = rows.front().logits->positions,
                         .clips = rows.front().median_run().num_clips,
                         .made_by = "caption-cli " + version_number(),
                         .formats = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (measured_[i].is_base) continue;
    const bench::PriceRow& row = rows[i];
    const auto num_captions = static_cast<double>(std::max<std::int64_t>(1, row.captions.all));
    plan::FormatPrice price{
        .format = measured_[i].format,
        .mean_kl = row.logits->mean_kl,
        .p99_kl = row.logits->p99_kl,
        .top1_agreement = row.logits->top1_agreement,
        .equal_captions = static_cast<double>(row.captions.equal) / num_captions,
        .weight_bytes = row.weight_bytes.value(),
        .decode_tokens_per_s = row.engine_tokens_per_s()};
    if (!row.scores.empty()) price.meteor_ko = row.scores.front().value;
    if (!row.differences.empty()) {
      const bench::ScoreDifference& difference = row.differences.front();
      price.meteor_ko_difference = plan::PairedDifference{
          .value = difference.value, .low = difference.low, .high = difference.high};
    }
    table.formats.push_back(std::move(price));
  }
  return table;
}

bench::PriceReport WeightPricing::finish() {
  const std::string obstacle = find_obstacle();
  std::string path;
  if (obstacle.empty()) {
    path = plan::write_price_table(make_table(), bench_.locations.prices);
    log_info("bench", "price table of this model: " + path);
  } else {
    log_info("bench", "no price table is written: " + obstacle);
  }
  bench::PriceReport report = collector_.take_report();
  report.price_table = path;
  return report;
}

}  // namespace

bench::PriceReport price_weights(const VideoBench& bench, const config::Preset& preset) {
  WeightPricing pricing(bench);
  for (const Variant& variant : variants_of(preset, bench.wanted.price_base)) {
    pricing.measure(variant);
  }
  return pricing.finish();
}

}  // namespace caption::cli
