#include "quantise/internal/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/open_file.h"
#include "drafts/layer_choice.h"
#include "quantise/quantise_checkpoint.h"
#include "weights/safetensors_writer.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kElsewhere = "; give another folder with -o";
constexpr std::string_view kOrElsewhere = ", or give another folder with -o";

[[noreturn]] void refuse(const fs::path& where, const std::string& what) {
  throw Error(ErrorCode::kOutputConflict, where.string() + ": " + what);
}

[[noreturn]] void fail(const fs::path& where, const char* what, int error) {
  throw Error(output_error_code(error), where.string() + ": cannot " + what + ": " +
                                            describe_errno(error) + std::string(kElsewhere));
}

Sha256 digest_of(const fs::path& path) { return OpenFile(path).sha256(); }

std::int64_t size_of(const fs::path& path) { return OpenFile(path).size_bytes(); }

// Returns the digest of the bytes [first, end); nullopt when the file is shorter.
std::optional<Sha256> digest_of_part(const OpenFile& file, std::int64_t first, std::int64_t end,
                                     const std::atomic<bool>* cancelled) {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  Sha256Hasher hasher;
  while (first < end) {
    if (cancelled != nullptr && cancelled->load()) throw Error(ErrorCode::kCancelled, "stopped");
    const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - first));
    const std::size_t count = file.read_at(first, std::span(buffer).first(wanted));
    if (count == 0) return std::nullopt;
    hasher.update(std::span(buffer).first(count));
    first += static_cast<std::int64_t>(count);
  }
  return hasher.digest();
}

// Settings whose values are digests, and what they are digests of.
constexpr std::pair<std::string_view, std::string_view> kDigests[] = {
    {"weights", "of other weights (MODEL)"},
    {"config.json", "with another config.json (MODEL)"},
    {"calibration clips", "with other videos (--calibrate), or other frames of them (--preset)"},
    {"calibration prompts", "with other prompts (--prompt, --prompts, --preset)"},
    {"calibration answers", "with other captions (--references)"},
    {"calibration references", "with other captions (--references)"},
    {"calibration tokens", "with other frames or tokens (--preset)"}};
// Settings that decide which prompts are made: a difference in them alone is none, and they are the
// cause of one in the prompts.
constexpr std::string_view kPrompts = "calibration prompts";
constexpr std::string_view kReferences = "calibration references";
constexpr std::string_view kArithmetic = "calibration arithmetic";
constexpr std::string_view kLimit = "calibration limit";
// Settings that are there or not, by the value that says so.
constexpr std::tuple<std::string_view, std::string_view, std::string_view> kFlags[] = {
    {"double quantisation", "yes", "--double-quant"},
    {"act order", "yes", "--act-order"},
    {"calibration", "videos", "--calibrate"}};
constexpr std::pair<std::string_view, std::string_view> kValues[] = {
    {"format", "--format"},
    {"group size", "--group-size"},
    {"max shard size", "--max-shard-size"},
    {"damping", "--damping"},
    {kLimit, "--calibration-tokens"}};

// Returns how files were made whose setting `name` is `theirs` instead of `ours`, such as "with
// --format awq, not gptq".
std::string describe_other(std::string_view name, const std::string& theirs,
                           const std::string& ours) {
  for (const auto& [setting, text] : kDigests) {
    if (setting == name) return std::string(text);
  }
  for (const auto& [setting, given, option] : kFlags) {
    if (setting == name) return (theirs == given ? "with " : "without ") + std::string(option);
  }
  for (const auto& [setting, option] : kValues) {
    if (setting == name) {
      return "with " + std::string(option) + " " + (theirs.empty() ? "unknown" : theirs) +
             ", not " + ours;
    }
  }
  return "with another " + std::string(name) + " (" + json_quote(theirs) + ", not " +
         json_quote(ours) + ")";
}

// Returns how the prompts of calibrated files were made that differ in the setting `name`: as the
// settings say that decide which prompts are made or, where these are equal or the manifest lacks
// them, as describe_other() does.
std::string describe_other_prompts(std::string_view name, const JsonObject& theirs,
                                   const Settings& ours) {
  std::string text;
  for (const auto& [setting, value] : ours) {
    if (setting != kPrompts && setting != kReferences && setting != kLimit) continue;
    if (!theirs.has(setting)) continue;
    const std::string found = theirs.get_string(setting, "");
    if (found == value) continue;
    text += (text.empty() ? "" : " and ") + describe_other(setting, found, value);
  }
  if (!text.empty()) return text;
  const auto differing = std::find_if(ours.begin(), ours.end(),
                                      [&](const auto& setting) { return setting.first == name; });
  return describe_other(name, theirs.get_string(std::string(name), ""), differing->second);
}

