#include "pipeline/adapters.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/nearest.h"

namespace caption::pipeline {

bool holds_control_character(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  });
}

AdapterIndex find_adapter(const std::vector<std::string>& names, std::string_view name,
                          const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<AdapterIndex>(found - names.begin());
  throw Error(ErrorCode::kUsage,
              where + ": no adapter is named " + json_quote(name) + "; " +
                  (names.empty() ? "--adapter NAME=FOLDER gives one a name"
                                 : "there are " + join(names) + did_you_mean(name, names)));
}

}  // namespace caption::pipeline
