// apps/caption-cli/quantize_gguf.h: the formats of `caption-cli quantize` that are GGUF files.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "weights/gguf_export.h"

namespace caption::cli {

struct GgufFormat {
  std::string_view name;     // "gguf-q8_0"
  std::string_view summary;  // what it is, for --help
  weights::GgufWeights weights = weights::GgufWeights::kF16;
};
std::span<const GgufFormat> gguf_formats();
// Returns nullptr for a name that none has.
const GgufFormat* find_gguf_format(std::string_view name);

struct GgufRequest {
  std::filesystem::path model;
  std::filesystem::path output;
  const std::atomic<bool>* stop = nullptr;  // ends the work soon after it has become true
  // Called on the calling thread, with the microseconds since the first tensor.
  std::function<void(const weights::GgufStep&, std::int64_t elapsed_us)> on_progress = {};
};

// Returns nullopt when it was stopped; nothing is kept of a file that was not whole. Throws as
// weights::write_gguf_model().
std::optional<weights::GgufSummary> make_gguf(const GgufFormat& format, const GgufRequest& request);

// Says what was made, and which matrices stayed f16.
void report_gguf(const GgufFormat& format, const std::filesystem::path& output,
                 const std::optional<weights::GgufSummary>& made);

}  // namespace caption::cli
