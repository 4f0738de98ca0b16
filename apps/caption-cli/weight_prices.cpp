#include "weight_prices.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "config/choices.h"
#include "config/preset_blueprint.h"
#include "config/resources.h"
#include "forced_runs.h"
#include "pipeline/input_list.h"
#include "plan/price_table.h"
#include "price_comparison.h"
#include "quantise/made_blueprint.h"
#include "records/file_name.h"
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

// Whether files of the model hold codes, which are rounded already.
bool is_quantised(const config::ModelSection& model, const config::Locations& locations) {
  const model::Blueprint blueprint = config::find_preset_blueprint(model, locations).blueprint;
  return std::any_of(blueprint.parameters.begin(), blueprint.parameters.end(),
                     [](const model::Parameter& parameter) { return parameter.codes.has_value(); });
}

void require_unrounded_base(const VideoBench& bench) {
  config::ModelSection base;
  base.path = bench.wanted.price_base;
  if (base.path.empty() || !is_quantised(base, bench.locations)) return;
  throw Error(ErrorCode::kUsage, "bench: --price-base " + base.path +
                                     " is quantised itself; name the model that it was made of");
}

// What makes the logits others than those of a plain run; empty if nothing does.
std::string find_changed_logits(const config::Preset& preset) {
  // A dtype that is given is that of all formats, of which f32 has another default than the others.
  if (preset.quantization.kv_cache != config::KvFormat::kAuto) {
    return "--kv-dtype changes the logits; leave it at auto";
  }
  if (preset.engine.attention != config::CompressionMode::kNone) {
    return "--attention changes the logits; leave it out";
  }
  if (!preset.model.adapter.empty()) return "--adapter changes the logits; leave it out";
  if (preset.quantization.double_quant) return "double_quant changes the logits; leave it out";
  return {};
}

// The reference first.
std::vector<Variant> variants_of(const Context& context, const config::Preset& preset,
                                 const std::string& base) {
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
    if (!weights::can_be_held(format) || weights::find_obstacle(context, format)) continue;
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
    const bool is_of_format =
        error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kUsage;
    if (is_first || !is_of_format) throw;
    log_info("bench", "left out: " + std::string(error.what()));
    return std::nullopt;
  }
}

class WeightPricing {
 public:
  WeightPricing(const VideoBench& bench, const config::Preset& preset)
      : bench_({.wanted = bench.wanted,
                .context = bench.context,
                .machine = bench.machine,
                .locations = bench.locations,
                .inputs = inputs_,
                .prompts = bench.prompts,
                .references = bench.references}),
        preset_(preset),
        collector_(bench_) {
    for (std::size_t i = 0; i < bench.inputs.size(); ++i) add_input(bench.inputs, i, inputs_);
  }
  WeightPricing(const WeightPricing&) = delete;
  WeightPricing& operator=(const WeightPricing&) = delete;

  // Returns false if no clip could be captioned, so that nothing can be compared.
  bool measure(const Variant& variant);
  PricedWeights finish();

 private:
  bool is_first() const { return collector_.rows().empty(); }
  static void add_input(const pipeline::InputList& from, std::size_t i, pipeline::InputList& to) {
    to.add(from.path(i), from.origin(i), from.adapter(i));
  }
  // Takes the clips off the inputs.
  void leave_out(FailedClips failed);
  void measure_logits(const Variant& variant, const OpenedModel& opened, bench::PriceRow& row);
  void measure_runs(const OpenedModel& opened, const std::string& name);
  void note_model(const Variant& variant, const OpenedModel& opened);
  // Why the figures are no table for later choices; empty if they are.
  std::string find_obstacle() const;
  plan::PriceTable make_table() const;
  // Returns the path; empty, with a line in the log, for a table that is not to be kept.
  std::string keep_table() const;

  pipeline::InputList inputs_;  // without the clips that were left out
  FailedClips failed_;          // those that were left out
  VideoBench bench_;            // refers to inputs_
  const config::Preset& preset_;
  PriceCollector collector_;
  std::optional<ForcedRuns> forced_;
  std::vector<Variant> measured_;  // parallel to the rows
  std::string work_;
  std::string model_hash_;
  std::string base_hash_;
  std::string made_as_;
};

void WeightPricing::leave_out(FailedClips failed) {
  if (failed.empty()) return;
  pipeline::InputList rest;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (failed.count(records::escape_file_name(inputs_.path(i))) == 0) add_input(inputs_, i, rest);
  }
  inputs_ = std::move(rest);
  failed_.merge(failed);
}