JsonObject open_manifest(const fs::path& path) {
  try {
    return JsonObject::open(path, ErrorCode::kOutputConflict);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutputConflict) throw;
    throw Error(error.code(), std::string(error.what()) +
                                  "; remove the folder's files, of which it says what made them" +
                                  std::string(kOrElsewhere));
  }
}

}  // namespace

fs::path existing_folder(const fs::path& folder) {
  std::error_code error;
  fs::path found = fs::absolute(folder, error);
  while (!fs::exists(found, error) && found.has_relative_path()) found = found.parent_path();
  return found;
}

OutputFolder::OutputFolder(fs::path folder, Settings settings, const std::set<std::string>& names,
                           FolderAccess access)
    : path_(std::move(folder)), settings_(std::move(settings)) {
  std::error_code error;
  if (fs::is_symlink(path_, error) && !fs::exists(path_, error)) {
    refuse(path_, "is a link to a folder that does not exist" + std::string(kElsewhere));
  }
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    throw Error(ErrorCode::kIo,
                path_.string() + ": is a file, not a folder" + std::string(kElsewhere));
  }
  if (access == FolderAccess::kWrite) {
    fs::create_directories(path_, error);
    if (error) fail(path_, "make the folder", error.value());
  }
  require_writable();
  if (!fs::exists(path_, error)) return;
  lock();
  // Files of other settings are not foreign: read_manifest() names the setting that differs.
  const bool is_current = fs::exists(path_ / kManifestName, error) && read_manifest();
  require_own_files(names);
  if (!is_current && access == FolderAccess::kWrite) write_manifest();
}

void OutputFolder::require_writable() const {
  const fs::path folder = existing_folder(path_);
  if (::access(folder.c_str(), W_OK) != 0) fail(path_, "write to the folder", errno);
}

void OutputFolder::lock() {
  lock_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.get() < 0) fail(path_, "open the folder", errno);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  // A file system without locks does not keep a run from its work.
  if (errno == EWOULDBLOCK) {
    refuse(path_, "another caption-cli is writing to this folder; wait for it" +
                      std::string(kOrElsewhere));
  }
}

void OutputFolder::require_own_files(const std::set<std::string>& names) const {
  std::error_code error;
  const bool has_manifest = fs::exists(path_ / kManifestName, error);
  std::optional<std::string> foreign;
  std::optional<std::string> special;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::string stem = name;
    constexpr std::string_view kPartial = ".partial";
    if (stem.ends_with(kPartial)) stem.resize(stem.size() - kPartial.size());
    const bool is_own =
        stem == kManifestName || name.starts_with(kTemporaryBegin) ||
        (has_manifest && (names.contains(stem) || name.ends_with(drafts::kLayerFileName)));
    std::error_code ignored;
    if (is_own && !entry->is_regular_file(ignored) && (!special || name < *special)) special = name;
    if (!is_own && (!foreign || name < *foreign)) foreign = std::move(name);
  }
  if (error) fail(path_, "list the folder", error.value());
  if (special) {
    refuse(path_ / *special, "is no file, and quantize writes one of this name; remove it" +
                                 std::string(kOrElsewhere));
  }
  if (!foreign) return;
  if (!has_manifest && names.contains(*foreign)) {
    refuse(path_ / *foreign, "is there without " + std::string(kManifestName) +
                                 ", which would say that quantize made it" +
                                 std::string(kElsewhere) + ", or put that file back");
  }
  refuse(path_ / *foreign,
         "is no file of this checkpoint, and the folder is written to only if it "
         "is empty or holds what an earlier, equal quantize has made" +
             std::string(kElsewhere));
}

bool OutputFolder::read_manifest() {
  const fs::path path = path_ / kManifestName;
  const JsonObject manifest = open_manifest(path);
  for (const JsonObject& shard : manifest.get_objects("shards")) {
    const auto digest = parse_sha256(shard.get_string("sha256", ""));
    if (!digest) continue;  // the file is made again
    shards_.push_back({.file = shard.get_string("file", ""),
                       .first_byte = shard.get_int("first_byte", 0, 0, std::int64_t{1} << 62),
                       .size_bytes = shard.get_int("size_bytes", 0, 0, std::int64_t{1} << 62),
                       .digest = *digest});
  }
  const auto found = manifest.get_object("settings");
  if (!found) refuse(path, "has no settings" + std::string(kElsewhere));
  for (const auto& [name, value] : settings_) {
    const std::string theirs = found->get_string(name, "");
    if (theirs == value || name == kReferences || name == kLimit) continue;
    if (shards_.empty()) return false;
    const bool is_of_prompts = name.starts_with("calibration ") && name != kArithmetic;
    refuse(path, "the files here are made " +
                     (is_of_prompts ? describe_other_prompts(name, *found, settings_)
                                    : describe_other(name, theirs, value)) +
                     std::string(kElsewhere));
  }
  return true;
}

