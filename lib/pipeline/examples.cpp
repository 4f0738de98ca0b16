#include "pipeline/examples.h"

#include "base/error.h"
#include "base/json.h"

namespace caption::pipeline {
namespace {

ExampleClip read_example_clip(const std::filesystem::path& path, const video::ReadOptions& read,
                              const ReadClip& read_clip) {
  const OpenFile file = video::open_video(path);
  ExampleClip clip;
  clip.id = file.sha256(read.cancelled).hex();
  clip.frames = std::make_shared<const video::Clip>(read_clip(file, read));
  if (clip.frames->frames.empty()) {
    throw Error(ErrorCode::kNoFrames, path.string() + ": no frame could be decoded");
  }
  clip.shape = shape_of(*clip.frames);
  if (file.stamp_now() != file.stamp() && file.sha256(read.cancelled).hex() != clip.id) {
    throw Error(ErrorCode::kChanged, path.string() + ": the file changed while it was read");
  }
  return clip;
}

}  // namespace

std::vector<Example> read_examples(const std::vector<ExampleSource>& sources,
                                   const video::ReadOptions& read, const ReadClip& read_clip) {
  std::vector<Example> examples;
  for (const ExampleSource& source : sources) {
    Example& example = examples.emplace_back();
    example.prompt = source.prompt;
    example.caption = source.caption;
    if (source.video.empty()) continue;
    try {
      example.clip = read_example_clip(source.video, read, read_clip);
    } catch (const Error& error) {
      if (is_of_machine(error.code()) || error.code() == ErrorCode::kCancelled) throw;
      throw Error(ErrorCode::kBadPreset,
                  "example " + std::to_string(examples.size()) + ": " + error.what());
    }
  }
  return examples;
}

model::ClipShape shape_of(const video::Clip& clip) {
  const video::Frame& first = clip.frames.front();
  model::ClipShape shape{.num_frames = std::ssize(clip.frames),
                         .frame = {.width_px = first.width_px, .height_px = first.height_px}};
  for (const video::Frame& frame : clip.frames) {
    shape.times_s.push_back(clip.fps > 0 ? static_cast<double>(frame.frame_idx) / clip.fps
                                         : static_cast<double>(frame.pts_us) / 1e6);
  }
  shape.duration_us = clip.duration_us;
  return shape;
}

model::Conversation conversation_of(const std::string& system, const std::vector<Example>& examples,
                                    std::string_view prompt) {
  model::Conversation conversation{.system = system, .prompt = std::string(prompt)};
  for (const Example& example : examples) {
    model::Example& shown = conversation.examples.emplace_back();
    if (example.clip.has_value()) shown.clip = example.clip->shape;
    shown.prompt = example.prompt.empty() ? conversation.prompt : example.prompt;
    shown.caption = example.caption;
  }
  return conversation;
}

std::string describe_example(const Example& example) {
  std::string text = "{";
  if (example.clip.has_value()) text += "\"video\": " + json_quote(example.clip->id) + ", ";
  if (!example.prompt.empty()) text += "\"prompt\": " + json_quote(example.prompt) + ", ";
  return text + "\"caption\": " + json_quote(example.caption) + "}";
}

}  // namespace caption::pipeline
