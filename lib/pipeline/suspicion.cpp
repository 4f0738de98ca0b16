#include "pipeline/internal/suspicion.h"

#include <algorithm>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "video/frame_content.h"

namespace caption::pipeline {
namespace {

// How long a part of a caption may be whose repetitions are looked for, and how often it may follow
// itself, in words or in the characters of one word.
struct RepetitionLimits {
  std::size_t max_length;
  std::size_t times_of_one;   // word or character
  std::size_t times_of_more;  // a phrase or several characters

  std::size_t times(std::size_t length) const { return length == 1 ? times_of_one : times_of_more; }
};
// A long sentence. Korean doubles words for emphasis and triples some; a list may repeat a short
// phrase.
constexpr RepetitionLimits kOfWords{.max_length = 24, .times_of_one = 3, .times_of_more = 2};
// Laughter and sounds repeat one syllable or two.
constexpr RepetitionLimits kOfCharacters{.max_length = 16, .times_of_one = 8, .times_of_more = 4};

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

// The first part that follows itself more often than the limits allow, the shortest such part
// first; empty when there is none.
template <class Unit>
std::span<const Unit> find_repetition(std::span<const Unit> units, const RepetitionLimits& limits) {
  for (std::size_t length = 1; length <= limits.max_length && length < units.size(); ++length) {
    std::size_t num_equal = 0;  // consecutive units equal to the unit `length` units before
    for (std::size_t i = length; i < units.size(); ++i) {
      num_equal = units[i] == units[i - length] ? num_equal + 1 : 0;
      if (num_equal >= limits.times(length) * length) return units.subspan(i + 1 - length, length);
    }
  }
  return {};
}

// Rulers and numbers may be of any length.
bool is_ruler_or_number(std::u32string_view characters) {
  return std::ranges::all_of(characters, [](char32_t c) {
    return c < 0x80 && !(c >= U'a' && c <= U'z') && !(c >= U'A' && c <= U'Z');
  });
}

std::string find_repeated_phrase(const std::vector<std::string_view>& words) {
  std::string phrase;
  for (const std::string_view word : find_repetition(std::span(words), kOfWords)) {
    phrase.append(phrase.empty() ? "" : " ").append(word);
  }
  return phrase;
}

std::string find_repeated_characters(const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) {
    const std::u32string characters = decode_utf8_lossy(word);
    const auto found = find_repetition(std::span<const char32_t>(characters), kOfCharacters);
    const std::u32string_view cycle(found.data(), found.size());
    if (!is_ruler_or_number(cycle)) return encode_utf8(cycle);
  }
  return {};
}

}  // namespace

std::string suspicion_of_frames(std::span<const video::Frame> frames) {
  return std::string(video::content_sentence(video::classify_content(frames)));
}

std::string suspicion_of_losses(std::int64_t frames_used, std::int64_t frames_wanted) {
  if (frames_used >= frames_wanted - frames_used) return {};
  return "only " + std::to_string(frames_used) + " of " + counted(frames_wanted, "sampled frame") +
         " could be decoded";
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
  std::string repeated = find_repeated_phrase(words);
  if (repeated.empty()) repeated = find_repeated_characters(words);
  if (!repeated.empty()) return "the caption repeats \"" + repeated + "\"";
  return {};
}

}  // namespace caption::pipeline
