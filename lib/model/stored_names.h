// model/stored_names.h: where the files of a model have the parameters of its blueprint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "weights/source.h"

namespace caption::model {

// How a source names the parameters of a group.
struct GroupNames {
  std::string prefix;
  bool is_other_layout = false;

  StoredName of(const Parameter& parameter) const;
};

// Returns the first prefix and layout under which the source has the group's first parameter.
// Throws Error(kBadModel) when there is none.
GroupNames find_group_names(const weights::Source& source, const std::vector<std::string>& prefixes,
                            const Parameter& first);

// Returns the shape of the tensor that holds `parameter` at `where`.
Shape tensor_shape(const Parameter& parameter, const StoredName& where);

// Returns the place of each parameter of a model of one weight file, in the order of
// Blueprint::parameters, without a name for the LM head, which is tied to the embedding where
// files have none. The source may lack a tensor. Throws as find_group_names().
std::vector<StoredName> find_stored_names(const Blueprint& blueprint,
                                          const weights::Source& source);

}  // namespace caption::model
