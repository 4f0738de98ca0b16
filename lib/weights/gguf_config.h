// weights/gguf_config.h: the config.json of the Hugging Face checkpoint that a GGUF file was made
// of, as far as the metadata and the shapes of tensors tell it.
// Source: facts from ggml-org/llama.cpp, gguf-py/gguf/constants.py and convert_hf_to_gguf.py.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "weights/gguf_file.h"

namespace caption::weights {

// Returns the config.json of a language model: model_type llama (or mistral, for one with a sliding
// window), qwen2, qwen3, qwen2_5_vl_text or qwen3_vl_text, sizes, rotary embedding, tied embeddings
// and the ids that end a text. Throws Error(kUnavailable) for another architecture, a mixture of
// experts, or a rotary embedding that this build does not compute; Error(kBadModel) for a missing
// or impossible value, naming the key. `model_type` replaces the one of the architecture.
std::string gguf_text_config(const GgufFile& text, std::string_view model_type = {});

// Returns the config.json of a captioner of a language model and a vision tower with its projector
// (architecture clip): model_type qwen2_5_vl, qwen3_vl, internvl or llava_next_video by
// clip.projector_type. Keys that llama.cpp does not store have the values of the published models.
// Throws as gguf_text_config(), and Error(kUnavailable) for other projectors and for a LLaVA whose
// vocabulary has no token of videos; Error(kBadModel) when the two files do not fit.
std::string gguf_captioner_config(const GgufFile& text, const GgufFile& tower);

// Returns the config.json of a CLIP tower (clip.projector_type mlp) as a part of a composed model.
// Throws as gguf_captioner_config().
std::string gguf_tower_config(const GgufFile& tower);

// Returns the preprocessor_config.json of a tower: size, mean and deviation of frames; for towers
// that take frames of any size the limits of their pixels. Throws Error(kBadModel).
std::string gguf_preprocessor_config(const GgufFile& tower);

// The files of a model's folder that GGUF's own keys cannot express: quantize writes their text
// into keys of its own, the generation's into the language model's file, the processor's into the
// tower's.
inline constexpr std::string_view kGenerationFile = "generation_config.json";
inline constexpr std::array<std::string_view, 3> kProcessorFiles = {
    "video_preprocessor_config.json", "preprocessor_config.json", "processor_config.json"};

std::string gguf_key_of_file(std::string_view name);
// Returns the text of such a file; nullopt where the GGUF file has none, as those of other
// programs. Throws Error(kBadModel) for a value that is no string.
std::optional<std::string> gguf_stored_file(const GgufFile& file, std::string_view name);

}  // namespace caption::weights
