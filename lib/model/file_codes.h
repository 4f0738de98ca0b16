// model/file_codes.h: models in a format that is the codes of their files (weights/file_format.h).
#pragma once

#include <string>

#include "model/blueprint.h"
#include "weights/format.h"

namespace caption::model {

// Returns the format in which the parameters without codes are held: kBF16 in a file format, else
// `format` itself.
weights::WeightFormat format_beside_codes(weights::WeightFormat format);

// Throws Error(kUsage) with what to do, unless the files of `blueprint`, whose
// Parameter::codes are set, hold the codes that a file format names and no others; `name` is the
// model's for the message. Any other format passes.
void require_file_codes(const std::string& name, const Blueprint& blueprint,
                        weights::WeightFormat format);

// Whether the checkpoint says that every matrix of codes is multiplied as WeightFormat::kW8A8
// multiplies it (StoredCodes::rounds_activations), and holds one.
bool rounds_activations(const Blueprint& blueprint);

}  // namespace caption::model
