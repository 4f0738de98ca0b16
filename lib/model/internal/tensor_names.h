// model/internal/tensor_names.h: the map of tensor names that a preset gives for a composed model.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "weights/source.h"

namespace caption::model {

// Gives the tensors of vision tower, projector and language model, in this order, other names.
// `entries` are those of ComposedSource::tensor_names. Throws Error(kBadPreset) for an entry that
// is no such text, Error(kBadModel) for one that begins no name in the files that it is for; a
// source that is null is a file that does not exist, and leaves the entries for it unchecked.
using ComposedSources = std::array<std::unique_ptr<weights::Source>, 3>;
ComposedSources rename_tensors(ComposedSources sources, const std::vector<std::string>& entries);

}  // namespace caption::model
