#include "model/internal/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/mend_advice.h"
#include "base/open_file.h"
#include "model/internal/module_pattern.h"
#include "tensor/dtype.h"
#include "weights/not_finite.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kWeightsName = "adapter_model.safetensors";
constexpr const char* kPickleName = "adapter_model.bin";

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kSuffixA = ".lora_A.weight";
constexpr std::string_view kSuffixB = ".lora_B.weight";
constexpr std::string_view kSuffixBase = ".base_layer.weight";

constexpr std::int64_t kMaxRank = 1 << 16;
// Adapters are scaled by 0.1 to 100; with much more, activations of 32-bit floats overflow.
constexpr double kMaxScale = 65536;
constexpr std::size_t kMaxPatterns = 4096;
constexpr std::size_t kMaxPatternBytes = 1024;
// The bytes of all of them, which bound the time: PEFT may name a thousand modules one by one.
constexpr std::size_t kMaxAllPatternBytes = std::size_t{256} << 10;

// Keys that are read here, and keys that do not change the result of a trained adapter: names,
// training, initialisation and how PEFT searched for the modules.
constexpr std::array<std::string_view, 30> kKnownKeys = {"alpha_pattern",
                                                         "auto_mapping",
                                                         "base_model_name_or_path",
                                                         "bias",
                                                         "corda_config",
                                                         "eva_config",
                                                         "exclude_modules",
                                                         "fan_in_fan_out",
                                                         "inference_mode",
                                                         "init_lora_weights",
                                                         "layers_pattern",
                                                         "layers_to_transform",
                                                         "loftq_config",
                                                         "lora_alpha",
                                                         "lora_dropout",
                                                         "lora_ga_config",
                                                         "megatron_core",
                                                         "peft_type",
                                                         "peft_version",
                                                         "qalora_group_size",
                                                         "r",
                                                         "rank_pattern",
                                                         "revision",
                                                         "runtime_config",
                                                         "target_modules",
                                                         "task_type",
                                                         "use_rslora",
                                                         "velora_config",
                                                         "tokenizer_class",
                                                         "processor_class"};

// Initialisations that leave the weights of the base model as they are. The others subtract the
// initial term from them, which PEFT does again when it opens the adapter.
constexpr std::array<std::string_view, 4> kPlainInitialisations = {"gaussian", "eva", "orthogonal",
                                                                   "true"};

[[noreturn]] void fail_unavailable(const std::string& what) {
  throw Error(ErrorCode::kUnavailable, what);
}

std::string merging_advice() {
  return "merge the adapter into the weights where it was trained (merge_and_unload() of peft)";
}

// A key of rank_pattern or alpha_pattern and its value.
template <class T>
struct PatternValue {
  std::string key;
  ModulePattern pattern;
  T value;
};

// What the tensors are compared with.
struct LoraConfig {
  std::string name;  // the name of the file, for messages
  std::int64_t rank = 8;
  double alpha = 8;
  bool is_rank_stabilised = false;
  // Sorted by key.
  std::vector<PatternValue<std::int64_t>> rank_pattern;
  std::vector<PatternValue<double>> alpha_pattern;
  std::vector<std::string> targets;      // suffixes of module names; empty: any module
  std::vector<std::string> excluded;     // suffixes of module names
  std::vector<std::int64_t> layers;      // layers_to_transform; empty: all
  std::vector<std::string> layer_lists;  // layers_pattern: names of lists of layers; empty: any
};

void require_plain_lora(const JsonObject& config) {
  const std::string type = config.require_string("peft_type");
  if (type != "LORA") {
    fail_unavailable(config.name() + ": peft_type \"" + type +
                     "\" is not supported by this build; LORA is");
  }
  if (config.get_bool("use_dora", false)) {
    fail_unavailable(config.name() + ": use_dora: DoRA is not supported by this build; " +
                     merging_advice());
  }
  const std::string bias = config.get_string("bias", "none");
  if (bias != "none") {
    fail_unavailable(config.name() + ": bias \"" + bias +
                     "\" is not supported by this build; none is; " + merging_advice());
  }
  if (config.type_of("init_lora_weights") == JsonType::kString) {
    const std::string how = config.get_string("init_lora_weights", "true");
    const auto* const end = kPlainInitialisations.end();
    if (std::find(kPlainInitialisations.begin(), end, how) == end) {
      fail_unavailable(config.name() + ": init_lora_weights \"" + how +
                       "\" changes the base model's weights, which this build does not; " +
                       merging_advice());
    }
  }
  for (const std::string& key : config.keys()) {
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key) != kKnownKeys.end()) continue;
    if (key == "use_dora" || config.is_blank(key)) continue;
    fail_unavailable(config.name() + ": " + key + " is not supported by this build; " +
                     merging_advice());
  }
}

