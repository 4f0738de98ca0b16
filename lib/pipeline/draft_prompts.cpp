#include "pipeline/internal/draft_prompts.h"

#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace caption::pipeline {
namespace {

// The result of `work`, or an empty one where a clip is too much for the draft model: its caption
// needs no drafts.
template <class T, class Work>
T unless_refused(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) throw;
    log_debug("pipeline", std::string("the draft model does not see a clip: ") + error.what());
    return {};
  } catch (const std::bad_alloc&) {
    log_debug("pipeline", "the draft model does not see a clip: out of memory");
    return {};
  }
}

void leave_out_video(model::PromptIds& prompt) {
  std::vector<std::int32_t> text;
  auto next_vision = prompt.vision_positions.begin();
  for (std::size_t i = 0; i < prompt.ids.size(); ++i) {
    if (next_vision != prompt.vision_positions.end() &&
        *next_vision == static_cast<std::int32_t>(i)) {
      ++next_vision;
    } else {
      text.push_back(prompt.ids[i]);
    }
  }
  prompt = {.ids = std::move(text), .vision_positions = {}};
}

}  // namespace

vision::PixelValues DraftPrompts::preprocess(Stream& stream, const video::Clip& clip) const {
  if (reads_ == DraftReads::kText || !model_.sees_video()) return {};
  return unless_refused<vision::PixelValues>([&]() -> vision::PixelValues {
    const model::ClipShape shape = shape_of(clip);
    if (model_.vision_tokens(shape) >= model_.decoder().spec().max_positions) return {};
    return vision::preprocess(stream, clip.frames, model_.preprocess_spec());
  });
}

std::shared_ptr<const Tensor> DraftPrompts::encode(Stream& stream,
                                                   const vision::PixelValues& pixels) {
  if (pixels.values.empty()) return nullptr;
  return unless_refused<std::shared_ptr<const Tensor>>([&]() -> std::shared_ptr<const Tensor> {
    auto tokens =
        std::make_shared<const Tensor>(model_.encode_frames(stream, pixels.values.view()));
    stream.synchronize();
    return tokens;
  });
}

std::optional<engine::Request> DraftPrompts::make(const std::string& system,
                                                  const std::string& question,
                                                  const model::ClipShape& shape,
                                                  std::shared_ptr<const Tensor> vision) const {
  return unless_refused<std::optional<engine::Request>>([&]() -> std::optional<engine::Request> {
    model::PromptIds prompt = model_.build_prompt(conversation_of(system, {}, question), shape);
    if (vision == nullptr) leave_out_video(prompt);
    if (prompt.ids.empty()) return std::nullopt;
    engine::Request request;
    request.prompt_ids = std::move(prompt.ids);
    request.vision_positions = std::move(prompt.vision_positions);
    request.positions = std::move(prompt.positions);
    request.vision = std::move(vision);
    return request;
  });
}

}  // namespace caption::pipeline
