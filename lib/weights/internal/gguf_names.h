// weights/internal/gguf_names.h: where the tensors of a Hugging Face checkpoint are in a GGUF file.
// Source: facts from ggml-org/llama.cpp, gguf-py/gguf/{constants,tensor_mapping}.py and
// convert_hf_to_gguf.py (LlamaModel, Qwen2VLVisionModel, Qwen3VLVisionModel, InternVisionModel).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf_file.h"
#include "weights/internal/gguf_renames.h"

namespace caption::weights {

// The divisors of a language model's rotary frequencies, which a checkpoint has in config.json.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// Returns clip.projector_type of a tower's file, or the key that newer files have in its place.
std::string gguf_projector_type(const GgufFile& tower);

// A tensor of a checkpoint.
struct GgufEntry {
  GgufAssembly assembly = GgufAssembly::kOne;
  // The tensors of the file that it is made of, at least one, in the order of their rows or frames.
  std::vector<const GgufTensor*> pieces;
  std::int64_t num_heads = 0;  // kRotatedRows divides the rows among so many heads
};

// Keyed by the name in a Hugging Face checkpoint.
using GgufEntries = std::map<std::string, GgufEntry, std::less<>>;

// The tensors of a language model, architectures llama, qwen2, qwen2vl, qwen3 and qwen3vl, and of a
// vision tower with its projector, architecture clip: names under `text_prefix` and "lm_head.",
// "model.visual." (Qwen), "model.vision_tower." or "vision_tower.vision_model." with
// "model.multi_modal_projector." (InternVL, LLaVA).
// Throws Error(kUnavailable) for another architecture or projector, and for a tensor that none of
// these has, by name; Error(kBadModel) when pieces are missing.
GgufEntries name_gguf_tensors(const GgufFile& file, std::string_view text_prefix);

// Returns the name that a file of this architecture has for a tensor of a checkpoint, or for the
// first of its parts; nullopt if it has none, or another one in some files. Throws as
// name_gguf_tensors() for the architecture and the projector.
std::optional<std::string> gguf_name_of(const GgufFile& file, std::string_view text_prefix,
                                        std::string_view tensor);

}  // namespace caption::weights