// Reads the patterns of the object at `name`; read_value(object, key) reads the value of one.
template <class T, class ReadValue>
std::vector<PatternValue<T>> parse_patterns(const JsonObject& config, const std::string& name,
                                            const ReadValue& read_value) {
  std::vector<PatternValue<T>> parsed;
  const auto patterns = config.get_object(name);
  if (!patterns) return parsed;
  const std::string where = config.name() + ": " + name + ": ";
  const std::vector<std::string> keys = patterns->keys();
  if (keys.size() > kMaxPatterns) {
    fail_bad_file(where + std::to_string(keys.size()) + " expressions; at most " +
                  std::to_string(kMaxPatterns) + " are expected");
  }
  std::size_t num_bytes = 0;
  for (const std::string& key : keys) {
    num_bytes += key.size();
    if (num_bytes > kMaxAllPatternBytes) {
      fail_bad_file(where + "expressions of more than " + std::to_string(kMaxAllPatternBytes) +
                    " bytes; so many are not expected");
    }
    if (key.size() > kMaxPatternBytes) {
      fail_bad_file(where + "an expression of " + std::to_string(key.size()) + " bytes; at most " +
                    std::to_string(kMaxPatternBytes) + " are expected");
    }
    std::optional<ModulePattern> pattern = ModulePattern::parse(key);
    if (!pattern.has_value()) {
      fail_unavailable(where + "the expression " + json_quote(key) +
                       " is not supported by this build; names, ., \\d, sets and * + ? are");
    }
    parsed.push_back({key, *std::move(pattern), read_value(*patterns, key)});
  }
  return parsed;
}

LoraConfig parse_config(const JsonObject& config) {
  require_plain_lora(config);
  LoraConfig lora;
  lora.name = config.name();
  lora.rank = config.get_int("r", 8, 1, kMaxRank);
  lora.alpha = config.get_double("lora_alpha", 8);
  lora.is_rank_stabilised = config.get_bool("use_rslora", false);
  lora.rank_pattern = parse_patterns<std::int64_t>(
      config, "rank_pattern", [](const JsonObject& patterns, const std::string& key) {
        return patterns.require_int(key, 1, kMaxRank);
      });
  lora.alpha_pattern = parse_patterns<double>(
      config, "alpha_pattern", [](const JsonObject& patterns, const std::string& key) {
        return patterns.get_double(key, 0);
      });
  if (config.type_of("target_modules") == JsonType::kList) {
    lora.targets = config.get_strings("target_modules");
    lora.layers = config.get_ints("layers_to_transform");
    lora.layer_lists = config.get_strings("layers_pattern");
  }
  if (config.type_of("exclude_modules") == JsonType::kList) {
    lora.excluded = config.get_strings("exclude_modules");
  }
  return lora;
}

// Returns the value of the pattern that matches the module, or `fallback`. PEFT takes the first in
// the order of the file, which the sorted patterns no longer have: two that match must agree.
template <class T>
T find_pattern(const LoraConfig& config, std::string_view name,
               const std::vector<PatternValue<T>>& patterns, const std::string& module,
               T fallback) {
  const PatternValue<T>* found = nullptr;
  for (const PatternValue<T>& candidate : patterns) {
    if (!candidate.pattern.matches(module)) continue;
    if (found != nullptr && found->value != candidate.value) {
      fail_unavailable(config.name + ": " + std::string(name) + ": " + json_quote(found->key) +
                       " and " + json_quote(candidate.key) + " both match " + module +
                       " with different values; keep one of them");
    }
    found = &candidate;
  }
  return found == nullptr ? fallback : found->value;
}

bool ends_with_any(const std::string& module, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return module == name || module.ends_with("." + name);
  });
}

