// weights/open_source.h: chooses the implementation of Source that reads a model's folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/json.h"
#include "weights/source.h"

namespace caption::weights {

// Returns the quantization_config of a config.json. A captioner may have it in the part that
// describes its language model: text_config, or llm_config as LMDeploy writes InternVL's. Throws
// Error(kBadModel) for one that is no object.
std::optional<JsonObject> find_quantisation(const JsonObject& config);

// Opens a folder, or one .safetensors file. If config.json of the folder has a quantization_config
// (find_quantisation()), the tensors are presented as those of the model that was quantised:
// `<module>.weight` where the file holds codes, scales and zeros of other names. Methods:
// auto-round (4 and 8 bits), awq (version gemm), bitsandbytes (nf4, fp4, LLM.int8()),
// compressed-tensors (pack-quantized of 4 and 8 bits, int-quantized, float-quantized), fp8, gptq (4
// and 8 bits). Thread-safe as Source says.
//
// Every key of the configuration and the names, dtypes and shapes of all parts are validated here;
// scales are validated when they are read. Throws Error(kBadModel) naming file and tensor or key;
// kUnavailable naming a method, version or value that this build does not read; as
// Checkpoint::open().
std::unique_ptr<Source> open_source(const std::filesystem::path& folder_or_file);

// Throws Error(kUnavailable) when config.json of a folder names a method of quantisation that
// open_source() does not read; kBadModel when it is invalid.
void require_known_method(const std::filesystem::path& folder);

// Whether a folder holds the weights of a quantised checkpoint, by the names of its files and its
// config.json. Throws Error(kBadModel) for an invalid config.json.
bool is_quantised_folder(const std::filesystem::path& folder);

}  // namespace caption::weights