bool WeightPricing::measure(const Variant& variant) {
  const std::optional<OpenedModel> opened = open(bench_, variant, is_first());
  if (!opened.has_value()) return true;
  note_model(variant, *opened);
  const std::string name = variant.format + (variant.is_base ? " of " + bench_.wanted.price_base
                                                             : std::string(" weights"));
  if (is_first()) {
    work_ = describe_work(*opened);
    log_info("bench", name + ": writes the captions that the others are compared on");
    forced_ = write_forced_runs(bench_, *opened);
    if (forced_->captions == nullptr) return false;
    leave_out(forced_->failed);
  }
  bench::PriceRow& row = collector_.add_row(name);
  row.weight_bytes = opened->model->weight_bytes();
  measured_.push_back(variant);
  measure_logits(variant, *opened, row);
  measure_runs(*opened, name);
  return true;
}

void WeightPricing::measure_runs(const OpenedModel& opened, const std::string& name) {
  const std::size_t number = measured_.size() - 1;
  std::vector<records::Record> records;
  for (int round = 0; round < bench_.wanted.repeat; ++round) {
    log_info("bench", name + ", run " + std::to_string(round + 1) + " of " +
                          std::to_string(bench_.wanted.repeat));
    bench::VideoRun run = run_once(bench_, opened, opened.options, records);
    // Equal files count once, as in the run.
    std::set<std::string> contents;
    for (const auto& [video, content] : failed_) contents.insert(content);
    run.num_failed += std::ssize(contents);
    if (number == 0) leave_out(find_failed(records));
    collector_.add_run(number, std::move(run), records);
  }
}

void WeightPricing::measure_logits(const Variant& variant, const OpenedModel& opened,
                                   bench::PriceRow& row) {
  log_info("bench",
           variant.format + ": logits at " + counted(forced_->captions->positions(), "position"));
  row.logits = compare_logits(*forced_, opened);
}

void WeightPricing::note_model(const Variant& variant, const OpenedModel& opened) {
  (variant.is_base ? base_hash_ : model_hash_) = opened.model->content_hash().hex();
  if (variant.is_base || base_hash_.empty()) return;
  made_as_ =
      quantise::read_made_as(config::find_model(variant.preset.model.path, bench_.locations));
}

std::string WeightPricing::find_obstacle() const {
  const bench::PriceRow& reference = collector_.rows().front();
  if (std::string changed = find_changed_logits(preset_); !changed.empty()) return changed;
  if (base_hash_.empty() && is_quantised(preset_.model, bench_.locations)) {
    return "the model is quantised, so that f32 is no reference; --price-base names the model that "
           "it was made of";
  }
  for (const bench::PriceRow& row : collector_.rows()) {
    if (row.median_run().num_failed > 0) return "clips failed";
  }
  if (reference.logits->positions < bench_.wanted.price_positions) {
    return "the captions have " + std::to_string(reference.logits->positions) + " of " +
           std::to_string(bench_.wanted.price_positions) +
           " positions; give more clips or prompts" +
           (bench_.wanted.price_positions > plan::kLeastPositions
                ? std::string(", or a smaller --price-positions")
                : std::string());
  }
  if (model_hash_.empty()) return "the model could be held in no format";
  if (bench_.locations.prices.empty()) return "neither XDG_CACHE_HOME nor HOME names a folder";
  return {};
}

plan::PriceTable WeightPricing::make_table() const {
  const std::vector<bench::PriceRow>& rows = collector_.rows();
  plan::PriceTable table{.model_hash = model_hash_,
                         .base_hash = base_hash_,
                         .made_as = made_as_,
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

std::string WeightPricing::keep_table() const {
  std::string obstacle = find_obstacle();
  plan::PriceTable table;
  if (obstacle.empty()) {
    table = make_table();
    obstacle = plan::find_obstacle(table, bench_.locations.prices);
  }
  if (!obstacle.empty()) {
    log_info("bench", "no price table is written: " + obstacle);
    return {};
  }
  const std::string path = plan::write_price_table(table, bench_.locations.prices);
  log_info("bench", "price table of this model: " + path);
  const std::optional<plan::FoundPriceTable> used = plan::find_price_table(
      parse_sha256(model_hash_).value(), config::price_folders(bench_.locations));
  if (used.has_value() && used->path != path) {
    log_info("bench", "--dtype auto follows " + used->path.string() +
                          ", which has more positions, " + std::to_string(used->table.positions));
  }
  return path;
}

PricedWeights WeightPricing::finish() {
  std::string path;
  std::string warning;
  try {
    path = keep_table();
  } catch (const Error& error) {
    // The measurement may have taken hours, and is reported all the same.
    warning = "the price table is not kept: " + std::string(error.what());
  }
  PricedWeights priced{
      .report = collector_.take_report(), .work = work_, .warning = std::move(warning)};
  priced.report.price_table = path;
  return priced;
}

}  // namespace

PricedWeights price_weights(const VideoBench& bench, const config::Preset& preset) {
  require_unrounded_base(bench);
  WeightPricing pricing(bench, preset);
  for (const Variant& variant : variants_of(bench.context, preset, bench.wanted.price_base)) {
    if (!pricing.measure(variant)) return {};
  }
  return pricing.finish();
}

}  // namespace caption::cli