// The index of the module's layer as PEFT finds it, by ".*\.[^.]*\.(\d+)\." or with a name of
// layers_pattern in the place of [^.]*: the last number behind such a name that a dot follows.
std::optional<std::int64_t> layer_of(const LoraConfig& config, const std::string& module) {
  std::vector<std::string> parts(1);
  for (const char c : module) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  constexpr std::size_t kMaxDigits = 9;
  for (std::size_t i = parts.size() - 1; i-- > 2;) {
    const std::string& digits = parts[i];
    const bool is_number = !digits.empty() && digits.size() <= kMaxDigits &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
    const std::vector<std::string>& lists = config.layer_lists;
    const bool is_list =
        lists.empty() || std::find(lists.begin(), lists.end(), parts[i - 1]) != lists.end();
    if (is_number && is_list) return std::stoll(digits);
  }
  return std::nullopt;
}

// Throws for a module that PEFT would not adapt, so that its tensors would be without effect.
void check_is_adapted(const LoraConfig& config, const std::string& where,
                      const std::string& module) {
  if (!config.targets.empty() && !ends_with_any(module, config.targets)) {
    fail_bad_file(where + ": " + kConfigName + " does not name the module in target_modules");
  }
  if (ends_with_any(module, config.excluded)) {
    fail_bad_file(where + ": " + kConfigName + " names the module in exclude_modules");
  }
  const bool is_named =
      std::find(config.targets.begin(), config.targets.end(), module) != config.targets.end();
  if (config.layers.empty() || is_named) return;
  const std::optional<std::int64_t> layer = layer_of(config, module);
  if (layer && std::find(config.layers.begin(), config.layers.end(), *layer) != config.layers.end())
    return;
  fail_bad_file(where + ": the module's layer is not in layers_to_transform of " + kConfigName);
}

// The tensors of a module, as they are found in the file.
struct ModuleTensors {
  std::optional<ConstView> a;
  std::optional<ConstView> b;
  std::optional<ConstView> base;
};

std::string advice_for_tensor(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("lora_magnitude_vector")) return "it is DoRA's, which this build does not support";
  if (has("lora_embedding_")) return "adapted embeddings are not supported by this build";
  if (has("lora_B.bias")) return "a bias of lora_B is not supported by this build";
  if (has("trainable_tokens")) return "trained tokens are not supported by this build";
  if (has(".lora_A.") || has(".lora_B.")) {
    return "expected names as save_pretrained() of peft writes them: MODULE.lora_A.weight";
  }
  return "it belongs to no LoRA layer (modules_to_save is not supported by this build)";
}

