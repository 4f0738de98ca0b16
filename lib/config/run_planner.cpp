#include "config/run_planner.h"

#include <utility>

#include "base/join.h"
#include "config/adapters.h"
#include "config/devices.h"
#include "config/draft_model.h"
#include "config/kept_rates.h"
#include "config/plan_input.h"
#include "config/resolve.h"
#include "plan/cards.h"

namespace caption::config {
namespace {

// Throws Error unless the card to plan for is known: the one that is named, the one after which a
// CUDA preset is named, or the one of this machine.
void require_card(const PlannedRun& run, const std::string& card) {
  const Preset& preset = run.loaded.preset;
  const std::string names = join(plan::card_names());
  if (!card.empty() && !plan::find_card(card).has_value()) {
    throw Error(ErrorCode::kUsage,
                "--card: no card is known as \"" + card + "\"; there are " + names);
  }
  if (!card.empty() || preset.device.type != DeviceType::kCuda) return;
  if (!plan::find_card(preset.name).has_value() && run.machine.cuda_devices.empty()) {
    throw Error(ErrorCode::kUnavailable,
                "plan: " + device_choice(preset) +
                    " is for a CUDA device, and none is here; name a card with --card: " + names);
  }
}

}  // namespace

RunPlanner::RunPlanner(PlannedRun run, PlanAssumptions assumed)
    : run_(std::move(run)), assumed_(std::move(assumed)) {
  require_card(run_, assumed_.card);
  if (!has_draft_model(preset())) return;
  const std::string& draft = preset().speculative.draft_model;
  draft_ = find_blueprint(draft, run_.loaded.locations).blueprint;
  if (!draft_->text.has_value()) {
    throw Error(ErrorCode::kBadModel, draft_->name + ": has no decoder to draft with");
  }
}

void RunPlanner::add_adapters(const Preset& preset, const model::Blueprint& blueprint,
                              plan::PlanInput& input) {
  if (!run_.found.note.empty()) return;  // adapters need the names in the model's files
  try {
    input.adapters = measure_adapters(run_.context, preset, run_.loaded.locations, blueprint);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    adapter_error_ = error;
  }
}

void RunPlanner::add_prompt(plan::PlanInput& input) const {
  if (assumed_.prompt_tokens.has_value()) {
    input.prompt_tokens = *assumed_.prompt_tokens;
    input.prompt_option = "--prompt-tokens";
  } else if (run_.prompt_tokens.has_value()) {
    set_prompt(*run_.prompt_tokens, input);
  }
}

void RunPlanner::set_device(const Preset& preset, plan::PlanInput& input) const {
  const bool is_card = preset.device.type == DeviceType::kCuda || !assumed_.card.empty();
  if (!is_card) {
    input.fixed_bytes = run_.process_bytes;
    return set_host(preset, run_.machine, assumed_.memory_bytes, input);
  }
  if (const auto card = plan::find_card(assumed_.card.empty() ? preset.name : assumed_.card)) {
    set_card(*card, input);
  } else {
    set_card(chosen_gpus(preset, run_.machine).front(), input);
  }
  input.memory_bytes = assumed_.memory_bytes.value_or(input.memory_bytes);
  // The machine that a card which is not here will be in is not known.
  if (assumed_.card.empty() && !run_.machine.cuda_devices.empty()) {
    limit_host_pages(preset, run_.machine, input);
  }
}

bench::Roofline RunPlanner::find_rates() const {
  const std::filesystem::path& folder = run_.loaded.locations.rates;
  const RatesKey key = rates_key(run_.context, preset(), run_.machine);
  if (assumed_.takes_kept_rates) {
    if (const std::optional<bench::Roofline> kept = read_rates(folder, key)) return *kept;
  }
  const bench::Roofline rates = measure_host(run_.context, preset(), run_.machine);
  return keep_rates(folder, key, rates,
                    assumed_.takes_kept_rates ? KeepRates::kFirst : KeepRates::kReplace);
}

void RunPlanner::set_rates(plan::PlanInput& input) {
  const bool is_assumed = assumed_.bytes_per_s.has_value() && assumed_.flops_per_s.has_value();
  if (input.device == plan::PlanDevice::kHost && !is_assumed) {
    if (!assumed_.measured.has_value()) assumed_.measured = find_rates();
    input.rates = host_rates(*assumed_.measured, input.weights);
  }
  input.rates.bytes_per_s = assumed_.bytes_per_s.value_or(input.rates.bytes_per_s);
  input.rates.flops_per_s = assumed_.flops_per_s.value_or(input.rates.flops_per_s);
  if (is_assumed) {
    input.rates.source = "as given";
  } else if (assumed_.bytes_per_s.has_value() || assumed_.flops_per_s.has_value()) {
    input.rates.source += ", and as given";
  }
  if (input.rates.bytes_per_s <= 0 || input.rates.flops_per_s <= 0) {
    throw Error(ErrorCode::kUsage, "the bandwidth and FLOP rate of " + input.device_name +
                                       " are not known; " + assumed_.rates_advice);
  }
}

plan::PlanInput RunPlanner::input(WeightFormat format, const model::Blueprint& blueprint) {
  Preset preset = this->preset();
  preset.quantization.weights = format;
  plan::PlanInput input = plan_input(preset, run_.context, blueprint);
  input.draft = draft_;
  input.frame = assumed_.frame;
  if (assumed_.output_tokens.has_value()) {
    input.output_tokens = *assumed_.output_tokens;
    input.output_option = "--output-tokens";
  }
  add_adapters(preset, blueprint, input);
  add_prompt(input);
  set_device(preset, input);
  set_rates(input);
  return input;
}

bool limit_frames(const Preset& preset, plan::PlanInput& input) {
  if (!read_options(preset).sampling.is_by_length()) return false;
  const auto fits = [&input](std::int64_t num_frames) {
    plan::PlanInput tried = input;
    tried.num_frames = num_frames;
    return plan::make_plan(tried).fits;
  };
  if (fits(input.num_frames) || !fits(1)) return false;
  std::int64_t most = 1;
  std::int64_t too_many = input.num_frames;
  while (too_many - most > 1) {
    const std::int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  input.num_frames = most;
  return true;
}

std::optional<Error> find_rounded_codes(const QuantizationSection& quantization,
                                        const model::Blueprint& blueprint) {
  if (quantization.requantize) return std::nullopt;
  for (const model::Parameter& parameter : blueprint.parameters) {
    const weights::WeightFormat format = weight_format(quantization);
    const bool takes_e4m3 = format == weights::WeightFormat::kFp8 && parameter.e4m3 &&
                            parameter.role == weights::Role::kDecoderLinear;
    const auto& codes = takes_e4m3 ? parameter.e4m3 : parameter.codes;
    if (!codes) continue;
    try {
      weights::require_kept_codes(format, *codes, blueprint.name + ": tensor " + parameter.name);
    } catch (const Error& error) {
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace caption::config
