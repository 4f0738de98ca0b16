// config/weight_choice.h: compares the formats in which a run's weights could be held, and chooses
// one for `quantization.weights: auto` (plan/format_choice.h has the rule).
#pragma once

#include <optional>

#include "base/sha256.h"
#include "config/run_planner.h"
#include "plan/format_report.h"

namespace caption::config {

enum class ComparedFormats {
  kHeld,         // the model can be held in them
  kHeldAndMade,  // those, and the formats of checkpoints that `quantize` can make of the model
};

// Compares every format that this build can hold the run's model in; a file with codes has those
// that keep them, unless the preset has requantize. `model_hash` is CaptionModel::content_hash(),
// by which the measured prices are found; without it, and for a table that cannot be used, which a
// warning names, no price is measured. Throws as RunPlanner::input() and make_plan().
// Checkpoints to be made have rows of their own, with prices of those that were made of the model.
plan::FormatReport compare_formats(RunPlanner& planner, const std::optional<Sha256>& model_hash,
                                   ComparedFormats compared = ComparedFormats::kHeld);

// The format of a row as the option's value.
WeightFormat weights_of(const plan::FormatRow& row);

// The choice of the report as the option's value. Throws Error with the limit of the smallest
// format if none is chosen: kUsage where options are the reason, else kOutOfMemory.
WeightFormat chosen_weights(const plan::FormatReport& report);

}  // namespace caption::config
