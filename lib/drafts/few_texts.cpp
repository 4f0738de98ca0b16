#include "drafts/internal/few_texts.h"

#include <algorithm>
#include <array>

#include "drafts/internal/places.h"
#include "drafts/internal/token_run.h"
#include "drafts/internal/token_scan.h"

namespace caption::drafts {
namespace {

constexpr std::size_t kBlockTokens = 64;

// The places of a few texts that have the longest context so far.
class LongestPlaces {
 public:
  LongestPlaces(std::span<const std::int32_t> tokens, const Context& context)
      : tokens_(tokens), context_(context) {}

  // Looks at the token before tokens[place], which is that of the context.
  void consider(std::size_t place) {
    if (tokens_[place] == kBegin) return;  // the text has ended
    std::int64_t length = 1;
    while (length < context_.size() &&
           tokens_[place - 1 - static_cast<std::size_t>(length)] == context_.at(length)) {
      ++length;
    }
    if (length < length_) return;
    if (length > length_) num_found_ = 0;
    length_ = length;
    if (num_found_ < found_.size()) found_[num_found_++] = entry_at(place);
  }
  void append_guesses(std::int64_t most, std::vector<Guess>& guesses) const {
    Places places;
    for (std::size_t i = 0; i < num_found_; ++i) places.add(tokens_.data(), &found_[i]);
    continue_texts(places, length_, most, guesses);
  }

 private:
  OrderEntry entry_at(std::size_t place) const {
    OrderEntry entry{.position = static_cast<std::uint32_t>(place), .next = {}};
    for (std::int32_t& next : entry.next) {
      next = tokens_[place];
      if (next != kBegin) ++place;
    }
    return entry;
  }

  const std::span<const std::int32_t> tokens_;
  const Context& context_;
  std::int64_t length_ = 0;
  std::array<OrderEntry, Places::kMost> found_;  // the first num_found_ are set
  std::size_t num_found_ = 0;
};

}  // namespace

void FewTexts::add(std::span<const std::int32_t> text) {
  if (text.empty() || tokens_.size() + text.size() > kMostTokens) return;
  tokens_.insert(tokens_.end(), text.begin(), text.end());
  tokens_.push_back(kBegin);
}

void FewTexts::guess(std::span<const std::int32_t> text, std::int64_t most,
                     std::vector<Guess>& guesses) const {
  guesses.clear();
  const Context context(text);
  const std::int32_t last = context.at(0);
  LongestPlaces longest(tokens_, context);
  const std::size_t end = tokens_.size() - 1;  // nothing follows the last kBegin
  for (std::size_t begin = 0; begin < end; begin += kBlockTokens) {
    const std::size_t size = std::min(kBlockTokens, end - begin);
    if (!contains(std::span(tokens_).subspan(begin, size), last)) continue;
    for (std::size_t i = begin; i < begin + size; ++i) {
      if (tokens_[i] == last) longest.consider(i + 1);
    }
  }
  longest.append_guesses(most, guesses);
}

}  // namespace caption::drafts
