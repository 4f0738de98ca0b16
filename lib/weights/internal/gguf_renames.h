// weights/internal/gguf_renames.h: the names of tensors in a Hugging Face checkpoint and in a GGUF
// file, as tables that are read in both directions.
// Source: facts from ggml-org/llama.cpp, gguf-py/gguf/{constants,tensor_mapping}.py and
// conversion/{llama,qwen,qwenvl,qwen3vl,intern_vision}.py.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace caption::weights {

// How a tensor of a checkpoint is made of those of a file.
enum class GgufAssembly {
  kOne,  // it is one of them
  // One of them, whose rows of a head are in the order of pairs (i, i + head_dim / 2), the order in
  // which llama.cpp rotates: row 2i + half of the file is row half * head_dim / 2 + i.
  kRotatedRows,
  kRows,    // the rows of all, one after the other
  kFrames,  // a convolution [out, in, frames, ...], one of them for each frame
};

// In a name of the tables, the prefix of the language model's tensors in a checkpoint.
inline constexpr std::string_view kTextPrefix = "{text}";

// A name in the file, and in a checkpoint. A * stands for the number of a layer; names that end in
// a dot are stems, to which "weight" or "bias" is added.
struct GgufRename {
  std::string_view from;
  std::string_view to;
  GgufAssembly assembly = GgufAssembly::kOne;
  std::size_t piece = 0;       // place of this tensor among those that are put together
  std::size_t num_pieces = 1;  // number of tensors that are put together
};

// The tensors of a language model, architectures llama, qwen2, qwen2vl, qwen3 and qwen3vl.
std::span<const GgufRename> gguf_text_renames();
// Those of a vision tower with its projector; empty for another projector than qwen2.5vl_merger,
// qwen3vl_merger, internvl and mlp.
std::span<const GgufRename> gguf_tower_renames(std::string_view projector_type);

struct GgufNameMatch {
  const GgufRename* rename = nullptr;
  std::string number;  // what stands in the place of *
  std::string suffix;  // what follows a stem
};

// Matches a name of a file with GgufRename::from, or one of a checkpoint with GgufRename::to.
enum class GgufSide { kFile, kCheckpoint };
std::optional<GgufNameMatch> match_gguf_name(std::string_view name, const GgufRename& rename,
                                             GgufSide side);

// Returns the name on the other side.
std::string renamed_to_checkpoint(const GgufNameMatch& found);
std::string renamed_to_file(const GgufNameMatch& found);

}  // namespace caption::weights
