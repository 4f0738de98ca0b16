// apps/caption-cli/quantize_gguf.h: what `caption-cli quantize` says of the GGUF files that it
// made.
#pragma once

#include <filesystem>
#include <optional>

#include "quantise/make_gguf.h"

namespace caption::cli {

// Says what was made, and which matrices stayed f16.
void report_gguf(const quantise::GgufFormat& format, const std::filesystem::path& output,
                 const std::optional<weights::GgufSummary>& made);

}  // namespace caption::cli
