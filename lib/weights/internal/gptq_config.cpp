#include "weights/internal/gptq_config.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weights/internal/coded_source.h"

namespace caption::weights {
namespace {

// Whether "gptqmodel:7.7.0" names this library in a version from 0.9.0 on; nullopt for another
// library, or without a version.
std::optional<bool> is_new_gptqmodel(std::string_view quantizer) {
  constexpr std::string_view kName = "gptqmodel:";
  constexpr std::int64_t kMinor = 9;
  const bool has_name =
      quantizer.size() > kName.size() &&
      std::equal(kName.begin(), kName.end(), quantizer.begin(),
                 [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
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
  // The keys that are not read below say how the codes were found and how to run them.
  refuse_unknown_keys(config, {"quant_method",
                               "bits",
                               "group_size",
                               "desc_act",
                               "sym",
                               "checkpoint_format",
                               "format",
                               "pack_dtype",
                               "lm_head",
                               "static_groups",
                               "true_sequential",
                               "damp_percent",
                               "damp_auto_increment",
                               "act_group_aware",
                               "mse",
                               "meta",
                               "version",
                               "tokenizer",
                               "dataset",
                               "model_name_or_path",
                               "model_file_base_name",
                               "model_seqlen",
                               "block_name_to_quantize",
                               "module_name_preceding_first_block",
                               "modules_in_block_to_quantize",
                               "batch_size",
                               "pad_token_id",
                               "use_exllama",
                               "disable_exllama",
                               "exllama_config",
                               "max_input_length",
                               "cache_block_outputs",
                               "use_cuda_fp16",
                               "backend",
                               "modules_to_not_convert",
                               "desc"});
  GptqFormat format;
  const std::int64_t bits = config.require_int("bits", 1, 64);
  if (bits != 4 && bits != 8) {
    refuse_value(config, "GPTQ with " + std::to_string(bits) + " bits", "4 and 8 are");
  }
  format.bits = static_cast<unsigned>(bits);
  format.group_size = config.get_int("group_size", 128, -1, 1 << 20);
  require_group_size(config, format.group_size);
  format.has_group_of_column = config.get_bool("desc_act", false);
  const std::string_view key = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string name = config.get_string(key, "gptq");
  if (name != "gptq" && name != "gptq_v2") {
    refuse_value(config, std::string(key) + " " + quote_name(name), "gptq and gptq_v2 are");
  }
  format.stores_zeros_less_one = name == "gptq";
  format.has_borrows = is_by_gptqmodel(config);
  const std::string packed = config.get_string("pack_dtype", "int32");
  if (packed != "int32") refuse_value(config, "pack_dtype " + quote_name(packed), "int32 is");
  return format;
}

}  // namespace caption::weights
