#include "pipeline/caption_ids.h"

namespace caption::pipeline {

std::vector<std::int32_t> caption_ids(const model::CaptionModel& model, std::string_view caption) {
  std::vector<std::int32_t> ids = model.tokenizer().encode(caption, text::AddedTokens::kPlainText,
                                                           {.beginning = false, .end = false});
  const std::vector<std::int32_t> ends = model.eos_ids();
  if (!ends.empty()) ids.push_back(ends.front());
  return ids;
}

}  // namespace caption::pipeline
