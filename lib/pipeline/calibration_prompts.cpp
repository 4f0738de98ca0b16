#include "pipeline/calibration_prompts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "pipeline/caption_ids.h"
#include "records/file_name.h"
#include "tensor/copy.h"
#include "vision/preprocess.h"

namespace caption::pipeline {
namespace {

using quantise::CalibrationPrompt;

struct EncodedClip {
  std::string id;  // SHA-256 of the file
  model::ClipShape shape;
  std::shared_ptr<const Tensor> vision;
};

// Appends tokens that the model would have written: each has the position after the last, along
// every axis.
void append_answer(CalibrationPrompt& prompt, const std::vector<std::int32_t>& answer) {
  const std::size_t tokens = prompt.ids.size();
  const std::size_t axes = prompt.positions.size() / tokens;
  const std::int32_t last = *std::max_element(prompt.positions.begin(), prompt.positions.end());
  std::vector<std::int32_t> positions;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto begin = prompt.positions.begin() + static_cast<std::ptrdiff_t>(axis * tokens);
    positions.insert(positions.end(), begin, begin + static_cast<std::ptrdiff_t>(tokens));
    for (std::size_t i = 0; i < answer.size(); ++i) {
      positions.push_back(last + 1 + static_cast<std::int32_t>(i));
    }
  }
  prompt.positions = std::move(positions);
  prompt.ids.insert(prompt.ids.end(), answer.begin(), answer.end());
}

class Reader {
 public:
  Reader(Stream& stream, model::CaptionModel& model, const InputList& inputs,
         const CalibrationOptions& options)
      : stream_(stream), model_(model), inputs_(inputs), options_(options) {}

  CalibrationPrompts read();

 private:
  // Returns the prompts of a clip; none, with a warning, when it cannot be used.
  std::vector<CalibrationPrompt> read_clip(std::size_t input);
  EncodedClip encode(const std::string& path);
  CalibrationPrompt make_prompt(const EncodedClip& clip, const std::string& path,
                                const Prompt& prompt);
  // The clips that are wanted besides the first usable one.
  std::vector<std::size_t> choose(std::size_t first, std::int64_t tokens_per_clip) const;
  bool take(std::vector<CalibrationPrompt> prompts);
  void name_sources();

