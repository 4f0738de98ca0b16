#include "model/stored_names.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"

namespace caption::model {

StoredName GroupNames::of(const Parameter& parameter) const {
  StoredName where{.name = parameter.name};
  if (is_other_layout && parameter.other_layout) where = *parameter.other_layout;
  where.name = prefix + where.name;
  return where;
}

GroupNames find_group_names(const weights::Source& source, const std::vector<std::string>& prefixes,
                            const Parameter& first) {
  std::string tried;
  std::optional<std::string> in_file;
  for (const bool is_other_layout : {false, true}) {
    if (is_other_layout && !first.other_layout) continue;
    for (const std::string& prefix : prefixes) {
      GroupNames names{.prefix = prefix, .is_other_layout = is_other_layout};
      const std::string name = names.of(first).name;
      if (source.has(name)) return names;
      if (!in_file) in_file = source.file_name_of(name);
      tried += (tried.empty() ? "" : ", ") + name;
    }
  }
  if (in_file) {
    throw Error(ErrorCode::kBadModel, source.name() + ": tensor " + json_quote(*in_file) +
                                          " is missing; " + kConvertAgain);
  }
  throw Error(ErrorCode::kBadModel,
              source.name() + ": tensor " + first.name + " is missing (looked for " + tried +
                  "); weights and configuration are of different models, or not complete: download "
                  "the folder again");
}

Shape tensor_shape(const Parameter& parameter, const StoredName& where) {
  if (where.tensor_rows == 0) return parameter.shape;
  CAPTION_CHECK(parameter.shape.rank() <= 2, "weights: rows of a matrix or a vector");
  return parameter.shape.rank() == 1 ? Shape{where.tensor_rows}
                                     : Shape{where.tensor_rows, parameter.shape[1]};
}

std::vector<StoredName> find_stored_names(const Blueprint& blueprint,
                                          const weights::Source& source) {
  std::int32_t group = -1;
  GroupNames names;
  std::vector<StoredName> places;
  for (const Parameter& parameter : blueprint.parameters) {
    const ParameterGroup& owner = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    if (owner.part == Part::kHead) {
      places.emplace_back();
      continue;
    }
    if (std::exchange(group, parameter.group) != parameter.group) {
      names = find_group_names(source, owner.prefixes, parameter);
    }
    places.push_back(names.of(parameter));
  }
  return places;
}

}  // namespace caption::model
