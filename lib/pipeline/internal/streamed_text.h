// pipeline/internal/streamed_text.h: decodes a caption's text during generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "pipeline/pipeline.h"
#include "text/incremental_decoder.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace caption::pipeline {

// White space around a caption, which is no part of it.
inline constexpr const char* kSpaceAroundCaptions = " \t\r\n";

// Passes the text on without white space at its beginning and, since the text may end there, what
// follows white space together with that. Not thread-safe.
class StreamedText {
 public:
  StreamedText(const text::Tokenizer& tokenizer, const Options& options);

  // Adds a token; the verdict ends the output when a stop string is complete.
  engine::TokenVerdict push(std::int32_t token);
  // Call after the last token. Returns the text before the stop string, or all of it, with the
  // white space around it.
  const std::string& finish();

 private:
  void release(const std::string& text);
  void pass_on();

  text::IncrementalDecoder decoder_;
  text::StopMatcher matcher_;
  const std::function<void(std::string_view)>& on_text_;
  std::string text_;
  std::size_t num_passed_bytes_ = 0;  // bytes of text_ passed on, or white space at its beginning
};

}  // namespace caption::pipeline
