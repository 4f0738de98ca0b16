// pipeline/internal/draft_prompts.h: what a draft model reads of a clip before its caption.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/stream.h"
#include "engine/engine.h"
#include "model/caption_model.h"
#include "pipeline/examples.h"
#include "pipeline/pipeline.h"
#include "tensor/tensor.h"
#include "video/clip.h"
#include "vision/preprocess.h"

namespace caption::pipeline {

// Renders the question about a clip with the draft model's own template, without examples, and
// encodes the clip with its own tower. Where it gets no vision tokens (DraftReads::kText, a
// language model, a clip of the vision cache, a tower that fails), the video is left out of the
// prompt. Used by one thread at a time, with the stream of the draft model's device.
class DraftPrompts {
 public:
  DraftPrompts(model::CaptionModel& model, DraftReads reads) : model_(model), reads_(reads) {}

  // Empty where the draft model reads no video. Throws Error(kUnavailable) for a lost device.
  vision::PixelValues preprocess(Stream& stream, const video::Clip& clip) const;
  // The clip's vision tokens, or null. Throws as preprocess().
  std::shared_ptr<const Tensor> encode(Stream& stream, const vision::PixelValues& pixels);
  // A request for engine::DraftDecoder::begin(); nullopt where the template has no place for the
  // question.
  std::optional<engine::Request> make(const std::string& system, const std::string& question,
                                      const model::ClipShape& shape,
                                      std::shared_ptr<const Tensor> vision) const;

 private:
  model::CaptionModel& model_;
  DraftReads reads_;
};

}  // namespace caption::pipeline
