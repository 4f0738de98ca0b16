// pipeline/input_list.h: the clips of a run, in about 90 bytes per path for a million of them.
//
// Paths are stored consecutively in memory blocks, each with preceding bytes for its adapter and
// its origin and a terminating NUL. A hash table with open addressing finds duplicates. Single
// paths are not allocated separately.
//
// Two spellings are equal when they name the same components from the root: "./", doubled slashes
// and the difference between relative and absolute are removed. ".." is kept, because after a
// symbolic link it does not lead to the textual parent. Clips with several names are recognised by
// content in a later stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/adapters.h"

namespace caption::pipeline {

enum class Origin : char {
  kNamed,  // named by the user; always gets a record
  // Found in a folder; skipped without a record if it is not a video and has no video suffix.
  kFolderWalk,
};

// Movable, not copyable. Concurrent reads are safe once the list is complete.
class InputList {
 public:
  enum class AddResult {
    kAdded,
    kDuplicate,
    kOtherAdapter,  // in the list already, with another adapter
  };

  // Reads the working folder, which later resolves relative paths.
  InputList();

  // `path` holds the bytes used by the system, without NUL. The first of two spellings of a path is
  // kept. `adapter` is that of the clip's captions, less than kMaxAdapters. Throws Error(kUsage)
  // beyond 2^32 - 2 paths, and std::bad_alloc.
  AddResult add(std::string_view path, Origin origin, AdapterIndex adapter = kNoAdapter);

  // Adds to the number of folders that could not be read, whose clips the list may lack.
  void note_unread_folders(std::int64_t count) { num_unread_folders_ += count; }
  std::int64_t num_unread_folders() const { return num_unread_folders_; }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // Returns the path at position `i` in the order of adding; a NUL follows it. Valid while the list
  // exists.
  std::string_view path(std::size_t i) const { return entries_[i] + kPrefixBytes; }
  Origin origin(std::size_t i) const { return static_cast<Origin>(entries_[i][1]); }
  AdapterIndex adapter(std::size_t i) const {
    return static_cast<AdapterIndex>(static_cast<unsigned char>(entries_[i][0])) - 1;
  }
  bool has_adapters() const { return has_adapters_; }  // whether a clip chose an adapter

  // Bytes of memory held by the list.
  std::size_t size_bytes() const;

 private:
  struct Slot {
    std::uint32_t hash = 0;   // low half of the spelling's hash
    std::uint32_t entry = 0;  // 1 + index into entries_; 0: the slot is free
  };

  static constexpr std::size_t kPrefixBytes = 2;  // 1 + adapter, origin

  char* allocate(std::size_t size_bytes);
  void append(std::string_view path, Origin origin, AdapterIndex adapter);
  void grow_table();
  Slot& find_slot(std::string_view spelling, std::uint32_t hash);
  // Writes the canonical spelling of `path` to `out`.
  void normalise(std::string_view path, std::string& out) const;

  std::int64_t num_unread_folders_ = 0;
  bool has_adapters_ = false;
  std::string working_folder_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_bytes_ = 0;       // bytes of all blocks together
  char* free_ = nullptr;              // next free byte of the last block
  std::size_t free_bytes_ = 0;        // free bytes from free_ on
  std::vector<const char*> entries_;  // each points to the bytes before the path
  std::vector<Slot> slots_;           // size is a power of two; at most 3/4 of the slots are used
  std::string spelling_;              // canonical spelling of the path that is being added
  std::string other_spelling_;        // canonical spelling of a stored path with the same hash
};

}  // namespace caption::pipeline
