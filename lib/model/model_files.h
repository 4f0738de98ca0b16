// model/model_files.h: what a folder or a file is, from its configuration and the headers of its
// weight files. Nothing here reads weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

namespace caption::model {

// The manifest in a folder that quantize makes: its first file; config.json is the last one.
inline constexpr const char* kQuantizeManifest = "caption-cli.quantize.json";

// The weight files of a folder, or one file; a GGUF file of a language model has its tower's, too.
struct WeightFiles {
  std::vector<std::filesystem::path> paths;
  std::int64_t num_parameters = 0;
  std::int64_t size_bytes = 0;
  std::vector<weights::StoredDType> dtypes;  // those with the most bytes first
};
// Throws as Checkpoint::open().
WeightFiles read_weight_files(const std::filesystem::path& folder_or_file);

// Whether a path is a .gguf file, or a folder that has .gguf files and no safetensors.
bool is_gguf_model(const std::filesystem::path& path);

enum class ModelKind {
  kCaptioner,      // a folder of one of the families of captioners
  kLanguageModel,  // part of a composed model
  kVisionTower,    // part of a composed model
  kOther,          // a model_type that this build does not run
};

struct ModelFiles {
  ModelKind kind = ModelKind::kOther;
  std::string model_type;    // in config.json
  std::string text_type;     // "qwen3"; empty for a tower and for a model_type of no known family
  std::string quantisation;  // "awq, 4 bits" or "GGUF: Q4_K, Q6_K"; empty: none
  // Not set where the configuration is that of no model this build can size.
  std::optional<Blueprint> blueprint;
};
// Reads the configuration of a model's folder. Throws Error(kBadModel) when config.json is missing
// or broken.
ModelFiles read_model_files(const std::filesystem::path& folder);

// Throws what opening a composed model with this part would throw for its configuration:
// Error(kBadModel) for an invalid one, kUnavailable for options and methods of quantisation that
// this build does not support.
void require_usable_part(const std::filesystem::path& folder);

// Opens the tokenizer of a model's folder or GGUF file. Throws as text::open_tokenizer().
std::unique_ptr<const text::Tokenizer> open_tokenizer(const std::filesystem::path& folder);

// An adapter of PEFT as its files describe it.
struct AdapterFiles {
  std::string base_model;  // base_model_name_or_path
  std::int64_t rank = 0;   // r
  double alpha = 0;        // lora_alpha
  bool is_rank_stabilised = false;
  std::vector<std::string> modules;  // names of the adapted modules, without their place: "q_proj"
  std::int64_t num_modules = 0;
  WeightFiles weights;
};
// Whether a folder holds a file of an adapter, complete or not.
bool is_adapter_folder(const std::filesystem::path& folder);
// Reads a folder or its adapter_model.safetensors, and refuses as opening a model with the adapter
// would, as far as that does not depend on the base model: it throws Error(kBadModel) for a broken
// or incomplete adapter, and kUnavailable for what this build cannot apply.
AdapterFiles read_adapter_files(const std::filesystem::path& folder);

// A file of a projector.
struct ProjectorSummary {
  ProjectorKind kind = ProjectorKind::kMlp;
  std::vector<Shape> layers;  // kMlp: [out, in] of each weight, in the order of their names
  WeightFiles weights;
};
// Recognises a projector as opening a composed model does, by its tensors' names
// (internal/projector.h). Returns std::nullopt when it is of no other kind and a tensor is neither
// the weight nor the bias of a linear layer. Throws as Checkpoint::open().
std::optional<ProjectorSummary> read_projector_file(const std::filesystem::path& file);

}  // namespace caption::model
