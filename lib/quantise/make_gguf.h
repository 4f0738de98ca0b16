// quantise/make_gguf.h: makes GGUF files of a model's folder in a folder of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest_cache.h"
#include "quantise/quantise_checkpoint.h"
#include "weights/gguf_export.h"

namespace caption::quantise {

struct GgufFormat {
  std::string_view name;     // "gguf-q8_0"
  std::string_view summary;  // what it is, for --help
  weights::GgufWeights weights = weights::GgufWeights::kF16;
};
std::span<const GgufFormat> gguf_formats();
// Returns nullptr for a name that none has.
const GgufFormat* find_gguf_format(std::string_view name);

struct GgufOptions {
  std::filesystem::path model;   // a folder with safetensors
  std::filesystem::path output;  // a folder, made if it is missing
  std::string format;            // its name in the manifest and in messages, "gguf-q8_0"
  weights::GgufWeights type = weights::GgufWeights::kF16;
  DigestCache digests = {};
  // Tensors are entered in the manifest when so many bytes were written since the last ones.
  std::int64_t part_bytes = 64 << 20;
  const std::atomic<bool>* stop = nullptr;  // ends the call soon after it has become true
  std::function<void(const QuantiseProgress&)> on_progress = {};
};

// Returns nullopt when it was stopped. The same call goes on after the last tensor that the
// manifest names as complete and that is still as it was written, whatever ended the call before
// it; the result has the same bytes. Throws Error as weights::GgufExport does, kUsage when the
// output is the model's own folder, and kOutputConflict when the output holds other files, is of
// other settings, or is being written by another process.
std::optional<weights::GgufSummary> make_gguf(const GgufOptions& options);

}  // namespace caption::quantise