void OutputFolder::write_manifest() const {
  std::string text = "{\n  \"settings\": {";
  const char* separator = "\n";
  for (const auto& [name, value] : settings_) {
    text += separator + ("    " + json_quote(name)) + ": " + json_quote(value);
    separator = ",\n";
  }
  text += "\n  },\n  \"shards\": [";
  separator = "\n";
  for (const FinishedShard& shard : shards_) {
    text += separator + ("    {\"file\": " + json_quote(shard.file)) +
            (shard.first_byte > 0 ? ", \"first_byte\": " + std::to_string(shard.first_byte) : "") +
            ", \"size_bytes\": " + std::to_string(shard.size_bytes) + ", \"sha256\": \"" +
            shard.digest.hex() + "\"}";
    separator = ",\n";
  }
  write(kManifestName, text + (shards_.empty() ? "]\n}\n" : "\n  ]\n}\n"));
}

bool OutputFolder::has_shard(const std::string& file, const std::atomic<bool>* cancelled) const {
  const auto entry = std::find_if(shards_.begin(), shards_.end(),
                                  [&](const FinishedShard& shard) { return shard.file == file; });
  std::error_code ignored;
  const fs::path path = path_ / file;
  if (entry == shards_.end() || !fs::is_regular_file(path, ignored)) return false;
  if (size_of(path) == entry->size_bytes && OpenFile(path).sha256(cancelled) == entry->digest) {
    return true;
  }
  log_warning("quantize", path.string() +
                              ": no longer has the bytes that quantize wrote, by its size or "
                              "SHA-256, and is made again");
  return false;
}

bool OutputFolder::names_shard(const std::string& file) const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [&](const FinishedShard& shard) { return shard.file == file; });
}

void OutputFolder::remove_shard(const std::string& file) {
  // The entry goes first: a file without one is made again or removed by a later call.
  if (std::erase_if(shards_, [&](const FinishedShard& shard) { return shard.file == file; }) > 0) {
    write_manifest();
  }
  std::error_code error;
  fs::remove(path_ / file, error);
  if (error) fail(path_ / file, "remove the file", error.value());
}

void OutputFolder::add_shard(const std::string& file, const std::string& unfinished) {
  const fs::path path = path_ / file;
  std::erase_if(shards_, [&](const FinishedShard& shard) {
    return shard.file == file || shard.file == unfinished;
  });
  enter({.file = file, .size_bytes = size_of(path), .digest = digest_of(path)});
}

void OutputFolder::enter(FinishedShard shard) {
  shards_.push_back(std::move(shard));
  std::sort(shards_.begin(), shards_.end(), [](const FinishedShard& a, const FinishedShard& b) {
    return std::tie(a.file, a.first_byte) < std::tie(b.file, b.first_byte);
  });
  write_manifest();
}

void OutputFolder::add_part(const std::string& file, std::int64_t end) {
  std::int64_t first = 0;
  for (const FinishedShard& shard : shards_) {
    if (shard.file == file) first = shard.first_byte + shard.size_bytes;
  }
  if (first >= end) return;
  const OpenFile opened(path_ / file);
  if (::fsync(opened.descriptor()) != 0) fail(path_ / file, "sync the file", errno);
  const std::optional<Sha256> digest = digest_of_part(opened, first, end, nullptr);
  CAPTION_CHECK(digest, "quantise: a part that is not in its file");
  enter({.file = file, .first_byte = first, .size_bytes = end - first, .digest = *digest});
}

std::int64_t OutputFolder::find_parts(const std::string& file, const std::atomic<bool>* cancelled) {
  std::error_code ignored;
  std::optional<OpenFile> opened;
  if (fs::is_regular_file(path_ / file, ignored)) opened.emplace(path_ / file);
  std::int64_t end = 0;
  std::erase_if(shards_, [&](const FinishedShard& shard) {
    if (shard.file != file) return false;
    const std::int64_t next = end + shard.size_bytes;
    const bool is_kept = opened && shard.first_byte == end &&
                         digest_of_part(*opened, end, next, cancelled) == shard.digest;
    if (is_kept) end = next;
    return !is_kept;
  });
  return end;
}

void OutputFolder::write(const std::string& file, std::string_view content) const {
  write_file_atomically(path_ / file, content);
}

}  // namespace caption::quantise
