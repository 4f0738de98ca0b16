#include "eval/synonyms.h"

#include <cstddef>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/internal/lines.h"
#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

std::string normalised(std::string_view word) {
  const std::string nfc = to_nfc(word);
  std::u32string chars = to_lower(decode_utf8_lossy(nfc));
  while (!chars.empty() && is_space(chars.back())) chars.pop_back();
  std::size_t begin = 0;
  while (begin < chars.size() && is_space(chars[begin])) ++begin;
  return encode_utf8(std::u32string_view(chars).substr(begin));
}

}  // namespace

Synonyms Synonyms::open(const std::filesystem::path& path) {
  Synonyms synonyms;
  std::int32_t group = 0;
  Problems problems;
  for_each_line(path, problems, [&](const Line& line) {
    if (!is_valid_utf8(line.text)) {
      throw Error(ErrorCode::kBadReference, line.name + ": not valid UTF-8");
    }
    if (line.text.front() == '#') return;
    std::size_t num_words = 0;
    for (std::string_view rest = line.text;;) {
      const std::size_t tab = rest.find('\t');
      const std::string word = normalised(rest.substr(0, tab));
      if (!word.empty()) {
        ++num_words;
        std::vector<std::int32_t>& groups = synonyms.groups_[word];
        if (groups.empty() || groups.back() != group) groups.push_back(group);
      }
      if (tab == std::string_view::npos) break;
      rest.remove_prefix(tab + 1);
    }
    if (num_words < 2) {
      throw Error(ErrorCode::kBadReference,
                  line.name + ": a group of synonyms needs two words or more, separated by tabs");
    }
    ++group;
  });
  problems.throw_if_any();
  return synonyms;
}

std::vector<std::string> Synonyms::words() const {
  std::vector<std::string> words;
  for (const auto& word_and_groups : groups_) words.push_back(word_and_groups.first);
  return words;
}

std::vector<std::int32_t> Synonyms::groups_of(std::string_view stem) const {
  const auto entry = groups_.find(stem);
  return entry == groups_.end() ? std::vector<std::int32_t>{} : entry->second;
}

}  // namespace caption::eval
