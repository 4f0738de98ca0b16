// config/plan_input.h: makes the input of a plan from a preset, a model and a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/context.h"
#include "backend/machine.h"
#include "bench/roofline.h"
#include "config/preset.h"
#include "config/prompt_tokens.h"
#include "model/blueprint.h"
#include "plan/cards.h"
#include "plan/plan.h"

namespace caption::config {

// Assumed text tokens of a prompt when the model's tokenizer is not available.
inline constexpr std::int64_t kUsualPromptTokens = 64;

// The input without a device: the preset's options for `model`, prompts of kUsualPromptTokens and
// captions of max_new_tokens.
plan::PlanInput plan_input(const Preset& preset, const Context& context,
                           const model::Blueprint& model);

// Sets the tokens before a caption, without those of vision.
void set_prompt(const PromptTokens& tokens, plan::PlanInput& input);

// Sets the device to a card, with its memory and the rates of its data sheet for the input's
// weights, or to a CUDA device that this machine has, with the rates of the card that its name
// means (bench::find_card_of()); they stay as they are where it means none.
void set_card(const plan::Card& card, plan::PlanInput& input);
void set_card(const CudaDevice& device, plan::PlanInput& input);

// Returns why the input's device cannot multiply by its format of weights (weights/format.h).
std::optional<std::string> find_format_obstacle(const plan::PlanInput& input);

// Limits the host's memory for evicted pages as a run on the GPUs of this machine does.
void limit_host_pages(const Preset& preset, const Machine& machine, plan::PlanInput& input);

// Sets the device to this machine's CPU, with its memory (`memory_bytes`, if given), and the memory
// for KV pages as `run` chooses it. Leaves fixed_bytes and the rates as they are.
void set_host(const Preset& preset, const Machine& machine,
              std::optional<std::int64_t> memory_bytes, plan::PlanInput& input);

// Measures this machine's CPU on the threads that the engine would use: in three rounds of all
// rates, of which the best of each counts. Takes a second, less with smaller options.
bench::Roofline measure_host(const Context& context, const Preset& preset, const Machine& machine,
                             const bench::RooflineOptions& options = {});
// The rates that bound a model in this format: memory, and the arithmetic of its products.
plan::Rates host_rates(const bench::Roofline& roofline, weights::WeightFormat format);

}  // namespace caption::config
