#include "model/file_codes.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "weights/file_format.h"

namespace caption::model {

weights::WeightFormat format_beside_codes(weights::WeightFormat format) {
  return weights::is_file_format(format) ? weights::WeightFormat::kBF16 : format;
}

void require_file_codes(const std::string& name, const Blueprint& blueprint,
                        weights::WeightFormat format) {
  if (!weights::is_file_format(format)) return;
  const std::vector<Parameter>& parameters = blueprint.parameters;
  const std::string wanted(weights::name_codes(format));
  const auto coded =
      std::find_if(parameters.begin(), parameters.end(),
                   [](const Parameter& parameter) { return parameter.codes.has_value(); });
  if (coded == parameters.end()) {
    throw Error(ErrorCode::kUsage, name + ": holds no " + wanted +
                                       ", which the format of the weights asks for; " +
                                       std::string(weights::way_to_codes(format)));
  }
  const auto other = std::find_if(coded, parameters.end(), [&](const Parameter& parameter) {
    return parameter.codes && !weights::are_codes_of(format, *parameter.codes);
  });
  if (other == parameters.end()) return;
  throw Error(ErrorCode::kUsage,
              name + ": holds " + other->name + " as other codes (" +
                  std::string(other->codes->method) + ") than the " + wanted +
                  " that the format of the weights asks for; --dtype bf16 keeps them as they are");
}

bool rounds_activations(const Blueprint& blueprint) {
  bool has_codes = false;
  for (const Parameter& parameter : blueprint.parameters) {
    if (!parameter.codes.has_value()) continue;
    has_codes = true;
    if (!parameter.codes->rounds_activations) return false;
  }
  return has_codes;
}

}  // namespace caption::model
