#include "quantise/internal/config_json.h"

namespace caption::quantise {

ConfigText& ConfigText::add_list(std::string_view key, const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    list += (list.size() == 1 ? "" : ", ") + json_quote(text);
  }
  return add(key, list + "]");
}

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "float32";
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    default: break;
  }
  throw_not_floating(dtype);
}

std::string_view file_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kF16: return "F16";
    default: break;
  }
  throw_not_floating(dtype);
}

std::vector<std::string> kept_names(const ConfigSubject& subject) {
  std::vector<std::string> names = subject.kept_parts;
  names.insert(names.end(), subject.kept_matrices.begin(), subject.kept_matrices.end());
  return names;
}

}  // namespace caption::quantise
