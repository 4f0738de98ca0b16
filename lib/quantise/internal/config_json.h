// quantise/internal/config_json.h: the text of a quantization_config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quantise/format.h"
#include "tensor/dtype.h"

namespace caption::quantise {

// An object in JSON as transformers writes it into config.json: a line for each key, indented as
// the value of a key of the root.
class ConfigText {
 public:
  // `value` is JSON.
  ConfigText& add(std::string_view key, std::string_view value) {
    text_ += text_.empty() ? "{\n    " : ",\n    ";
    text_ += json_quote(key) + ": ";
    text_ += value;
    return *this;
  }
  ConfigText& add_bool(std::string_view key, bool value) {
    return add(key, value ? "true" : "false");
  }
  ConfigText& add_text(std::string_view key, std::string_view text) {
    return add(key, json_quote(text));
  }
  ConfigText& add_list(std::string_view key, const std::vector<std::string>& texts);

  std::string text() const { return text_ + "\n  }"; }

 private:
  std::string text_;
};

// The dtype as torch names it, "bfloat16", and as safetensors does, "BF16".
std::string_view torch_name(DType dtype);
std::string_view file_name(DType dtype);

// Returns the names that a library which looks for them inside a module's name is to leave as they
// are.
std::vector<std::string> kept_names(const ConfigSubject& subject);

}  // namespace caption::quantise