  Stream& stream_;
  model::CaptionModel& model_;
  const InputList& inputs_;
  const CalibrationOptions& options_;
  CalibrationPrompts read_;
  std::int64_t num_tokens_ = 0;
  // The clip that was read last.
  std::string clip_id_;
  std::vector<std::string> clip_answers_;
  Sha256Hasher clips_, answers_;
};

// Warns, as a record of `run` would, of a film that is damaged, cut short or has few frames.
void warn_of_film(const std::string& path, const video::Clip& clip) {
  std::vector<std::string> warnings = clip.warnings;
  if (std::string few = video::describe_few_frames(clip); !few.empty()) {
    warnings.push_back(std::move(few));
  }
  for (const std::string& warning : warnings) {
    log_warning("quantize", records::escape_file_name(path + ": " + warning));
  }
}

EncodedClip Reader::encode(const std::string& path) {
  const OpenFile file = video::open_video(path);
  EncodedClip encoded;
  encoded.id = file.sha256(options_.read.cancelled).hex();
  const video::Clip clip = options_.read_clip(file, options_.read);
  if (clip.frames.empty()) {
    throw Error(ErrorCode::kNoFrames, path + ": no frame could be decoded");
  }
  if (file.stamp_now() != file.stamp()) {
    throw Error(ErrorCode::kChanged, path + ": the file changed while it was read");
  }
  warn_of_film(path, clip);
  encoded.shape = shape_of(clip);
  const std::int64_t vision_tokens = model_.vision_tokens(encoded.shape);
  const std::int64_t max_positions = model_.decoder().spec().max_positions;
  if (vision_tokens > max_positions) {
    throw Error(ErrorCode::kTooLong, path + ": its " + counted(vision_tokens, "vision token") +
                                         " exceed the model's " +
                                         counted(max_positions, "position"));
  }
  const vision::PixelValues pixels =
      vision::preprocess(stream_, clip.frames, model_.preprocess_spec());
  Tensor tokens = model_.encode_frames(stream_, pixels.values.view());
  stream_.synchronize();
  if (tokens.device() != Device::kCpu) {
    tokens = copy_to(stream_, Device::kCpu, std::as_const(tokens).view());
  }
  encoded.vision = std::make_shared<const Tensor>(std::move(tokens));
  return encoded;
}

CalibrationPrompt Reader::make_prompt(const EncodedClip& clip, const std::string& path,
                                      const Prompt& prompt) {
  const std::string text = prompt.text.empty() ? model_.default_prompt() : prompt.text;
  model::PromptIds built = model_.build_prompt(
      model::Conversation{.system = options_.system, .prompt = text}, clip.shape);
  const model::DecoderSpec& spec = model_.decoder().spec();
  CalibrationPrompt made{.ids = std::move(built.ids),
                         .positions = std::move(built.positions),
                         .vision_rows = std::move(built.vision_positions),
                         .vision = clip.vision};
  if (made.positions.empty()) {
    std::vector<std::int32_t> counting(made.ids.size());
    std::iota(counting.begin(), counting.end(), 0);
    for (std::int64_t axis = 0; axis < spec.position_axes(); ++axis) {
      made.positions.insert(made.positions.end(), counting.begin(), counting.end());
    }
  }
  const auto answer = options_.answers.find({path, prompt.name});
  if (answer != options_.answers.end()) {
    append_answer(made, caption_ids(model_, answer->second));
    clip_answers_.push_back(answer->second);
  }
  const std::int32_t last = *std::max_element(made.positions.begin(), made.positions.end());
  if (last >= spec.max_positions) {
    throw Error(ErrorCode::kTooLong,
                path + ": its prompt of " + counted(made.num_tokens(), "token") +
                    " exceeds the model's " + counted(spec.max_positions, "position"));
  }
  return made;
}

std::vector<CalibrationPrompt> Reader::read_clip(std::size_t input) {
  const std::string path(inputs_.path(input));
  try {
    const EncodedClip clip = encode(path);
    clip_id_ = clip.id;
    clip_answers_.clear();
    std::vector<CalibrationPrompt> prompts;
    for (const Prompt& prompt : options_.prompts) {
      prompts.push_back(make_prompt(clip, path, prompt));
    }
    return prompts;
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (is_of_machine(code) || code == ErrorCode::kCancelled || code == ErrorCode::kUsage ||
        code == ErrorCode::kInternal || code == ErrorCode::kBadModel) {
      throw;
    }
    log_warning("quantize", "left out: " + records::escape_file_name(error.what()));
    return {};
  }
}

std::vector<std::size_t> Reader::choose(std::size_t first, std::int64_t tokens_per_clip) const {
  const auto left = std::ssize(inputs_) - static_cast<std::int64_t>(first);
  const std::int64_t affordable = options_.max_tokens / std::max<std::int64_t>(1, tokens_per_clip);
  const std::int64_t wanted = std::min(left, std::max(affordable, kLeastCalibrationClips));
  std::vector<std::size_t> chosen;
  for (std::int64_t i = 1; i < wanted; ++i) {
    chosen.push_back(first + static_cast<std::size_t>(i * left / wanted));
  }
  return chosen;
}

// Returns false when the tokens are enough without these prompts.
bool Reader::take(std::vector<CalibrationPrompt> prompts) {
  std::int64_t tokens = 0;
  for (const CalibrationPrompt& prompt : prompts) tokens += prompt.num_tokens();
  if (read_.num_clips >= kLeastCalibrationClips && num_tokens_ + tokens > options_.max_tokens) {
    return false;
  }
  num_tokens_ += tokens;
  ++read_.num_clips;
  read_.num_answers += std::ssize(clip_answers_);
  clips_.update_string(clip_id_);
  answers_.update_string(clip_id_);
  for (const std::string& answer : clip_answers_) answers_.update_string(answer);
  auto& all = read_.calibration.prompts;
  std::move(prompts.begin(), prompts.end(), std::back_inserter(all));
  return true;
}

// The tokens name everything that the decoder sees; the other digests are there so that a
// difference can be named.
void Reader::name_sources() {
  Sha256Hasher tokens;
  Sha256Hasher prompts;
  for (const Prompt& prompt : options_.prompts) {
    prompts.update_string(prompt.name);
    prompts.update_string(prompt.text.empty() ? model_.default_prompt() : prompt.text);
  }
  prompts.update_string(options_.system);
  const Tensor* last = nullptr;
  for (const CalibrationPrompt& prompt : read_.calibration.prompts) {
    for (const auto* const numbers : {&prompt.ids, &prompt.positions, &prompt.vision_rows}) {
      tokens.update_value(std::ssize(*numbers));
      tokens.update(std::as_bytes(std::span(*numbers)));
    }
    if (prompt.vision.get() == last) continue;
    last = prompt.vision.get();
    tokens.update(std::as_bytes(
        std::span(last->as<float>(), static_cast<std::size_t>(last->num_elements()))));
  }
  read_.calibration.identity = {{"calibration clips", clips_.digest().hex()},
                                {"calibration prompts", prompts.digest().hex()},
                                {"calibration answers", answers_.digest().hex()},
                                {"calibration arithmetic", model_.context().arithmetic()},
                                {"calibration tokens", tokens.digest().hex()},
                                {"calibration references", options_.references_digest},
                                {"calibration limit", std::to_string(options_.max_tokens)}};
}

CalibrationPrompts Reader::read() {
  std::size_t next = 0;
  std::vector<CalibrationPrompt> prompts;
  for (; next < inputs_.size() && prompts.empty(); ++next) prompts = read_clip(next);
  if (prompts.empty()) {
    throw Error(ErrorCode::kUsage,
                "quantize: " +
                    (inputs_.size() == 1 ? std::string("the one file of --calibrate cannot be used")
                                         : "none of the " + counted(std::ssize(inputs_), "file") +
                                               " of --calibrate can be used") +
                    "; name videos that run captions");
  }
  std::int64_t tokens = 0;
  for (const CalibrationPrompt& prompt : prompts) tokens += prompt.num_tokens();
  const std::vector<std::size_t> others = choose(next - 1, tokens);
  bool has_room = take(std::move(prompts));
  std::int64_t done = 1;
  for (std::size_t i = 0; i < others.size() && has_room; ++i) {
    if (options_.on_clip) options_.on_clip(done++, std::ssize(others) + 1);
    prompts = read_clip(others[i]);
    if (!prompts.empty()) has_room = take(std::move(prompts));
  }
  name_sources();
  return std::move(read_);
}

}  // namespace

CalibrationPrompts read_calibration_prompts(Stream& stream, model::CaptionModel& model,
                                            const InputList& inputs,
                                            const CalibrationOptions& options) {
  return Reader(stream, model, inputs, options).read();
}

}  // namespace caption::pipeline
