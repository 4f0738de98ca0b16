// tests/support/listed_tokens.h: a vocabulary that is a list of texts, for tests of what reads one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace caption::testing {

using text::AddedEnds;
using text::AddedTokens;
using text::TokenId;

// A tokenizer of these tokens; empty ones are special, and "<..>" are bytes of a fallback.
class ListedTokens final : public text::Tokenizer {
 public:
  explicit ListedTokens(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  std::vector<TokenId> encode(std::string_view, AddedTokens, AddedEnds) const override {
    return {};
  }
  std::string decode(std::span<const TokenId>) const override { return {}; }
  std::string token_bytes(TokenId id) const override {
    const std::string& token = tokens_.at(static_cast<std::size_t>(id));
    return is_byte_fallback(id) ? token.substr(1, 1) : token;
  }
  bool strips_leading_space() const override { return false; }
  bool is_byte_fallback(TokenId id) const override {
    const std::string& token = tokens_.at(static_cast<std::size_t>(id));
    return token.size() == 3 && token.front() == '<';
  }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }

 private:
  std::vector<std::string> tokens_;
};

}  // namespace caption::testing
