// records/manifest.h: the configuration that an output file belongs to (<output>.manifest.json).
//
// The file is one flat JSON object of strings. It holds the settings that affect captions (model,
// prompts, sampling, frames, arithmetic), not those that affect only speed (threads, batching), and
// not the program's version: a release with the same arithmetic can resume the outputs of an
// earlier one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace caption::records {

// Names and values in the order of writing; names are unique.
using ManifestSettings = std::vector<std::pair<std::string, std::string>>;

struct Manifest {
  ManifestSettings settings;
  // Leaves differences of two manifests only where captions may differ; nullptr: every difference
  // counts. That of the run decides, as manifests are read without one.
  void (*make_comparable)(ManifestSettings& there, ManifestSettings& now) = nullptr;

  friend bool operator==(const Manifest& a, const Manifest& b) { return a.settings == b.settings; }
};

std::filesystem::path manifest_path(const std::filesystem::path& output);

std::string to_json(const Manifest& manifest);

// Returns 16 hexadecimal digits of a hash of the settings, independent of their order. Each record
// carries this key.
std::string settings_key(const Manifest& manifest);

// Whether the manifests have a setting of the same name. One that shares none with a run's is that
// of another program.
bool share_a_name(const Manifest& a, const Manifest& b);

// std::nullopt when there is no file. Throws Error(kOutputConflict) for a file that is not a
// manifest or cannot be read, and passes on errors of the machine (is_of_machine()).
std::optional<Manifest> read_manifest(const std::filesystem::path& path);
// Replaces the file atomically. Throws Error(kIo or kOutOfMemory).
void write_manifest(const std::filesystem::path& path, const Manifest& manifest);

// Returns text such as "seed is 7 there and 20 now; prompt is ..."; empty when the settings agree.
// Settings are compared as now.make_comparable leaves them; their order does not matter. Digests
// come last: the model's changes with every setting that a composed model is put together with, and
// does not say which. Five differences are named, with 120 bytes of each value; others are counted.
std::string describe_differences(Manifest there, Manifest now);

}  // namespace caption::records
