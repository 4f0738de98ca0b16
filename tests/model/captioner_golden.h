// tests/model/captioner_golden.h: comparison with the goldens that scripts/captioner_goldens.py
// wrote, for any family.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"
#include "model/caption_model.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption::testing {

// The frames of a golden clip, preprocessed by a model.
struct GoldenClip {
  model::ClipShape shape;
  Tensor pixel_values;
};

// A case tests/golden/<family>/<name>: its checkpoint and what the reference computed with it.
class CaptionerGolden {
 public:
  CaptionerGolden(std::string_view family, std::string_view name);

  const std::filesystem::path& folder() const { return checkpoint_.path(); }
  std::unique_ptr<model::CaptionModel> open(
      weights::WeightFormat format = weights::WeightFormat::kF32) const;

  std::vector<GoldenClip> clips(ThreadPool& pool, const model::CaptionModel& model) const;

  // Checks of pixel values (equal bits), vision tokens and logits (within 1e-4; logits within
  // "logit_tolerance" of expected.json, if it is there), prompt ids and the greedy tokens (equal)
  // for each clip.
  void check_prompts() const;
  void check_clips() const;
  // Checks that the weights take the bytes that a plan predicts from config.json, in every format,
  // and that the vision tokens of a clip of fixed-size frames are as many.
  void check_plan() const;
  // Checks that frames have the same bits encoded one by one and together, more than one pass of
  // them, and that a token after the last frame stays where it is.
  void check_frames_alone() const;
  // Checks that frames that repeat have the tokens of the first of them, computed once.
  void check_repeated_frames() const;
  // Checks that clips of several lengths and, where the tower takes them, sizes have the same bits
  // encoded one by one and together, in any order and with any number of threads.
  void check_company() const;
  // Checks that an encoder that has run full passes of equal clips holds the bytes that a plan
  // predicts.
  void check_encoder_scratch() const;
  // Checks that the text of every placeholder and mark stays text in a user's words.
  void check_placeholders_as_words() const;

 private:
  std::filesystem::path golden_;
  DrawnCheckpoint checkpoint_;
};

// The shape of the frames of a golden's clip, with the times that the golden gives them.
model::ClipShape golden_shape(const JsonObject& clip);

// The checks of check_clips() for a model that was opened otherwise, with one of its adapters;
// `golden` is the case's folder.
void check_golden_clips(model::CaptionModel& model, const std::filesystem::path& golden,
                        std::optional<std::int32_t> adapter = std::nullopt);

// A change to a checkpoint's folder that makes it invalid, and what the refusal must say.
struct BadCheckpoint {
  const char* name;
  const char* file;
  const char* from;  // text of the file, replaced wherever it occurs
  const char* to;
  ErrorCode code;
  const char* message;  // a part of the sentence
};
// Checks that open_model() refuses each.
void check_refusals(std::string_view family, std::string_view golden,
                    std::span<const BadCheckpoint> cases);

// Checks that open_composed() refuses a model with `code`, in a message that holds each of the
// texts.
void check_refused(const model::ComposedSource& source, ErrorCode code,
                   std::initializer_list<const char*> message);

}  // namespace caption::testing
