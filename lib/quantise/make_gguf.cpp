#include "quantise/make_gguf.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "quantise/check_source.h"
#include "quantise/internal/output_folder.h"

namespace caption::quantise {
namespace {

// Changes with the bytes that this program makes of the same weights.
constexpr const char* kRevision = "2";

constexpr GgufFormat kFormats[] = {
    {.name = "gguf-q8_0",
     .summary = "llama.cpp's files, 8 bits, blocks of 32, in every matrix",
     .weights = weights::GgufWeights::kQ8_0},
    {.name = "gguf-q4_0",
     .summary = "llama.cpp's files, 4 bits, blocks of 32; tower and projector 8 bits",
     .weights = weights::GgufWeights::kQ4_0},
    {.name = "gguf-f16",
     .summary = "llama.cpp's files, not quantised",
     .weights = weights::GgufWeights::kF16},
};

struct Stopped {};

Settings settings_of(const GgufOptions& options, const weights::GgufExport& files) {
  DigestCache digests = options.digests;
  digests.set_cancelled(options.stop);
  const std::string config = read_text_file(options.model / "config.json");
  return {{"weights", files.content_hash(digests).hex()},
          {"config.json", sha256_of(config).hex()},
          {"format", options.format},
          {"revision of quantize", kRevision}};
}

// Keeps whole files and whole tensors in the output folder's manifest.
class ManifestKeeper final : public weights::GgufKeeper {
 public:
  ManifestKeeper(OutputFolder& folder, const GgufOptions& options)
      : folder_(folder), options_(options) {}

  bool has_file(const std::string& file) override { return folder_.has_shard(file, options_.stop); }
  std::int64_t kept_bytes(const std::string& unfinished) override {
    entered_ = folder_.find_parts(unfinished, options_.stop);
    written_ = entered_;
    return entered_;
  }
  void keep_part(const std::string& unfinished, std::int64_t size_bytes) override {
    unfinished_ = unfinished;
    written_ = size_bytes;
    if (written_ - entered_ >= options_.part_bytes) enter();
  }
  void keep_file(const std::string& file, const std::string& unfinished) override {
    folder_.add_shard(file, unfinished);
    entered_ = written_ = 0;
  }
  // Enters what was written since the last part.
  void enter() {
    if (written_ > entered_) folder_.add_part(unfinished_, written_);
    entered_ = written_;
  }

 private:
  OutputFolder& folder_;
  const GgufOptions& options_;
  std::string unfinished_;
  std::int64_t written_ = 0;  // bytes of whole tensors
  std::int64_t entered_ = 0;
};

// Returns nullopt when it was stopped.
std::optional<weights::GgufSummary> write(const GgufOptions& options) {
  require_other_folder(options.model, options.output);
  weights::GgufExport files(options.model, options.type);
  OutputFolder folder(options.output, settings_of(options, files), files.file_names());
  ManifestKeeper keeper(folder, options);
  const Stopwatch watch;
  const auto report = [&](const weights::GgufStep& step) {
    if (options.stop != nullptr && options.stop->load()) throw Stopped{};
    if (!options.on_progress) return;
    options.on_progress({.tensors_done = step.done_tensors,
                         .tensors_total = step.total_tensors,
                         .bytes_done = step.done_bytes,
                         .bytes_total = step.total_bytes,
                         .elapsed_us = watch.elapsed_us()});
  };
  try {
    return files.write(options.output, report, free_bytes, &keeper);
  } catch (const Stopped&) {
    keeper.enter();
    return std::nullopt;
  }
}

}  // namespace

std::span<const GgufFormat> gguf_formats() { return kFormats; }

const GgufFormat* find_gguf_format(std::string_view name) {
  for (const GgufFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::optional<weights::GgufSummary> make_gguf(const GgufOptions& options) {
  try {
    return write(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    return std::nullopt;  // stopped while files were hashed
  }
}

}  // namespace caption::quantise
