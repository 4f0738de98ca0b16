// Any bytes as a preset: an Error(kBadPreset), or a preset that written as YAML reads back the
// same. Input: the file.
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "config/fields.h"
#include "config/parse_preset.h"
#include "config/preset.h"
#include "tests/fuzz/check.h"

namespace caption::config {
namespace {

void check(std::string_view yaml) {
  const std::string written = to_yaml(parse_preset(yaml, "preset.yaml"));
  try {
    fuzz::require(to_yaml(parse_preset(written, "preset.yaml")) == written,
                  "a written preset reads back the same");
  } catch (const Error& error) {
    fuzz::require(false, error.what());
  }
}

}  // namespace
}  // namespace caption::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  try {
    config::check(fuzz::as_text(bytes, size));
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadPreset, error.what());
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
  return 0;
}
