// eval/synonyms.h: user-supplied synonyms for METEOR's third stage.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

// Groups of synonyms from a UTF-8 file with one group per line: stems separated by tabs
// ("바다\t해양\t대양"). A word may be in several groups. Blank lines and lines that begin with "#"
// are skipped. Stems are compared in NFC and lower case. Immutable after loading, thread-safe.
class Synonyms {
 public:
  Synonyms() = default;
  // Throws Error(kBadReference) with file and line for a group of fewer than two words or invalid
  // UTF-8, and when the file cannot be read.
  static Synonyms open(const std::filesystem::path& path);

  bool empty() const { return groups_.empty(); }
  // Returns the stems of all groups, each once, ascending by byte value.
  std::vector<std::string> words() const;
  // The group numbers of a stem, ascending; empty when it is in no group.
  std::vector<std::int32_t> groups_of(std::string_view stem) const;

 private:
  std::map<std::string, std::vector<std::int32_t>, std::less<>> groups_;
};

}  // namespace caption::eval
