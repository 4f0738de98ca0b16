// weights/gguf_export.h: makes GGUF files of a model folder in the layout of transformers.
//
// A language model (llama, mistral, qwen2, qwen3) becomes one file; a captioner (Qwen2.5-VL,
// Qwen3-VL, InternVL in both layouts, LLaVA-NeXT-Video with CLIP) two, the language model's and
// mmproj-*.gguf with the tower and the projector. Architecture, names, cut and rotated rows, keys
// and types of tensors are those of llama.cpp's converter; what llama.cpp has no key for stands in
// keys "caption_cli.*", which it ignores, or the model is refused. Source: facts from
// ggml-org/llama.cpp, conversion/{base,llama,qwen,qwenvl,qwen3vl,intern_vision}.py; for LLaVA
// tools/mtmd/legacy-models/convert_image_encoder_to_gguf.py, with the names of today's tensors.
//
//   tensor                                                    f16   q8_0   q4_0
//   one axis, names not in .weight, *_norm.weight, positions  F32   F32    F32
//   kernels of patches (v.patch_embd.*)                       F16   F32    F32
//   rows that are no multiple of 32                           F16   F16    F16
//   all others of the language model, token_embd and output   F16   Q8_0   Q4_0
//   all others of tower and projector                         F16   Q8_0   Q8_0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/free_space.h"
#include "base/sha256.h"

namespace caption::weights {

enum class GgufWeights { kF16, kQ8_0, kQ4_0 };
std::string_view gguf_weights_name(GgufWeights type);  // "Q8_0", as in the names of files

struct GgufStep {
  std::string_view tensor;        // the one whose rows were written
  std::int64_t done_bytes = 0;    // written by this call
  std::int64_t total_bytes = 0;   // bytes that this call writes
  std::int64_t done_tensors = 0;  // whole ones, with those that were kept
  std::int64_t total_tensors = 0;
};
// Called after each MiB or less on the calling thread. What it throws ends the work.
using GgufProgress = std::function<void(const GgufStep&)>;

// Remembers what was written, so that a later call goes on. Files are named without their folder.
class GgufKeeper {
 public:
  virtual ~GgufKeeper() = default;
  // Whether a file is whole, as an earlier call made it.
  virtual bool has_file(const std::string& file) = 0;
  // Returns how many bytes at the beginning of an unfinished file are as an earlier call wrote
  // them.
  virtual std::int64_t kept_bytes(const std::string& unfinished) = 0;
  // The unfinished file has these bytes, which end with a tensor and are handed to the system.
  virtual void keep_part(const std::string& unfinished, std::int64_t size_bytes) = 0;
  // The file is whole and on the disk; it was called `unfinished` before.
  virtual void keep_file(const std::string& file, const std::string& unfinished) = 0;
};

struct GgufSummary {
  std::filesystem::path text_file;                  // OUT/<name of the folder>-Q8_0.gguf
  std::optional<std::filesystem::path> tower_file;  // OUT/mmproj-<name of the folder>-Q8_0.gguf
  std::vector<std::string> kept_f16;                // tensors whose rows are no multiple of 32
  std::int64_t size_bytes = 0;                      // both files together
  std::int64_t num_tensors = 0;
  std::int64_t tensors_kept = 0;  // written by an earlier call and kept
};

// The GGUF files of a model's folder. The constructor reads configurations and headers, write()
// the weights.
class GgufExport {
 public:
  // Throws Error(kBadModel) naming file and tensor or key for a folder that is no whole model;
  // kUnavailable for a model, a tokenizer or a value without a form in GGUF files, and for a folder
  // whose weights are quantised already.
  GgufExport(const std::filesystem::path& model_folder, GgufWeights type);
  ~GgufExport();
  GgufExport(const GgufExport&) = delete;
  GgufExport& operator=(const GgufExport&) = delete;

  // The names of all files that write() may make, unfinished ones among them.
  std::set<std::string> file_names() const;
  // SHA-256 of the folder's weights (weights/source.h).
  Sha256 content_hash(const DigestCache& digests) const;

  // Writes the files to `out_folder`, which is made if it is missing. The processor's files and
  // generation_config.json, with config.json's eos_token_id where it names none, are keys of theirs
  // (gguf_config.h). A file of the same name is replaced. Memory beside the mapped checkpoint: a
  // few MiB. On an error or an exception of `progress` no file is left that is not whole, but the
  // text file may have been finished before the tower failed. With a keeper, which may be null,
  // unfinished files stay from their first whole tensor on, and what an earlier call wrote of files
  // with the same keys and tensors is kept.
  //
  // Throws Error(kBadModel) for a tensor of another shape, and for a file of weights that is
  // written meanwhile; kIo naming the file that cannot be written, or the output folder where the
  // files need more room than `free` tells, before anything is written.
  GgufSummary write(const std::filesystem::path& out_folder, const GgufProgress& progress = {},
                    const FreeBytes& free = free_bytes, GgufKeeper* keeper = nullptr);

  struct Plan;

 private:
  std::unique_ptr<Plan> plan_;
};

}  // namespace caption::weights
