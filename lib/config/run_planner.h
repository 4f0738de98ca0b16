// config/run_planner.h: makes the input of a run's plan, for any format of its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/context.h"
#include "backend/machine.h"
#include "base/error.h"
#include "bench/roofline.h"
#include "config/load_preset.h"
#include "config/preset_blueprint.h"
#include "config/prompt_tokens.h"
#include "plan/plan.h"

namespace caption::config {

// A run to be planned.
struct PlannedRun {
  Context context;
  Machine machine;
  LoadedPreset loaded;    // with the defaults of the model's generation_config.json
  PresetBlueprint found;  // must have a decoder; video.max_pixels is applied
  std::optional<PromptTokens> prompt_tokens = {};  // not set: kUsualPromptTokens
  // bench::ProcessMemory::anonymous_bytes before the model is opened, whose weights count as such.
  std::int64_t process_bytes = 0;
};

// What `plan` is asked to assume; the default is what a run on this machine meets.
struct PlanAssumptions {
  std::string card = {};  // name of a card (plan/cards.h); empty: the preset's device
  std::optional<std::int64_t> memory_bytes = {};
  std::optional<double> bytes_per_s = {};
  std::optional<double> flops_per_s = {};
  std::optional<std::int64_t> prompt_tokens = {};
  std::optional<std::int64_t> output_tokens = {};
  model::FrameSize frame = {};
  // The rates of this machine, where they are measured already.
  std::optional<bench::Roofline> measured = {};
  // Whether rates that were measured earlier (config/kept_rates.h) are taken where there are some.
  bool takes_kept_rates = false;
  // What to do where the rates of a card are not known, as the end of a sentence; not null.
  const char* rates_advice = "give --bandwidth and --flops";
};

// Not thread-safe.
class RunPlanner {
 public:
  // Throws Error(kUsage) for a card that is not known; kUnavailable for a CUDA preset where no card
  // is named or here; kBadModel for a draft model without decoder, and as find_blueprint() for one
  // that is not found.
  RunPlanner(PlannedRun run, PlanAssumptions assumed);

  const PlannedRun& run() const { return run_; }
  const Preset& preset() const { return run_.loaded.preset; }

  // The input for weights in this format. The first call for the CPU measures and keeps its
  // rates, unless both are assumed or kept ones are taken. Throws Error(kUsage) for rates that are
  // neither known nor assumed. Adapters that cannot be read are left out, and adapter_error() is
  // set.
  plan::PlanInput input(WeightFormat format) { return input(format, run_.found.blueprint); }
  // The same for a checkpoint that is to be made of the model, with its blueprint.
  plan::PlanInput input(WeightFormat format, const model::Blueprint& blueprint);
  const std::optional<Error>& adapter_error() const { return adapter_error_; }

 private:
  void add_adapters(const Preset& preset, const model::Blueprint& blueprint,
                    plan::PlanInput& input);
  void add_prompt(plan::PlanInput& input) const;
  void set_device(const Preset& preset, plan::PlanInput& input) const;
  bench::Roofline find_rates() const;
  void set_rates(plan::PlanInput& input);

  PlannedRun run_;
  PlanAssumptions assumed_;
  std::optional<model::Blueprint> draft_;
  std::optional<Error> adapter_error_;
};

// With sampling by length (fps=F) the number of frames depends on a clip's length, and a run starts
// if one frame fits. Lowers the input's frames to those of the longest clip that fits, if one frame
// does, and returns whether it did.
bool limit_frames(const Preset& preset, plan::PlanInput& input);

// The error with which a model in the preset's format is refused because it would round codes of
// the file a second time; std::nullopt if it is not.
std::optional<Error> find_rounded_codes(const QuantizationSection& quantization,
                                        const model::Blueprint& blueprint);

}  // namespace caption::config
