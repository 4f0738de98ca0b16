// pipeline/calibration_prompts.h: the prompts that a decoder sees in a run over videos, for the
// calibration of quantised checkpoints: clips go through decoding, preprocessing, vision tower and
// projector of the model, and every prompt through its chat template. Where a clip has a reference
// caption, it follows the prompt as the answer, which is what decoding sees.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "model/caption_model.h"
#include "pipeline/examples.h"
#include "pipeline/input_list.h"
#include "pipeline/prompts.h"
#include "quantise/calibration.h"
#include "video/read_clip.h"

namespace caption::pipeline {

// At least so many clips are used, where there are as many, whatever max_tokens says.
inline constexpr std::int64_t kLeastCalibrationClips = 4;

struct CalibrationOptions {
  video::ReadOptions read;
  std::vector<Prompt> prompts = {{}};  // at least one; an empty text is the model's default prompt
  std::string system = {};
  // Answers by clip (InputList::path()) and prompt (Prompt::name). May lack any.
  std::map<std::pair<std::string, std::string>, std::string> answers = {};
  // Digest of the references that the answers are from; empty: there are none.
  std::string references_digest = {};
  std::int64_t max_tokens = 32768;  // limit for all prompts together
  ReadClip read_clip = [](const OpenFile& file, const video::ReadOptions& how) {
    return video::read_clip(file, how);
  };
  // Called before every clip with the numbers of clips done and to be read.
  std::function<void(std::int64_t done, std::int64_t total)> on_clip = {};
};

struct CalibrationPrompts {
  quantise::Calibration calibration;
  std::int64_t num_clips = 0;    // clips that are used
  std::int64_t num_answers = 0;  // prompts with an answer
};

// Reads clips that are spread evenly over the list, as many as give max_tokens tokens if all have
// the length of the first; none of the prompts is cut. A clip that cannot be used costs one warning
// in the log, and so does each of a clip's own (video::Clip::warnings). Depends on the contents of
// the clips and their order alone. Throws Error(kUsage) when no clip can be used, or a prompt's
// text cannot be expressed (CaptionModel::build_prompt()); passes on errors of the machine
// (is_of_machine()) and kCancelled.
CalibrationPrompts read_calibration_prompts(Stream& stream, model::CaptionModel& model,
                                            const InputList& inputs,
                                            const CalibrationOptions& options);

}  // namespace caption::pipeline
