// apps/caption-cli/inspect_model.h: what `inspect` says of models, parts of models, adapters and
// models that are not here. Reads configurations and the headers of weight files, no weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "globals.h"

namespace caption::cli {

struct ModelInspection {
  std::string text;  // lines; empty when nothing is known
  std::string json;  // one object on one line
  // The error with which `run` would end with this model; for a part of a model, an adapter or a
  // projector what keeps it from being used. Not set: nothing.
  std::optional<Error> refusal;
};

enum class WithHash { kNo, kYes };

// `name` is a model's folder or its name on the hub or in the table of known models, the folder of
// an adapter, or a file of weights (.safetensors, .gguf). `adapters` are those of --adapter, for
// whole models. With kYes a whole model's digest is said as well, for which all its weights are
// read. Throws Error for the machine's faults, and kUsage for adapters of a part of a model.
ModelInspection inspect_model(const std::string& name, const std::vector<std::string>& adapters,
                              WithHash hash, const Globals& globals);

// Whether a name that is no file or folder of the working folder may be that of a model: a place
// where `run` would find one, "organisation/model", where there is no folder of the organisation's
// name and no video's ending, or a known short name.
bool is_model_name(const std::string& name, const Globals& globals);

}  // namespace caption::cli
