// pipeline/examples.h: examples that the model is shown before every clip (few-shot prompting).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/open_file.h"
#include "model/clip_shape.h"
#include "model/conversation.h"
#include "video/clip.h"
#include "video/read_clip.h"

namespace caption::pipeline {

// An example as the user gives it.
struct ExampleSource {
  std::filesystem::path video = {};  // empty: an example of text alone
  std::string prompt = {};           // empty: the prompt that the clip is asked
  std::string caption = {};
};

// An example's video.
struct ExampleClip {
  std::string id;  // SHA-256 of the file, in hexadecimal
  model::ClipShape shape;
  // Null in a run that has encoded them.
  std::shared_ptr<const video::Clip> frames;
};

struct Example {
  std::string prompt = {};  // empty: the prompt that the clip is asked
  std::string caption = {};
  std::optional<ExampleClip> clip = {};  // without: an example of text alone
};

using ReadClip = std::function<video::Clip(const OpenFile&, const video::ReadOptions&)>;

// Reads the videos with the sampling of the run. Throws Error(kBadPreset) "example 2: ..." for one
// that cannot be read, that has no decodable frame, or that changes meanwhile; passes on errors of
// the machine (is_of_machine()) and kCancelled.
std::vector<Example> read_examples(const std::vector<ExampleSource>& sources,
                                   const video::ReadOptions& read, const ReadClip& read_clip);

// The size and the times of a clip's frames, which must not be empty.
model::ClipShape shape_of(const video::Clip& clip);

// The conversation in which a clip is asked `prompt`.
model::Conversation conversation_of(const std::string& system, const std::vector<Example>& examples,
                                    std::string_view prompt);

// A text that identifies the example for a manifest: JSON with the caption and, where it has them,
// the prompt and the SHA-256 of the video.
std::string describe_example(const Example& example);

}  // namespace caption::pipeline
