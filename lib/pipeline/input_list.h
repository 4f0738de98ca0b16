// pipeline/input_list.h: the clips of a run, a million of them in some 90 bytes each.
//
// Paths lie one after the other in blocks of memory, each after a byte with its origin and before a
// NUL; a table with open addressing finds a spelling again. No path has an allocation of its own.
//
// Two spellings are one when they name the same components from the root: "./", doubled slashes and
// the difference between relative and absolute are taken off. ".." is kept: after a link it leads
// somewhere else than the text says. Clips with several names are recognised by content, not here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caption::pipeline {

enum class Origin : char {
  kNamed,       // by the user: whatever is wrong with it has a record
  kFolderWalk,  // found in a folder: left out quietly when it is no video and does not claim to be
};

// Movable, not copyable. Reading is thread-safe once the list is complete.
class InputList {
 public:
  enum class AddResult { kAdded, kDuplicate };

  // Takes the working folder for relative paths once, now.
  InputList();

  // `path`: bytes as the system has them, without NUL. Of two spellings of one path the first one
  // stays. Throws Error(kUsage) beyond 2^32 - 2 paths, std::bad_alloc.
  AddResult add(std::string_view path, Origin origin);

  // Folders were given, or found in others, that could not be read: the list may lack clips.
  void note_unread_folders(std::int64_t count) { num_unread_folders_ += count; }
  std::int64_t num_unread_folders() const { return num_unread_folders_; }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // The path at position `i` in the order added; a NUL follows it. Valid as long as the list.
  std::string_view path(std::size_t i) const { return entries_[i] + 1; }
  Origin origin(std::size_t i) const { return static_cast<Origin>(*entries_[i]); }

  // Memory that the list holds.
  std::size_t size_bytes() const;

 private:
  struct Slot {
    std::uint32_t hash = 0;   // low half of the spelling's hash
    std::uint32_t entry = 0;  // 1 + index into entries_; 0: the slot is free
  };

  char* allocate(std::size_t size_bytes);
  void append(std::string_view path, Origin origin);
  void grow_table();
  Slot& find_slot(std::string_view spelling, std::uint32_t hash);
  // The one spelling of `path`, written over `out`.
  void normalise(std::string_view path, std::string& out) const;

  std::int64_t num_unread_folders_ = 0;
  std::string working_folder_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_bytes_ = 0;       // of all blocks together
  char* free_ = nullptr;              // in the last block
  std::size_t free_bytes_ = 0;        // behind free_
  std::vector<const char*> entries_;  // each at its origin's byte
  std::vector<Slot> slots_;           // a power of two of them, at most 3/4 taken
  std::string spelling_;              // of the path that is being added
  std::string other_spelling_;        // of a path with the same hash
};

}  // namespace caption::pipeline
