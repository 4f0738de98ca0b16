#include "config/weight_choice.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/join.h"
#include "base/log.h"
#include "config/choices.h"
#include "config/plan_input.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "model/file_codes.h"
#include "model/model_files.h"
#include "quantise/made_blueprint.h"

namespace caption::config {
namespace {

// A table that cannot be used, which a warning names, does not hide that of another folder.
std::optional<plan::FoundPriceTable> find_prices(const std::optional<Sha256>& model_hash,
                                                 const Locations& locations) {
  std::optional<plan::FoundPriceTable> best;
  if (!model_hash.has_value()) return best;
  for (const std::filesystem::path& folder : price_folders(locations)) {
    try {
      auto found = plan::find_price_table(*model_hash, std::span(&folder, 1));
      const bool is_better = found.has_value() &&
                             (!best.has_value() || found->table.positions > best->table.positions);
      if (is_better) best = std::move(found);
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      log_warning("plan", "measured prices of weights are not used: " + std::string(error.what()));
    }
  }
  return best;
}

// Formats for which the preset asks for codes that the files do not hold, and formats that would
// round codes a second time.
struct LeftOut {
  std::vector<std::string> not_held = {};
  std::vector<std::string> rounded = {};

  std::vector<std::string> texts() const {
    std::vector<std::string> out = not_held;
    if (!rounded.empty()) {
      out.push_back(join(rounded) +
                    ": would round the codes of the file a second time; --requantize true does");
    }
    return out;
  }
};

// Whether the model can be held so, by this build and without a second rounding; adds the format to
// `left_out` if the preset is why not.
bool can_be_loaded(const QuantizationSection& quantization, const model::Blueprint& blueprint,
                   LeftOut& left_out) {
  const weights::WeightFormat format = weight_format(quantization);
  const std::string name(choice_name(quantization.weights));
  // The codes of AWQ and GPTQ are kept by f32 and bf16, which have rows.
  const bool is_codes = weights::is_file_format(named_format(quantization.weights));
  if (is_codes || !runs_here(quantization.weights)) return false;
  try {
    model::require_file_codes(blueprint.name, blueprint, format);
  } catch (const Error& error) {
    left_out.not_held.push_back(name + ": " + error.what());
    return false;
  }
  if (!find_rounded_codes(quantization, blueprint).has_value()) return true;
  left_out.rounded.push_back(name);
  return false;
}

// Whether the planned device multiplies by weights of the format.
bool has_products(RunPlanner& planner, WeightFormat choice) {
  const bool has_on_cpu = !weights::find_obstacle(Context{}, named_format(choice)).has_value();
  return has_on_cpu || !find_format_obstacle(planner.input(choice)).has_value();
}

// Whether `quantize` takes the model: a folder of safetensors whose weights are no codes. A model
// that is known by its name alone is downloaded as one.
bool can_be_quantised(const PlannedRun& run) {
  const ModelSection& model = run.loaded.preset.model;
  if (model.is_composed) return false;
  const bool is_here = run.found.note.empty();
  if (is_here && model::is_gguf_model(find_model(model.path, run.loaded.locations))) return false;
  const std::vector<model::Parameter>& parameters = run.found.blueprint.parameters;
  return std::none_of(parameters.begin(), parameters.end(), [](const model::Parameter& parameter) {
    return parameter.codes.has_value() || parameter.e4m3.has_value();
  });
}

// The price of a checkpoint that was made in the format with default options, held as `choice`: of
// a plain one and a calibrated one, the one that loses less.
struct MadePrice {
  std::string made_as;
  std::optional<plan::FormatPrice> price = {};
  std::int64_t positions = 0;
};
MadePrice find_made_price(std::span<const plan::FoundPriceTable> tables, const std::string& format,
                          WeightFormat choice) {
  MadePrice best{.made_as = format};
  for (const plan::FoundPriceTable& found : tables) {
    const std::string& made_as = found.table.made_as;
    if (made_as != format && made_as != format + " --calibrate") continue;
    const plan::FormatPrice* const price = found.table.find(choice_name(choice));
    if (price == nullptr || (best.price && best.price->mean_kl <= price->mean_kl)) continue;
    best = {.made_as = made_as, .price = *price, .positions = found.table.positions};
  }
  return best;
}

// Adds the rows of the checkpoints that can be made of the model, and to `left_out` the formats
// that do not hold it. Returns the fewest positions of their prices; 0 if they have none.
std::int64_t add_made_rows(RunPlanner& planner, const std::optional<Sha256>& model_hash,
                           std::vector<plan::FormatRow>& rows, LeftOut& left_out) {
  const PlannedRun& run = planner.run();
  std::int64_t positions = 0;
  if (!can_be_quantised(run)) return positions;
  std::vector<plan::FoundPriceTable> tables;
  if (model_hash.has_value()) {
    tables = plan::find_made_price_tables(*model_hash, price_folders(run.loaded.locations));
  }
  for (const std::string_view format : quantise::code_formats()) {
    model::Blueprint blueprint;
    try {
      blueprint = quantise::made_blueprint(run.found.blueprint, format);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      left_out.not_held.push_back(plan::made_name(format) + ": " + error.what());
      continue;
    }
    const WeightFormat choice =
        model::rounds_activations(blueprint) ? WeightFormat::kW8A8 : WeightFormat::kBF16;
    plan::PlanInput input = planner.input(choice, blueprint);
    limit_frames(planner.preset(), input);
    MadePrice found = find_made_price(tables, std::string(format), choice);
    if (found.price) {
      positions = positions == 0 ? found.positions : std::min(positions, found.positions);
    }
    rows.push_back(plan::make_made_row(std::move(found.made_as), plan::make_plan(input),
                                       std::move(found.price)));
  }
  return positions;
}

}  // namespace

plan::FormatReport compare_formats(RunPlanner& planner, const std::optional<Sha256>& model_hash,
                                   ComparedFormats compared) {
  const PlannedRun& run = planner.run();
  std::optional<plan::FoundPriceTable> prices = find_prices(model_hash, run.loaded.locations);
  std::vector<plan::FormatRow> rows;
  LeftOut left_out;
  const bool rounds_activations = model::rounds_activations(run.found.blueprint);
  for (const Choice<WeightFormat>& choice : kWeightFormats) {
    QuantizationSection quantization = planner.preset().quantization;
    quantization.weights = choice.value;
    const bool has_row = choice.value != WeightFormat::kAuto &&
                         has_products(planner, choice.value) &&
                         can_be_loaded(quantization, run.found.blueprint, left_out);
    if (!has_row) continue;
    plan::PlanInput input = planner.input(choice.value);
    limit_frames(planner.preset(), input);
    std::optional<plan::FormatPrice> price;
    if (prices.has_value()) {
      const plan::FormatPrice* const found = prices->table.find(choice.name);
      if (found != nullptr) price = *found;
    }
    rows.push_back(
        plan::make_format_row(std::string(choice.name), plan::make_plan(input), std::move(price)));
    rows.back().cost.is_own = choice.value == WeightFormat::kW8A8 && rounds_activations;
  }
  const std::int64_t made_positions = compared == ComparedFormats::kHeldAndMade
                                          ? add_made_rows(planner, model_hash, rows, left_out)
                                          : 0;
  const ModelSection& model = planner.preset().model;
  plan::FormatReport report = plan::make_format_report(
      std::move(rows), std::move(prices),
      model.is_composed ? "--preset " + run.loaded.path.string() : "--model " + model.path);
  report.made_positions = made_positions;
  report.left_out = left_out.texts();
  return report;
}

WeightFormat weights_of(const plan::FormatRow& row) {
  return find_choice<WeightFormat>(row.cost.name).value();
}

WeightFormat chosen_weights(const plan::FormatReport& report) {
  const plan::FormatRow& planned = report.planned();
  if (report.chosen() != nullptr) return weights_of(planned);
  throw Error(planned.plan.is_refused_by_options() ? ErrorCode::kUsage : ErrorCode::kOutOfMemory,
              "--dtype auto: " + report.choice.reason);
}

}  // namespace caption::config
