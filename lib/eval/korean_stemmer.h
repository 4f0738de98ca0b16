// eval/korean_stemmer.h: the stems of one Korean word (eojeol), so that 하늘이 and 하늘은 match.
//
// The Korean dictionary of hunspell (Debian package hunspell-ko) gives the stems of nouns with
// particles and of conjugated verbs; compounds, plurals, derived adverbs and words that begin with
// Latin letters or digits follow the rules in korean_stemmer.cpp. Without the dictionary only
// particles are removed: a weaker metric, which therefore has another name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

enum class StemmerMode {
  kHunspell,  // "hunspell"
  kJosa,      // "josa": particles only
};
std::string_view stemmer_mode_name(StemmerMode mode);

// Identifies the dictionary; in josa mode only `base_path` is set.
struct DictionaryIdentity {
  std::string base_path;  // "/usr/share/hunspell/ko"
  std::string version;    // the VERSION line of the .aff file
  std::string hash;       // XXH3-128 over both files
};

// Resolves the dictionary that a user names by its path without suffix, by its .aff or .dic file,
// or by the folder that holds ko.aff and ko.dic. Returns the path without suffix, as KoreanStemmer
// expects it. Throws Error(kBadReference) with the file that is missing or cannot be read,
// Error(kIo | kOutOfMemory).
std::filesystem::path find_dictionary(const std::filesystem::path& named);

// Removes the longest particle that agrees with the final consonant before it, then the plural
// ending 들. `word` is one NFC word in lower case. The result is never empty.
std::string strip_particle(std::string_view word);

// Thread-safe: a mutex guards the dictionary and a cache. The dictionary (0.4 s, 52 MB) is loaded
// by the first call that needs it.
class KoreanStemmer {
 public:
  // Uses `dictionary`.aff and `dictionary`.dic; if either is not readable, the mode is josa. Throws
  // Error(kIo | kOutOfMemory).
  explicit KoreanStemmer(const std::filesystem::path& dictionary = "/usr/share/hunspell/ko");
  ~KoreanStemmer();
  KoreanStemmer(const KoreanStemmer&) = delete;
  KoreanStemmer& operator=(const KoreanStemmer&) = delete;

  StemmerMode mode() const;
  // Loads the dictionary. Throws Error(kBadReference) when it is not a Korean one.
  DictionaryIdentity identity() const;

  // The possible stems, the most likely first, without repetition; never empty. `word` is one NFC
  // word in lower case without punctuation. Throws as identity() does.
  std::vector<std::string> stems(std::string_view word) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::eval
