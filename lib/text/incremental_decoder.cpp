#include "text/incremental_decoder.h"

#include <cstddef>
#include <utility>

#include "base/utf8.h"
#include "text/internal/byte_run.h"

namespace caption::text {

std::string IncrementalDecoder::push(TokenId id) {
  std::string bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return "";
  if (is_first_token_) bytes = tokenizer_.first_token_bytes(id);
  is_first_token_ = false;
  if (tokenizer_.is_byte_fallback(id)) {
    byte_run_ += bytes;
    return "";
  }
  std::string text = decode_byte_run(byte_run_);
  byte_run_.clear();
  pending_ += bytes;
  const std::size_t complete = complete_utf8_prefix(pending_);
  text += make_valid_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return strip_start(std::move(text));
}

std::string IncrementalDecoder::finish() {
  std::string text = decode_last_byte_run(byte_run_) + make_valid_utf8(pending_);
  byte_run_.clear();
  pending_.clear();
  return strip_start(std::move(text));
}

std::string IncrementalDecoder::strip_start(std::string text) {
  if (!at_start_ || text.empty()) return text;
  at_start_ = false;
  if (tokenizer_.strips_leading_space() && text.front() == ' ') text.erase(0, 1);
  return text;
}

}  // namespace caption::text
