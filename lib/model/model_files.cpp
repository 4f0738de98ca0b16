#include "model/model_files.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/internal/adapter.h"
#include "model/internal/config.h"
#include "model/internal/families.h"
#include "model/internal/model_folder.h"
#include "model/internal/projector.h"
#include "model/internal/vision_config.h"
#include "model/read_blueprint.h"
#include "model/text_family.h"
#include "weights/open_source.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

WeightFiles summarise(const weights::Checkpoint& checkpoint) {
  return {.paths = checkpoint.files(),
          .num_parameters = checkpoint.num_parameters(),
          .size_bytes = checkpoint.size_bytes(),
          .dtypes = checkpoint.dtypes()};
}

// The files of a language model and of its tower; either may be missing.
WeightFiles summarise(const ModelFolder& folder) {
  WeightFiles files;
  for (const weights::GgufFile* const file : {folder.gguf_text(), folder.gguf_tower()}) {
    if (file == nullptr) continue;
    for (fs::path& path : file->files()) files.paths.push_back(std::move(path));
    files.num_parameters += file->num_parameters();
    files.size_bytes += file->size_bytes();
    for (weights::StoredDType& dtype : file->dtypes()) {
      const auto same = std::find_if(files.dtypes.begin(), files.dtypes.end(),
                                     [&](const auto& known) { return known.name == dtype.name; });
      if (same == files.dtypes.end()) {
        files.dtypes.push_back(std::move(dtype));
        continue;
      }
      same->num_parameters += dtype.num_parameters;
      same->size_bytes += dtype.size_bytes;
    }
  }
  std::stable_sort(files.dtypes.begin(), files.dtypes.end(),
                   [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
  return files;
}

// "GGUF: Q4_K, Q6_K"; empty for a model whose files hold no codes.
std::string gguf_quantisation_of(const ModelFolder& folder) {
  std::string text;
  for (const weights::StoredDType& dtype : summarise(folder).dtypes) {
    if (dtype.name == "F32" || dtype.name == "F16" || dtype.name == "BF16") continue;
    text += (text.empty() ? "GGUF: " : ", ") + dtype.name;
  }
  return text;
}

ModelKind kind_of(const std::string& model_type) {
  if (find_family(model_type) != nullptr) return ModelKind::kCaptioner;
  if (find_text_family(model_type) != nullptr) return ModelKind::kLanguageModel;
  return is_tower_type(model_type) ? ModelKind::kVisionTower : ModelKind::kOther;
}

// The text model's own model_type; a family that names its text model after itself has what the
// decoder's shape says.
std::string text_type_of(const JsonObject& config, const Blueprint& blueprint) {
  if (!blueprint.text.has_value()) return {};
  for (const char* const key : {"text_config", "llm_config"}) {
    const auto text = config.get_object(key);
    const std::string type = text ? text->get_string("model_type", "") : "";
    if (find_text_family(type) != nullptr) return type;
  }
  const std::string own = config.get_string("model_type", "");
  if (find_text_family(own) != nullptr) return own;
  if (blueprint.text->qk_norm) return "qwen3";
  return blueprint.text->qkv_bias ? "qwen2" : "llama";
}

// Bits are named by bitsandbytes with a switch, and by all others with a number.
std::string quantisation_of(const JsonObject& config) {
  const auto found = weights::find_quantisation(config);
  if (!found) return {};
  std::string text = found->get_string("quant_method", "unnamed");
  std::int64_t bits = 0;
  if (found->type_of("bits") == JsonType::kNumber) bits = found->get_int("bits", 0, 0, 64);
  if (found->is_blank("bits") && !found->is_blank("load_in_8bit")) bits = 8;
  if (found->is_blank("bits") && !found->is_blank("load_in_4bit")) bits = 4;
  if (bits > 0) text += ", " + std::to_string(bits) + " bits";
  return text;
}

std::string last_name(const std::string& module) {
  return module.substr(module.rfind('.') + 1);  // npos + 1 == 0
}

}  // namespace

WeightFiles read_weight_files(const fs::path& folder_or_file) {
  const ModelFolder files(folder_or_file);
  if (files.is_gguf()) return summarise(files);
  return summarise(weights::Checkpoint::open(folder_or_file));
}

ModelFiles read_model_files(const fs::path& folder) {
  const ModelFolder opened(folder);
  const JsonObject config = opened.require_config();
  ModelFiles files;
  files.model_type = config.require_string("model_type");
  files.kind = kind_of(files.model_type);
  files.quantisation = opened.is_gguf() ? gguf_quantisation_of(opened) : quantisation_of(config);
  try {
    files.blueprint = read_blueprint(folder);
    files.text_type = text_type_of(config, *files.blueprint);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
  }
  return files;
}

void require_usable_part(const fs::path& folder) {
  read_blueprint(folder);
  weights::require_known_method(folder);
}

std::unique_ptr<const text::Tokenizer> open_tokenizer(const fs::path& folder) {
  return ModelFolder(folder).open_tokenizer();
}

bool is_adapter_folder(const fs::path& folder) { return holds_adapter(folder); }

AdapterFiles read_adapter_files(const fs::path& folder) {
  const Adapter adapter = Adapter::open(folder);
  const fs::path path = folder / "adapter_config.json";
  const JsonObject config = JsonObject::open(path, ErrorCode::kBadModel);
  AdapterFiles files;
  files.base_model = config.get_string("base_model_name_or_path", "");
  files.rank = config.get_int("r", 8, 1, 1 << 16);
  files.alpha = config.get_double("lora_alpha", 8);
  files.is_rank_stabilised = config.get_bool("use_rslora", false);
  std::set<std::string> modules;
  for (const LoraTerm& term : adapter.terms()) modules.insert(last_name(term.module));
  files.modules.assign(modules.begin(), modules.end());
  files.num_modules = std::ssize(adapter.terms());
  files.weights = read_weight_files(folder / "adapter_model.safetensors");
  return files;
}

std::optional<ProjectorSummary> read_projector_file(const fs::path& file) {
  const weights::Checkpoint checkpoint = weights::Checkpoint::open(file);
  const ProjectorFile tensors(checkpoint);
  ProjectorSummary projector{.layers = {}, .weights = summarise(checkpoint)};
  if (find_perceiver(tensors).has_value()) {
    projector.kind = ProjectorKind::kPerceiverResampler;
    return projector;
  }
  if (find_c_abstractor(tensors).has_value()) {
    projector.kind = ProjectorKind::kCAbstractor;
    return projector;
  }
  for (const auto& [name, shape] : tensors.tensors()) {
    if (name.ends_with("weight") && shape.rank() == 2) {
      projector.layers.push_back(shape);
    } else if (!name.ends_with("bias") || shape.rank() != 1) {
      return std::nullopt;
    }
  }
  if (projector.layers.empty()) return std::nullopt;
  return projector;
}

}  // namespace caption::model
