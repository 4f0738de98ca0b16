#include "text/internal/pre_tokenization.h"

#include <array>

#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

std::span<const PreTokenization> known_pre_tokenizations() {
  static const std::array kKnown = {
      PreTokenization{.names = {"qwen2", "deepseek-r1-qwen", "qwen2"},
                      .pattern = qwen2_pattern(),
                      .is_nfc = true},
      PreTokenization{.names = {"llama-bpe", "llama3", "llama-v3"},
                      .pattern = kLlama3Pattern,
                      .ignores_merges = true,
                      .adds_bos = true},
      PreTokenization{.names = {"gpt-2", "gpt-2", "gpt-2"}, .pattern = gpt2_pattern()}};
  return kKnown;
}

}  // namespace caption::text
