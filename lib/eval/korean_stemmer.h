// eval/korean_stemmer.h: the stems of one Korean word (eojeol), so that 하늘이 and 하늘은 match.
//
// hunspell's Korean dictionary (package hunspell-ko) gives stems of nouns with particles and of
// conjugated verbs; compounds, plurals and Latin or digit prefixes follow rules of our own. Without
// the dictionary only particles are taken off: another, weaker metric, so it has another name.
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

// Which dictionary made the stems; empty in josa mode except for `base_path`.
struct DictionaryIdentity {
  std::string base_path;  // "/usr/share/hunspell/ko"
  std::string version;    // the VERSION line of the .aff file
  std::string hash;       // XXH3-128 over both files
};

// The dictionary that a user names by its path without suffix, by its .aff or .dic file, or by the
// folder that holds ko.aff and ko.dic: the path without suffix, which KoreanStemmer takes. Throws
// Error(kBadReference) that names the file which is missing or cannot be read.
std::filesystem::path find_dictionary(const std::filesystem::path& named);

// Takes off the longest particle that fits the final consonant before it, then the plural 들.
// `word` is one NFC word in lower case. Never empties the word.
std::string strip_particle(std::string_view word);

// Thread-safe: one dictionary, a mutex and a cache. The dictionary (0.4 s, 52 MB) is loaded by the
// first call that needs it.
class KoreanStemmer {
 public:
  // Reads `dictionary`.aff and `dictionary`.dic; when either is missing the mode is josa.
  explicit KoreanStemmer(const std::filesystem::path& dictionary = "/usr/share/hunspell/ko");
  ~KoreanStemmer();
  KoreanStemmer(const KoreanStemmer&) = delete;
  KoreanStemmer& operator=(const KoreanStemmer&) = delete;

  StemmerMode mode() const;
  // Loads the dictionary. Throws Error(kBadReference) when it is not a Korean one.
  DictionaryIdentity identity() const;

  // The possible stems, the likeliest first, without repetition, never empty. `word` is one NFC
  // word in lower case without punctuation. Throws as identity().
  std::vector<std::string> stems(std::string_view word) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::eval
