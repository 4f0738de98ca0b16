#include "quantise/make_gguf.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "quantise/internal/output_folder.h"

namespace caption::quantise {
namespace {

// Changes with the bytes that this program makes of the same weights.
constexpr const char* kRevision = "2";

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

weights::GgufSummary write(const GgufOptions& options) {
  weights::GgufExport files(options.model, options.type);
  OutputFolder folder(options.output, settings_of(options, files), files.file_names());
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
  weights::GgufSummary made = files.write(options.output, report);
  folder.add_shard(made.text_file.filename().string());
  if (made.tower_file) folder.add_shard(made.tower_file->filename().string());
  return made;
}

}  // namespace

std::optional<weights::GgufSummary> make_gguf(const GgufOptions& options) {
  try {
    return write(options);
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    return std::nullopt;  // stopped while the weights were hashed
  }
}

}  // namespace caption::quantise