std::map<std::string, ModuleTensors> find_modules(const weights::Checkpoint& weights) {
  std::map<std::string, ModuleTensors> modules;
  for (const std::string& name : weights.names()) {
    const bool is_a = name.ends_with(kSuffixA);
    const bool is_b = name.ends_with(kSuffixB);
    if (!is_a && !is_b && !name.ends_with(kSuffixBase)) {
      fail_unavailable(weights.path().string() + ": tensor " + json_quote(name) + ": " +
                       advice_for_tensor(name) + "; " + merging_advice());
    }
    const std::string_view suffix = is_a ? kSuffixA : is_b ? kSuffixB : kSuffixBase;
    std::string module = name.substr(0, name.size() - suffix.size());
    if (module.starts_with(kPeftPrefix)) module.erase(0, kPeftPrefix.size());
    ModuleTensors& tensors = modules[module];
    std::optional<ConstView>& tensor = is_a ? tensors.a : is_b ? tensors.b : tensors.base;
    if (tensor.has_value()) {
      fail_bad_file(weights.path().string() + ": tensor " + module + std::string(suffix) +
                    " occurs twice, with " + std::string(kPeftPrefix) +
                    " before its name and without; the adapter must name the module once");
    }
    tensor = *weights.find(name);
  }
  return modules;
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

void check_matrix(const std::string& where, std::string_view kind, ConstView matrix) {
  const std::string name = where + std::string(kind);
  if (matrix.shape().rank() == 4) {
    fail_unavailable(name + " " + matrix.shape().to_string() +
                     " adapts a convolution, which this build does not support; " +
                     merging_advice());
  }
  if (matrix.shape().rank() != 2 || matrix.num_elements() == 0) {
    fail_bad_file(name + " has shape " + matrix.shape().to_string() + "; expected a matrix");
  }
  if (!is_floating(matrix.dtype())) {
    fail_bad_file(name + " holds " + std::string(dtype_name(matrix.dtype())) +
                  "; f32, bf16 or f16 were expected");
  }
  if (const auto at = weights::find_not_finite(matrix)) {
    fail_bad_file(weights::describe_not_finite(name, *at));
  }
}

LoraTerm make_term(const LoraConfig& config, const std::string& file, const std::string& module,
                   const ModuleTensors& found) {
  const std::string where = file + ": tensor " + module;
  if (!found.a.has_value() || !found.b.has_value()) {
    fail_bad_file(where + std::string(found.a.has_value() ? kSuffixB : kSuffixA) + " is missing");
  }
  check_matrix(where, kSuffixA, *found.a);
  check_matrix(where, kSuffixB, *found.b);
  if (found.base.has_value()) check_matrix(where, kSuffixBase, *found.base);
  const auto rank = find_pattern(config, "rank_pattern", config.rank_pattern, module, config.rank);
  if (found.a->dim(0) != rank || found.b->dim(1) != rank) {
    fail_bad_file(where + ": lora_A " + found.a->shape().to_string() + " and lora_B " +
                  found.b->shape().to_string() + " do not have the rank " + std::to_string(rank) +
                  " of " + kConfigName);
  }
  check_is_adapted(config, where, module);
  const double alpha =
      find_pattern(config, "alpha_pattern", config.alpha_pattern, module, config.alpha);
  const auto divisor = static_cast<double>(rank);
  const double scale = alpha / (config.is_rank_stabilised ? std::sqrt(divisor) : divisor);
  if (!(std::abs(scale) <= kMaxScale)) {
    fail_bad_file(config.name + ": lora_alpha of " + module + " divided by its rank is " +
                  json_number(scale) +
                  "; at most 65536 is expected, beyond which activations overflow");
  }
  return {.module = module,
          .a = *found.a,
          .b = *found.b,
          .scale = static_cast<float>(scale),
          .base = found.base};
}

void require_files(const fs::path& folder) {
  if (!is_present(folder / kConfigName)) {
    throw Error(ErrorCode::kBadModel,
                (folder / kConfigName).string() +
                    " is missing; an adapter is a folder as save_pretrained() of peft writes it");
  }
  if (is_present(folder / kWeightsName)) {
    try {
      return require_regular_file(folder / kWeightsName);
    } catch (const Error& error) {
      throw Error(model_file_code(error.code()), error.what());
    }
  }
  if (is_present(folder / kPickleName)) {
    fail_unavailable((folder / kPickleName).string() +
                     ": this build reads adapters as safetensors only; open it with peft and save "
                     "it again with save_pretrained()");
  }
  fail_bad_file((folder / kWeightsName).string() + " is missing beside " + kConfigName);
}

}  // namespace

bool holds_adapter(const fs::path& folder) {
  return is_present(folder / kConfigName) || is_present(folder / kWeightsName) ||
         is_present(folder / kPickleName);
}

Adapter Adapter::open(const fs::path& folder) {
  require_files(folder);
  const fs::path config_path = folder / kConfigName;
  std::string text;
  try {
    text = read_text_file(config_path);
  } catch (const Error& error) {
    throw Error(model_file_code(error.code()), error.what());
  }
  const LoraConfig config =
      parse_config(JsonObject::parse(text, config_path.string(), ErrorCode::kBadModel));
  Adapter adapter(folder, weights::Checkpoint::open(folder / kWeightsName));
  adapter.config_digest_ = sha256_of(std::string_view(text));
  const std::string file = adapter.weights_.path().string();
  for (const auto& [module, tensors] : find_modules(adapter.weights_)) {
    adapter.terms_.push_back(make_term(config, file, module, tensors));
  }
  if (adapter.terms_.empty()) fail_bad_file(file + ": holds no tensor");
  return adapter;
}

Sha256 Adapter::content_hash(const DigestCache& digests) const {
  Sha256Hasher hasher;
  hasher.update_string("caption-cli adapter 1");
  hasher.update_value(config_digest_.bytes);
  hasher.update_value(weights_.content_hash(digests).bytes);
  return hasher.digest();
}

}  // namespace caption::model
