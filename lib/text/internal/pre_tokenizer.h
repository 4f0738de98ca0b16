// text/internal/pre_tokenizer.h: the `pre_tokenizer` of a tokenizer.json, which cuts a normalised
// text into the words that a model tokenises one by one.
// Source: Hugging Face tokenizers 0.22, tokenizers/src/pre_tokenizers, and split() of
// tokenizers/src/tokenizer/normalizer.rs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/internal/normalizer.h"
#include "text/internal/regex.h"

namespace caption::text {

// What becomes of the matches of a pattern that splits a text.
enum class SplitBehavior {
  kIsolated,            // each is a word
  kRemoved,             // each is left out
  kMergedWithPrevious,  // each belongs to the word before it
  kMergedWithNext,      // each belongs to the word after it
  kContiguous,          // neighbouring ones are one word
};

// Where a Metaspace puts its mark for the space before a first word.
enum class PrependScheme { kAlways, kFirst, kNever };

struct PreTokenizerStep {
  enum class Kind { kSplit, kPrefixSpace, kMetaspace };
  Kind kind = Kind::kSplit;
  // kSplit. kPrefixSpace puts a space before each word that has none, and has no members.
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool is_inverted = false;  // the text between the matches counts as matched
  // kMetaspace
  std::string mark;  // one character, for spaces
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool splits = true;  // whether words are split at each mark
};

// A word; its text is not empty.
struct Word {
  std::string_view text;
  bool is_first = false;  // it begins where the text begins that encode() was given
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  // Throws as Regex's constructor; `where` names the file and the key.
  PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where);

  // Replaces `words`, at first texts between added tokens, by the words in them. `other` is a
  // buffer. The views refer to the given texts and to the arena. Throws as Regex::find()
  // and TextArena.
  void split(std::vector<Word>* words, std::vector<Word>* other, RegexScratch* scratch,
             TextArena* arena) const;

 private:
  struct Step {
    PreTokenizerStep step;
    std::optional<Regex> regex;
  };
  std::vector<Step> steps_;
};

}  // namespace caption::text
