#include "records/manifest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/sha256.h"

namespace caption::records {
namespace {

const std::string* find(const Manifest& manifest, const std::string& name) {
  for (const auto& [key, value] : manifest.settings) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Whether the value is a SHA-256 in hexadecimal.
bool is_digest(const std::string* value) {
  constexpr std::size_t kDigits = 64;
  return value != nullptr && value->size() == kDigits &&
         value->find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Limits of describe_differences().
constexpr std::size_t kMostDifferences = 5;
constexpr std::size_t kMostValueBytes = 120;
constexpr std::size_t kCommonBytes = 24;  // shown of what two long values begin with

// Returns the first byte of the character that has the byte `at` of a text in UTF-8.
std::size_t begin_of_character(const std::string& text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) {
    --at;
  }
  return at;
}

// Quotes at most kMostValueBytes of the value, those that begin at byte `first`.
std::string excerpt(const std::string& value, std::size_t first) {
  const std::size_t begin = begin_of_character(value, first);
  const std::size_t end =
      begin_of_character(value, std::min(begin + kMostValueBytes, value.size()));
  return (begin > 0 ? "..." : "") + json_quote(value.substr(begin, end - begin)) +
         (end < value.size() ? "..." : "");
}

// Returns "7 there and 20 now", long values from where they begin to differ.
std::string describe_values(const std::string* there, const std::string* now) {
  std::size_t first = 0;
  if (there != nullptr && now != nullptr &&
      std::max(there->size(), now->size()) > kMostValueBytes) {
    const auto differ = std::mismatch(there->begin(), there->end(), now->begin(), now->end());
    const auto num_common = static_cast<std::size_t>(differ.first - there->begin());
    first = num_common - std::min(num_common, kCommonBytes);
  }
  const auto shown = [&](const std::string* value) {
    return value == nullptr ? "not set" : excerpt(*value, first);
  };
  return shown(there) + " there and " + shown(now) + " now";
}

}  // namespace

std::filesystem::path manifest_path(const std::filesystem::path& output) {
  return output.string() + ".manifest.json";
}

std::string to_json(const Manifest& manifest) {
  std::string out = "{";
  for (const auto& [name, value] : manifest.settings) {
    out += out.size() == 1 ? "\n  " : ",\n  ";
    out += json_quote(name) + ": " + json_quote(value);
  }
  return out + "\n}\n";
}

std::string settings_key(const Manifest& manifest) {
  auto settings = manifest.settings;
  std::sort(settings.begin(), settings.end());
  Sha256Hasher hasher;
  for (const auto& [name, value] : settings) {
    hasher.update_string(name);
    hasher.update_string(value);
  }
  constexpr std::size_t kDigits = 16;
  return hasher.digest().hex().substr(0, kDigits);
}

bool share_a_name(const Manifest& a, const Manifest& b) {
  return std::any_of(a.settings.begin(), a.settings.end(),
                     [&](const auto& setting) { return find(b, setting.first) != nullptr; });
}

std::optional<Manifest> read_manifest(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const JsonObject root = JsonObject::open(path, ErrorCode::kBadReference);
    Manifest manifest;
    for (const std::string& key : root.keys()) {
      manifest.settings.emplace_back(key, root.require_string(key));
    }
    if (manifest.settings.empty()) {
      throw Error(ErrorCode::kBadReference,
                  path.string() + ": holds no settings, so it is no manifest of an output");
    }
    return manifest;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    // A folder of that name or a file without read permission is an output error, not a clip error.
    std::string remedy;
    if (std::filesystem::is_directory(path)) {
      remedy = "; move it away, or give another -o";
    } else if (error.code() == ErrorCode::kBadReference) {
      remedy = "; mend it, or remove it and start anew with --overwrite";
    }
    throw Error(ErrorCode::kOutputConflict, error.what() + remedy);
  }
}

void write_manifest(const std::filesystem::path& path, const Manifest& manifest) {
  write_file_atomically(path, to_json(manifest));
}

std::string describe_differences(Manifest there, Manifest now) {
  if (now.make_comparable != nullptr) now.make_comparable(there.settings, now.settings);
  std::vector<std::string> values;
  std::vector<std::string> digests;
  const auto add = [&](const std::string& name) {
    const std::string* before = find(there, name);
    const std::string* after = find(now, name);
    if (before != nullptr && after != nullptr && *before == *after) return;
    (is_digest(before) || is_digest(after) ? digests : values)
        .push_back(name + " is " + describe_values(before, after));
  };
  for (const auto& [name, value] : now.settings) add(name);
  for (const auto& [name, value] : there.settings) {
    if (find(now, name) == nullptr) add(name);
  }
  values.insert(values.end(), digests.begin(), digests.end());
  if (values.size() > kMostDifferences) {
    const auto num_others = static_cast<std::int64_t>(values.size() - kMostDifferences);
    values.resize(kMostDifferences);
    values.push_back(counted(num_others, "other setting") +
                     std::string(plural(num_others, " differs", " differ")));
  }
  return join(values, "; ");
}

}  // namespace caption::records
