// apps/caption-cli/planned_run.h: what the commands share that plan a run before it is made:
// `plan`, and `run` and `bench` where the weights' format is to be chosen.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "backend/context.h"
#include "backend/machine.h"
#include "config/load_preset.h"
#include "config/run_planner.h"
#include "config/unused_options.h"
#include "config/weight_choice.h"
#include "model/caption_model.h"
#include "plan/format_report.h"
#include "run_obstacles.h"

namespace caption::cli {

struct CheckedRun {
  config::PlannedRun run;
  RunCheck check;
};

// Checks whether the run would start, and finds what its plan needs: the model's shape, its
// prompt's tokens and its generation defaults. Throws the error with which the run would end for a
// model of no known shape or without decoder, and Error(kCancelled) as check_run().
CheckedRun check_planned_run(const Context& context, const Machine& machine,
                             config::LoadedPreset loaded, const std::vector<std::string>& prompts,
                             const std::atomic<bool>* cancelled = nullptr);

// Warns, under the command's name, of options of the command line that have no effect
// (config::describe_unused()), after the model's generation defaults are applied. Finds
// `facts.rounds_codes` by itself. Throws as config::rounds_codes().
void warn_of_unused(const char* command, const config::LoadedPreset& loaded,
                    std::span<const config::Override> flags, config::RunFacts facts);

// Applies the generation defaults of the model's files as `run` does; none where they cannot be
// read.
void adopt_generation_defaults(config::LoadedPreset& loaded);

// config::compare_formats() with the prices measured for `model`; null: for the run's model, if it
// can be opened.
plan::FormatReport compare_formats(
    config::RunPlanner& planner, const model::CaptionModel* model,
    config::ComparedFormats compared = config::ComparedFormats::kHeld);

// Replaces `auto` in quantization.weights by the format that is chosen for this machine, and logs
// format and reason under the command's name; leaves another value as it is. Only errors are logged
// meanwhile, also those of other threads, which therefore should have no warnings. Throws as
// check_planned_run() and config::chosen_weights().
void settle_weights(const char* command, const Context& context, const Machine& machine,
                    config::LoadedPreset& loaded, const std::vector<std::string>& prompts,
                    const std::atomic<bool>* cancelled = nullptr);

}  // namespace caption::cli
