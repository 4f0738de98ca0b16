// Any bytes as a preset: an Error(kBadPreset), or a preset whose every value is in its range and
// which written as YAML reads back the same. Input: the file.
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/utf8.h"
#include "config/preset.h"
#include "tests/fuzz/check.h"

namespace caption::config {
namespace {

struct RangeChecker {
  template <class T, class Allowed>
  void operator()(std::string_view, std::string_view, std::string_view, const T& field,
                  const Allowed& allowed) const {
    if constexpr (std::is_same_v<Allowed, Range>) {
      const auto value = static_cast<double>(field);
      fuzz::require(value >= allowed.min && value <= allowed.max, "numbers are in their range");
    } else {
      fuzz::require(is_valid_utf8(field), "texts are valid UTF-8");
      bool is_allowed = allowed.empty();
      for (const std::string& choice : allowed) is_allowed = is_allowed || choice == field;
      fuzz::require(is_allowed, "texts are among their choices");
    }
  }
  void operator()(std::string_view, std::string_view, std::string_view, bool) const {}
};

void check(std::string_view yaml) {
  const Preset preset = parse_preset(yaml, "preset.yaml");
  for_each_field(preset, RangeChecker{});
  const std::string written = to_yaml(preset);
  try {
    fuzz::require(to_yaml(parse_preset(written, "preset.yaml")) == written,
                  "a written preset reads back the same");
  } catch (const Error&) {
    fuzz::require(false, "a written preset is a preset");
  }
}

}  // namespace
}  // namespace caption::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  try {
    config::check(fuzz::as_text(bytes, size));
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadPreset, "a bad preset is kBadPreset");
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
  return 0;
}
