#include "weights/internal/packed_config.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "weights/internal/coded_source.h"

namespace caption::weights {
namespace {

// Keys of transformers, GPTQModel and AutoGPTQ, then those of AutoRound. Those that are not checked
// below say how the codes were found, and how to run them.
constexpr std::string_view kQuantiserKeys[] = {"quant_method",
                                               "method",
                                               "bits",
                                               "group_size",
                                               "desc_act",
                                               "sym",
                                               "dynamic",
                                               "pack_dtype",
                                               "lm_head",
                                               "meta",
                                               "modules_to_not_convert",
                                               "backend",
                                               "static_groups",
                                               "true_sequential",
                                               "damp_percent",
                                               "damp_auto_increment",
                                               "act_group_aware",
                                               "mse",
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
                                               "desc",
                                               "provider",
                                               "autoround_version",
                                               "data_type",
                                               "scale_dtype",
                                               "amp",
                                               "iters",
                                               "nsamples",
                                               "seqlen",
                                               "lr",
                                               "minmax_lr",
                                               "gradient_accumulate_steps",
                                               "low_gpu_mem_usage",
                                               "enable_minmax_tuning",
                                               "enable_norm_bias_tuning",
                                               "enable_quanted_input",
                                               "to_quant_block_names",
                                               "extra_config",
                                               "static_attention_granularity",
                                               "static_kv_granularity"};

void require_text(const JsonObject& config, std::string_view key, std::string_view expected) {
  const std::string found = config.get_string(key, expected);
  if (found == expected) return;
  refuse_value(config, std::string(key) + " " + quote_name(found), std::string(expected) + " is");
}

// Whether a rule for some modules repeats what the configuration says for all.
bool is_same(const JsonObject& rule, const JsonObject& config) {
  const std::vector<std::string> keys = rule.keys();
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    if (key == "sym") return true;  // the zeros of the file show it
    const bool is_number = (key == "bits" || key == "group_size") &&
                           rule.type_of(key) == JsonType::kNumber &&
                           config.type_of(key) == JsonType::kNumber;
    return is_number && rule.get_double(key, 0) == config.get_double(key, 0);
  });
}

// Whether a rule leaves modules without codes, which the tensors of the file show: in `dynamic` a
// rule for "-:EXPRESSION", in `extra_config` one of 16 bits or more.
bool leaves_out(std::string_view modules, const JsonObject& rule) {
  constexpr double kBitsOfNumbers = 16;
  return modules.starts_with("-:") || (rule.type_of("bits") == JsonType::kNumber &&
                                       rule.get_double("bits", 0) >= kBitsOfNumbers);
}

// Throws for a rule that gives modules, by their names, codes of another kind.
void check_rules(const JsonObject& config, std::string_view key) {
  if (config.is_blank(key)) return;
  const JsonObject rules = config.get_object(key).value();
  for (const std::string& modules : rules.keys()) {
    const auto rule = rules.get_object(modules);
    if (rule && (leaves_out(modules, *rule) || is_same(*rule, config))) continue;
    refuse_value(rules, "a rule of its own for modules " + quote_name(modules),
                 "rules that leave modules without codes are");
  }
}

}  // namespace

void check_packed_config(const JsonObject& config, std::initializer_list<std::string_view> known) {
  std::vector<std::string_view> keys(known);
  keys.insert(keys.end(), std::begin(kQuantiserKeys), std::end(kQuantiserKeys));
  refuse_unknown_keys(config, keys);
  require_text(config, "method", config.require_string("quant_method"));
  require_text(config, "pack_dtype", "int32");
  require_text(config, "data_type", "int");
  check_rules(config, "dynamic");
  check_rules(config, "extra_config");
}

std::string read_packed_layout(const JsonObject& config,
                               std::initializer_list<std::string_view> keys,
                               std::initializer_list<std::string_view> layouts) {
  std::string first;  // the first key that is there, and its layout
  std::string layout(*layouts.begin());
  for (const std::string_view key : keys) {
    if (!config.has(key)) continue;
    const std::string found = config.require_string(key);
    const std::string said = std::string(key) + " " + quote_name(found);
    if (std::find(layouts.begin(), layouts.end(), found) == layouts.end()) {
      std::string known;
      for (const std::string_view name : layouts) {
        known += (known.empty() ? "" : " and ") + std::string(name);
      }
      refuse_value(config, said, known + " are");
    }
    if (!first.empty() && found != layout) {
      refuse_value(config, first + " with " + said, "one layout is");
    }
    if (first.empty()) first = said;
    layout = found;
  }
  return layout;
}

}  // namespace caption::weights
