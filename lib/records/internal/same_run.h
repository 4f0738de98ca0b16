// records/internal/same_run.h: compares an output with a run by their manifests.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "records/existing.h"
#include "records/format.h"
#include "records/manifest.h"

namespace caption::records {

// The manifest of an --overwrite that was killed between its two renames, after the records and
// before their manifest had taken the old file's place; std::nullopt where there is none. The
// settings key of the first record tells that the manifest belongs to the records. The functions
// below read it in place of the output's own. Throws as read_manifest() and MappedFile.
std::optional<std::filesystem::path> find_left_manifest(const std::filesystem::path& output);

// Returns the manifest of `output` after comparing it with `manifest`, except for settings that the
// retry may change. Throws Error(kOutputConflict) naming the differences.
Manifest require_same_run(const std::filesystem::path& output, Format format,
                          const Manifest& manifest, const Retry& retry);

// Adds to `there` the settings with which records are made again. Returns false when nothing
// changed.
bool note_retry(const Retry& retry, Manifest& there, const Manifest& now);

// Returns the settings_key() of every configuration whose records are valid under this manifest:
// the first run's and those of retries.
std::set<std::string> accepted_keys(const Manifest& there);

// Returns the settings_key() of the records that a run with `now` adds to an output with `there`,
// after note_retry(). That of the first run where the two differ in form alone
// (Manifest::make_comparable), so that a manifest of any form keeps its records.
std::string key_of_records(const Manifest& there, const Manifest& now);

// Throws Error(kOutputConflict) when `beside`, the JSONL file of an interrupted --overwrite, holds
// captions that a run with `manifest` cannot continue: starting anew would lose them.
void refuse_to_lose_captions(const std::filesystem::path& beside, const Manifest& manifest);

// Writes the output's manifest again, and warns, if another program has removed or changed it
// during the run: with another manifest the records could not be continued. Throws as
// write_manifest().
void restore_manifest(const std::filesystem::path& output, const Manifest& manifest);

}  // namespace caption::records
