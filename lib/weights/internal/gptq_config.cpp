#include "weights/internal/gptq_config.h"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/ascii.h"
#include "weights/internal/coded_source.h"
#include "weights/internal/packed_config.h"

namespace caption::weights {
namespace {

// Whether "gptqmodel:7.7.0" names this library in a version from 0.9.0 on; nullopt for another
// library, or without a version.
std::optional<bool> is_new_gptqmodel(std::string_view quantizer) {
  constexpr std::string_view kName = "gptqmodel:";
  constexpr std::int64_t kMinor = 9;
  const bool has_name =
      quantizer.size() > kName.size() && starts_with_ignoring_case(quantizer, kName);
  if (!has_name) return std::nullopt;
  const char* const end = quantizer.data() + quantizer.size();
  std::int64_t major = 0;
  std::int64_t minor = 0;
  const auto [dot, error] = std::from_chars(quantizer.data() + kName.size(), end, major);
  if (error != std::errc()) return false;
  if (dot != end && *dot == '.') std::from_chars(dot + 1, end, minor);
  return major > 0 || minor >= kMinor;
}

// meta.quantizer is a library with its version, or a list of them.
bool is_by_gptqmodel(const JsonObject& config) {
  if (config.type_of("meta") != JsonType::kObject) return false;
  const JsonObject meta = config.get_object("meta").value();
  const JsonType type = meta.type_of("quantizer");
  if (type != JsonType::kString && type != JsonType::kList) return false;
  for (const std::string& quantizer : meta.get_strings("quantizer")) {
    if (const std::optional<bool> is_new = is_new_gptqmodel(quantizer)) return *is_new;
  }
  return false;
}

}  // namespace

GptqFormat read_gptq_format(const JsonObject& config) {
  check_packed_config(config, {"checkpoint_format", "format"});
  GptqFormat format;
  const std::int64_t bits = config.require_int("bits", 1, 64);
  if (bits != 4 && bits != 8) {
    refuse_value(config, "GPTQ with " + std::to_string(bits) + " bits", "4 and 8 are");
  }
  format.bits = static_cast<unsigned>(bits);
  format.group_size = config.get_int("group_size", 128, -1, 1 << 20);
  require_group_size(config, format.group_size);
  format.has_group_of_column = config.get_bool("desc_act", false);
  const std::string layout =
      read_packed_layout(config, {"checkpoint_format", "format"}, {"gptq", "gptq_v2"});
  format.stores_zeros_less_one = layout == "gptq";
  format.has_borrows = is_by_gptqmodel(config);
  return format;
}

}  // namespace caption::weights
