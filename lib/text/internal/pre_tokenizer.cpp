#include "text/internal/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace caption::text {
namespace {

// Collects the words of one text from its pieces, matched and unmatched in turn.
class Splitter {
 public:
  Splitter(const Word& text, SplitBehavior behavior, std::vector<Word>* out)
      : text_(text), behavior_(behavior), out_(out), first_(out->size()) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    const bool follows_match = follows_match_;
    follows_match_ = is_match;
    const bool has_previous = out_->size() > first_;
    switch (behavior_) {
      case SplitBehavior::kIsolated: break;
      case SplitBehavior::kRemoved:
        if (is_match) return;
        break;
      case SplitBehavior::kContiguous:
        if (is_match == follows_match && has_previous) return extend(end);
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (is_match && !follows_match && has_previous) return extend(end);
        break;
      case SplitBehavior::kMergedWithNext:
        // The last of several matches in a row belongs to the text after it.
        if (!is_match && follows_match && has_previous) return extend(end);
        break;
    }
    out_->push_back(
        {.text = text_.text.substr(begin, end - begin), .is_first = text_.is_first && begin == 0});
  }

 private:
  void extend(std::size_t end) {
    Word& word = out_->back();
    const auto begin = static_cast<std::size_t>(word.text.data() - text_.text.data());
    word.text = text_.text.substr(begin, end - begin);
  }

  const Word& text_;
  SplitBehavior behavior_;
  std::vector<Word>* out_;
  std::size_t first_;
  bool follows_match_ = false;
};

void split_by_regex(const Word& text, const Regex& regex, const PreTokenizerStep& step,
                    RegexScratch* scratch, std::vector<Word>* out) {
  Splitter splitter(text, step.behavior, out);
  std::size_t done = 0;
  while (done < text.text.size()) {
    const auto match = regex.find(text.text, done, scratch);
    const std::size_t begin = match ? match->begin : text.text.size();
    if (begin > done) splitter.add(done, begin, step.is_inverted);
    if (!match) return;
    splitter.add(begin, match->end, !step.is_inverted);
    done = match->end;
  }
}

void split_by_mark(const Word& text, std::string_view mark, std::vector<Word>* out) {
  Splitter splitter(text, SplitBehavior::kMergedWithNext, out);
  for (std::size_t done = 0; done < text.text.size();) {
    const std::size_t begin = std::min(text.text.find(mark, done), text.text.size());
    if (begin > done) splitter.add(done, begin, false);
    if (begin == text.text.size()) return;
    splitter.add(begin, begin + mark.size(), true);
    done = begin + mark.size();
  }
}

Word replace_spaces(const Word& text, const PreTokenizerStep& step, TextArena* arena) {
  std::string marked = replace_all(text.text, " ", step.mark);
  const bool wants_mark = step.prepend_scheme == PrependScheme::kAlways ||
                          (step.prepend_scheme == PrependScheme::kFirst && text.is_first);
  if (wants_mark && !marked.starts_with(step.mark)) marked.insert(0, step.mark);
  return {.text = arena->keep(std::move(marked), "Metaspace"), .is_first = text.is_first};
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& where) {
  for (const PreTokenizerStep& step : steps) {
    std::optional<Regex> regex;
    if (step.kind == PreTokenizerStep::Kind::kSplit) regex.emplace(step.pattern, where);
    steps_.push_back({.step = step, .regex = std::move(regex)});
  }
}

void PreTokenizer::split(std::vector<Word>* words, std::vector<Word>* other, RegexScratch* scratch,
                         TextArena* arena) const {
  for (const Step& step : steps_) {
    other->clear();
    for (const Word& word : *words) {
      switch (step.step.kind) {
        case PreTokenizerStep::Kind::kSplit:
          split_by_regex(word, *step.regex, step.step, scratch, other);
          break;
        case PreTokenizerStep::Kind::kPrefixSpace:
          other->push_back(word);
          if (!word.text.starts_with(' ')) {
            other->back().text = arena->keep(" " + std::string(word.text), "add_prefix_space");
          }
          break;
        case PreTokenizerStep::Kind::kMetaspace: {
          const Word marked = replace_spaces(word, step.step, arena);
          if (step.step.splits) {
            split_by_mark(marked, step.step.mark, other);
          } else {
            other->push_back(marked);
          }
          break;
        }
      }
    }
    words->swap(*other);
  }
}

}  // namespace caption::text
