// records/manifest.h: the configuration that an output file belongs to (<output>.manifest.json).
//
// One flat JSON object of strings. It holds what decides captions (model, prompts, sampling,
// frames, arithmetic), not what decides speed (threads, batching) and not the program's version: a
// release that computes the same goes on with the outputs of the one before.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace caption::records {

struct Manifest {
  // Names and values in the order they are written; names are unique.
  std::vector<std::pair<std::string, std::string>> settings;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::filesystem::path manifest_path(const std::filesystem::path& output);

std::string to_json(const Manifest& manifest);

// 16 hexadecimal digits that stand for the settings, whatever their order: each record carries
// them.
std::string settings_key(const Manifest& manifest);

// std::nullopt when there is no file. Throws Error(kOutputConflict) for one that is no manifest.
std::optional<Manifest> read_manifest(const std::filesystem::path& path);
// Whole or not at all. Throws Error(kIo).
void write_manifest(const std::filesystem::path& path, const Manifest& manifest);

// "seed is 7 there and 20 now; prompt is ..."; empty when they agree. Order does not count.
std::string describe_differences(const Manifest& there, const Manifest& now);

}  // namespace caption::records
