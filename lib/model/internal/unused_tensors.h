// model/internal/unused_tensors.h: the tensors of weight files that no parameter of a model takes.
// A file with tensors that the configuration does not describe is another model's, and would give
// other captions without any message.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "weights/source.h"

namespace caption::model {

// `used` are the names that the blueprint's parameters take, of each source; Blueprint::ignored
// names others that may be there, and so may buffers that models of any family save (position_ids,
// inv_freq). Throws Error(kBadModel) that names the first three others. Logs a warning for an LM
// head that is not the embedding although the model ties them: the reference ignores it too.
void check_unused_tensors(const Blueprint& blueprint,
                          std::span<const std::unique_ptr<weights::Source>> sources,
                          const std::vector<std::vector<std::string>>& used);

}  // namespace caption::model
