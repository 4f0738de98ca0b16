// config/comparable_settings.h: the settings of manifests in the form in which runs are compared.
//
// A run continues an output if every setting that captions depend on is the same. Three things are
// no differences: an option that has no effect beside the others (--seed at --temperature 0),
// `auto` and the value that it stands for, and quantization.requantize, which permits a run and
// never decides how weights are rounded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/identity.h"

namespace caption::config {

// Returns the settings without those that have no effect beside the others, and with the values
// that `auto` stands for. Settings that are no options (prompts, model, arithmetic) stay as they
// are; so do options of other versions and values that this version does not read.
Settings effective_settings(Settings settings);

// Brings the settings of an output and of a run to this form (records::Manifest::make_comparable).
// A setting without effect in one of the two is left out of both: the setting that takes its effect
// away differs as well, and says why the runs differ.
void make_comparable(Settings& there, Settings& now);

}  // namespace caption::config
