#include "pipeline/internal/suspicion.h"

#include <algorithm>
#include <vector>

#include "video/frame_content.h"

namespace caption::pipeline {
namespace {

// Maximum length in words of a repeated phrase that is detected: a long sentence.
constexpr std::size_t kMaxPhraseWords = 24;
// Korean doubles words for emphasis and triples some; a list may repeat a short phrase.
constexpr std::size_t kMaxWordRepeats = 3;
constexpr std::size_t kMaxPhraseRepeats = 2;

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

// Detects bytes below 0x20 except tab and line breaks, DEL, and U+0080 to U+009F (bytes C2 80 to C2
// 9F).
bool has_control_character(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F) return true;
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0xFF;
    if (byte == 0xC2 && next < 0xA0) return true;
  }
  return false;
}

// Returns the first phrase that is repeated too often; empty when there is none.
std::string find_repetition(const std::vector<std::string_view>& words) {
  for (std::size_t length = 1; length <= kMaxPhraseWords && length < words.size(); ++length) {
    const std::size_t allowed = length == 1 ? kMaxWordRepeats : kMaxPhraseRepeats;
    std::size_t num_equal = 0;  // consecutive words equal to the word `length` words before
    for (std::size_t i = length; i < words.size(); ++i) {
      num_equal = words[i] == words[i - length] ? num_equal + 1 : 0;
      if (num_equal < allowed * length) continue;
      std::string phrase;
      for (std::size_t k = i + 1 - length; k <= i; ++k) {
        phrase.append(phrase.empty() ? "" : " ").append(words[k]);
      }
      return phrase;
    }
  }
  return {};
}

}  // namespace

std::string suspicion_of_frames(std::span<const video::Frame> frames) {
  return std::string(video::content_sentence(video::classify_content(frames)));
}

std::string suspicion_of_caption(std::string_view caption, std::string_view unlike) {
  const std::vector<std::string_view> words = words_of(caption);
  if (words.empty()) return "the caption is empty";
  if (words == words_of(unlike)) {
    return "the model declares that it cannot describe this clip: it is unlike what it was trained "
           "on";
  }
  if (caption.find("\xEF\xBF\xBD") != std::string_view::npos) {
    return "the caption holds U+FFFD: bytes that are no character";
  }
  if (has_control_character(caption)) return "the caption holds a control character";
  const std::string phrase = find_repetition(words);
  if (!phrase.empty()) return "the caption repeats \"" + phrase + "\"";
  return {};
}

}  // namespace caption::pipeline
