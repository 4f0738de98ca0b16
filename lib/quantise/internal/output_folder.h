// quantise/internal/output_folder.h: the folder that a quantised checkpoint is made in, and its
// manifest.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/sha256.h"

namespace caption::quantise {

// What the files of an output are made of, by name; the order is that of the manifest.
using Settings = std::vector<std::pair<std::string, std::string>>;

// A complete file of weights, or a part of one that is being written.
struct FinishedShard {
  std::string file;
  std::int64_t first_byte = 0;
  std::int64_t size_bytes = 0;
  Sha256 digest;
};

// Returns the folder, or the nearest one above it that exists.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

enum class FolderAccess {
  kWrite,
  kLook,  // nothing is made or changed
};

// Owns the lock on the folder. For one thread at a time.
class OutputFolder {
 public:
  // Makes the folder if it is missing, locks it, and reads its manifest or writes a new one.
  // `names` are those of all files that will be in it. Throws Error(kOutputConflict) naming a file
  // that is none of them, a folder or device of such a name, or a setting that differs, or when
  // another process holds the lock; kIo.
  // With kLook the folder may be missing, and the settings may lack some.
  OutputFolder(std::filesystem::path folder, Settings settings, const std::set<std::string>& names,
               FolderAccess access = FolderAccess::kWrite);

  const std::filesystem::path& path() const { return path_; }
  // Whether the manifest names the file and the file still has the size and digest entered there.
  // Warns of a named file that has others. Reads the file, which throws Error(kCancelled) soon
  // after `cancelled` (may be null) has become true.
  bool has_shard(const std::string& file, const std::atomic<bool>* cancelled = nullptr) const;
  // Whether the manifest names the file.
  bool names_shard(const std::string& file) const;
  // Enters a complete file, durably, in place of the parts of the file `unfinished`. Throws
  // Error(kIo).
  void add_shard(const std::string& file, const std::string& unfinished = {});
  // Enters what an unfinished file has up to the byte `end` and after its last part, durably.
  // Throws Error(kIo).
  void add_part(const std::string& file, std::int64_t end);
  // Returns where the last part of an unfinished file ends that is as it was entered, with all
  // parts before it; later ones are forgotten. Reads them, and throws as has_shard().
  std::int64_t find_parts(const std::string& file, const std::atomic<bool>* cancelled = nullptr);
  // Removes a file and its entry, if there are any. Throws Error(kIo).
  void remove_shard(const std::string& file);
  // Replaces a file, durably. Throws Error(kIo).
  void write(const std::string& file, std::string_view content) const;

 private:
  void require_writable() const;
  void lock();
  void require_own_files(const std::set<std::string>& names) const;
  // Returns false for a manifest of other settings and of no complete file, which binds no call.
  bool read_manifest();
  void enter(FinishedShard shard);
  void write_manifest() const;

  std::filesystem::path path_;
  Settings settings_;
  std::vector<FinishedShard> shards_;
  FileDescriptor lock_;
};

}  // namespace caption::quantise
