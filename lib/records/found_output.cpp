#include "records/internal/found_output.h"

#include <utility>

#include "records/internal/foreign_files.h"
#include "records/internal/same_run.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

FoundOutput find_in_place(const fs::path& output, Format format, const Manifest& manifest,
                          const Retry& retry) {
  FoundOutput found = {.path = output};
  if (is_empty_or_missing(output)) {
    refuse_foreign_manifest(output, manifest);
  } else {
    found.manifest = require_same_run(output, format, manifest, retry);
  }
  return found;
}

// Records of an interrupted --overwrite are continued if they are JSONL and were made with the same
// settings.
FoundOutput find_beside(const fs::path& output, Format format, const Manifest& manifest) {
  FoundOutput found = {.path = path_beside(output), .use = FileUse::kBeside};
  if (!is_empty_or_missing(output)) refuse_foreign_file(output);
  refuse_foreign_manifest(output, manifest);
  refuse_special_file(found.path);
  refuse_foreign_manifest(found.path, manifest);
  if (is_empty_or_missing(found.path)) return found;
  refuse_foreign_file(found.path);
  if (format != Format::kJsonl) return found;
  refuse_to_lose_captions(found.path, manifest);
  std::optional<Manifest> there = read_manifest(manifest_path(found.path));
  const bool is_same = there.has_value() && describe_differences(*there, manifest).empty();
  if (is_same) found.manifest = std::move(there);
  return found;
}

}  // namespace

fs::path path_beside(const fs::path& output) { return output.string() + ".new"; }

FoundOutput find_output(const fs::path& output, Format format, const Manifest& manifest,
                        Existing existing, const Retry& retry) {
  refuse_special_file(output);
  // Records of an --overwrite are in FILE.new also where another program has deleted the output.
  const bool is_beside = existing == Existing::kOverwrite &&
                         !(is_empty_or_missing(output) && is_empty_or_missing(path_beside(output)));
  return is_beside ? find_beside(output, format, manifest)
                   : find_in_place(output, format, manifest, retry);
}

std::optional<ContinuedRecords> read_continued(const FoundOutput& found,
                                               const std::function<void(const Record&)>& visit) {
  if (!found.manifest.has_value()) return std::nullopt;
  ContinuedRecords continued = {.index = {}, .accepted = accepted_keys(*found.manifest)};
  continued.complete_bytes = read_records({.path = found.path, .use = found.use},
                                          continued.accepted, continued.index, visit);
  if (found.use == FileUse::kBeside && continued.index.num_usable() == 0) return std::nullopt;
  return continued;
}

}  // namespace caption::records
