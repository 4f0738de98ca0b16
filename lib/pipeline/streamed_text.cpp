#include "pipeline/internal/streamed_text.h"

namespace caption::pipeline {

StreamedText::StreamedText(const text::Tokenizer& tokenizer, const Options& options)
    : decoder_(tokenizer), matcher_(options.stop_strings), on_text_(options.on_text) {}

engine::TokenVerdict StreamedText::push(std::int32_t token) {
  release(matcher_.push(decoder_.push(token)));
  return matcher_.is_stopped() ? engine::TokenVerdict::kStop : engine::TokenVerdict::kContinue;
}

const std::string& StreamedText::finish() {
  if (!matcher_.is_stopped()) release(matcher_.push(decoder_.finish()));
  release(matcher_.finish());
  return text_;
}

void StreamedText::release(const std::string& text) {
  text_ += text;
  if (on_text_) pass_on();
}

void StreamedText::pass_on() {
  const std::size_t last = text_.find_last_not_of(kSpaceAroundCaptions);
  if (last == std::string::npos || last < num_passed_bytes_) return;
  if (num_passed_bytes_ == 0) num_passed_bytes_ = text_.find_first_not_of(kSpaceAroundCaptions);
  on_text_(std::string_view(text_).substr(num_passed_bytes_, last + 1 - num_passed_bytes_));
  num_passed_bytes_ = last + 1;
}

}  // namespace caption::pipeline
