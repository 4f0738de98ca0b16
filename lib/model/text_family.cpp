#include "model/text_family.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"

namespace caption::model {

extern const TextFamily kLlama;
extern const TextFamily kMistral;
extern const TextFamily kQwen2;
extern const TextFamily kQwen3;

namespace {

std::vector<const TextFamily*>& families() {
  static std::vector<const TextFamily*> list = {&kLlama, &kMistral, &kQwen2, &kQwen3};
  return list;
}

}  // namespace

void add_text_family(const TextFamily& family) { families().push_back(&family); }

const TextFamily* find_text_family(std::string_view model_type) {
  const auto& list = families();
  const auto found = std::find_if(list.begin(), list.end(), [&](const TextFamily* family) {
    return family->model_type == model_type;
  });
  return found == list.end() ? nullptr : *found;
}

std::string text_family_names() {
  std::vector<std::string> names;
  for (const TextFamily* const family : families()) names.emplace_back(family->model_type);
  return join(names);
}

TextConfig parse_text_config(const JsonObject& config, std::string_view default_type) {
  const std::string model_type = config.get_string("model_type", default_type);
  if (const TextFamily* const family = find_text_family(model_type)) return family->parse(config);
  throw Error(ErrorCode::kUnavailable, config.name() + ": model_type \"" + model_type +
                                           "\": this build runs the decoders " +
                                           text_family_names());
}

}  // namespace caption::model
