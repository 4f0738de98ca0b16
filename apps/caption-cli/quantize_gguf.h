// apps/caption-cli/quantize_gguf.h: the formats of `caption-cli quantize` that are GGUF files.
#pragma once

#include <filesystem>
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

// Says what was made, and which matrices stayed f16.
void report_gguf(const GgufFormat& format, const std::filesystem::path& output,
                 const std::optional<weights::GgufSummary>& made);

}  // namespace caption::cli
