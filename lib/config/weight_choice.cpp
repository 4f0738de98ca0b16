#include "config/weight_choice.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "config/choices.h"
#include "config/resolve.h"
#include "config/resources.h"

namespace caption::config {
namespace {

std::optional<plan::FoundPriceTable> find_prices(const std::optional<Sha256>& model_hash,
                                                 const Locations& locations) {
  if (!model_hash.has_value()) return std::nullopt;
  try {
    return plan::find_price_table(*model_hash, price_folders(locations));
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    log_warning("plan",
                "the measured prices of weights are not used: " + std::string(error.what()));
    return std::nullopt;
  }
}

// Whether the model can be held so, by this build and without a second rounding.
bool can_be_loaded(const QuantizationSection& quantization, const model::Blueprint& blueprint) {
  return weights::can_be_held(weight_format(quantization)) &&
         !find_rounded_codes(quantization, blueprint).has_value();
}

}  // namespace

plan::FormatReport compare_formats(RunPlanner& planner, const std::optional<Sha256>& model_hash) {
  const PlannedRun& run = planner.run();
  std::optional<plan::FoundPriceTable> prices = find_prices(model_hash, run.loaded.locations);
  std::vector<plan::FormatRow> rows;
  for (const Choice<WeightFormat>& choice : kWeightFormats) {
    QuantizationSection quantization = planner.preset().quantization;
    quantization.weights = choice.value;
    if (choice.value == WeightFormat::kAuto || !can_be_loaded(quantization, run.found.blueprint)) {
      continue;
    }
    plan::PlanInput input = planner.input(choice.value);
    limit_frames(planner.preset(), input);
    std::optional<plan::FormatPrice> price;
    if (prices.has_value()) {
      const plan::FormatPrice* const found = prices->table.find(choice.name);
      if (found != nullptr) price = *found;
    }
    rows.push_back(
        plan::make_format_row(std::string(choice.name), plan::make_plan(input), std::move(price)));
  }
  const ModelSection& model = planner.preset().model;
  return plan::make_format_report(
      std::move(rows), std::move(prices),
      model.is_composed ? "--preset " + run.loaded.path.string() : "--model " + model.path);
}

const plan::FormatRow& planned_row(const plan::FormatReport& report) {
  if (const plan::FormatRow* const chosen = report.chosen()) return *chosen;
  const auto is_smaller = [](const plan::FormatRow& a, const plan::FormatRow& b) {
    return a.cost.memory_bytes < b.cost.memory_bytes;
  };
  CAPTION_CHECK(!report.rows.empty(), "config: a model that no format can hold");
  return *std::min_element(report.rows.begin(), report.rows.end(), is_smaller);
}

WeightFormat weights_of(const plan::FormatRow& row) {
  return find_choice<WeightFormat>(row.cost.name).value();
}

WeightFormat chosen_weights(const plan::FormatReport& report) {
  const plan::FormatRow& smallest = planned_row(report);
  if (report.chosen() != nullptr) return weights_of(smallest);
  throw Error(smallest.plan.is_refused_by_options ? ErrorCode::kUsage : ErrorCode::kOutOfMemory,
              "--dtype auto: " + report.choice.reason + "; in " + smallest.cost.name + ", " +
                  smallest.plan.limit_reason);
}

}  // namespace caption::config
