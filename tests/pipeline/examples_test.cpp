// Examples before every clip: read and encoded once, their pages shared by all clips, and refused
// when a video among them is broken.
#include "pipeline/examples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kv/page_pool.h"
#include "tests/pipeline/fake_model.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/vision/synthetic_frame.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

// A clip of four frames, whose pixels the number in its name decides.
video::Clip make_small_clip(const OpenFile& file, const video::ReadOptions& /*read*/) {
  const auto number = static_cast<std::uint32_t>(clip_number(file.path().filename().string()));
  video::Clip clip;
  clip.path = file.path().string();
  clip.frames_wanted = 4;
  clip.duration_us = 2'000'000;
  for (std::uint32_t i = 0; i < 4; ++i) {
    clip.frames.push_back(testing::synthetic_frame(40, 56, 10 * number + i, "waves"));
    clip.frames.back().pts_us = 500'000 * static_cast<std::int64_t>(i);
  }
  return clip;
}

Options chat_options(engine::PrefixCache prefix_cache) {
  Options options;
  options.threads = {.decode = 1, .vision = 1, .engine = 1};
  options.prompts = {{.name = "", .text = "무엇?"}};
  options.engine = {.max_num_seqs = 2,
                    .max_num_batched_tokens = 64,
                    .kv_cache_bytes = 8 << 20,
                    .kv_dtype = DType::kF32,
                    .prefix_cache = prefix_cache};
  options.sampling.max_new_tokens = 8;
  options.read_clip = make_small_clip;
  options.system = "한국어로.";
  return options;
}

struct Ran {
  std::vector<std::string> captions;  // sorted by the clips' names
  Outcome outcome;
};

Ran run_clips(model::CaptionModel& model, const InputList& inputs, const Options& options) {
  KeepingSink sink;
  Ran ran{.captions = {}, .outcome = run(model, inputs, options, sink)};
  std::sort(sink.kept.begin(), sink.kept.end(),
            [](const auto& a, const auto& b) { return a.video < b.video; });
  for (const records::Record& record : sink.kept) {
    CHECK_FALSE(record.error.has_value());
    ran.captions.push_back(record.caption);
  }
  return ran;
}

// Tokens of the prompt before the clip's first vision token.
std::int64_t num_shared_tokens(const model::CaptionModel& model, const Options& options) {
  const model::ClipShape clip = options.examples.back().clip->shape;
  const model::PromptIds prompt = model.build_prompt(
      conversation_of(options.system, options.examples, options.prompts[0].text), clip);
  const auto own = static_cast<std::size_t>(model.vision_tokens(clip));
  return prompt.vision_positions.at(prompt.vision_positions.size() - own);
}

std::string message_of(const std::vector<ExampleSource>& sources, const ReadClip& read_clip) {
  try {
    read_examples(sources, {}, read_clip);
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(ErrorCode::kBadPreset));
    return error.what();
  }
  FAIL_CHECK("accepted");
  return "";
}

TEST_SUITE("pipeline/examples") {
  TEST_CASE("all clips share the pages of what comes before them, and captions do not change") {
    for (const char* const name : {"qwen3_vl/untied_f32", "llava_onevision/qwen3_f32"}) {
      CAPTURE(std::string(name));
      const testing::DrawnCheckpoint checkpoint(fs::path(CAPTION_SOURCE_DIR) / "tests/golden" /
                                                name);
      const auto model = model::open_model({}, checkpoint.path(), weights::WeightFormat::kF32);
      clips(10);  // the examples are among them
      const InputList inputs = clips(4);
      Options options = chat_options(engine::PrefixCache::kOn);
      options.examples =
          read_examples({{.prompt = "왜?", .caption = "비가 온다."},
                         {.video = clip_name(9), .caption = "공원이다."},
                         {.video = clip_name(8), .prompt = "누구?", .caption = "새."}},
                        options.read, options.read_clip);
      const Ran with_cache = run_clips(*model, inputs, options);
      REQUIRE(with_cache.captions.size() == 4);

      const std::int64_t shared = num_shared_tokens(*model, options);
      const std::int64_t full = shared / kv::kPageTokens * kv::kPageTokens;
      CHECK(full >= 64);
      CHECK(with_cache.outcome.engine.prefix_hit_tokens == 3 * full);

      options.engine.prefix_cache = engine::PrefixCache::kOff;
      CHECK(run_clips(*model, inputs, options).captions == with_cache.captions);

      // The examples count: other captions follow without them, and after another video.
      options.examples[1].clip = options.examples[2].clip;
      CHECK(run_clips(*model, inputs, options).captions != with_cache.captions);
      options.examples.clear();
      CHECK(run_clips(*model, inputs, options).captions != with_cache.captions);
    }
  }

  TEST_CASE("the vision cache holds an example's video as that of a clip") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "example_cache";
    fs::remove_all(folder);
    const testing::DrawnCheckpoint checkpoint(fs::path(CAPTION_SOURCE_DIR) /
                                              "tests/golden/qwen3_vl/untied_f32");
    const auto model = model::open_model({}, checkpoint.path(), weights::WeightFormat::kF32);
    Options options = chat_options(engine::PrefixCache::kOff);
    options.vision_cache = {.folder = folder, .max_bytes = 64 << 20, .identity = {1, 2}};
    clips(2);  // writes both files
    options.examples = read_examples({{.video = clip_name(1), .caption = "공원이다."}},
                                     options.read, options.read_clip);
    const InputList only_first = list_of({{clip_name(0), Origin::kNamed}});
    const InputList only_second = list_of({{clip_name(1), Origin::kNamed}});
    const Ran first = run_clips(*model, only_first, options);
    CHECK(first.outcome.clips_seen_before == 0);
    // The second clip was an example alone so far.
    const Ran second = run_clips(*model, only_second, options);
    CHECK(second.outcome.clips_seen_before == 1);
    options.vision_cache.folder.clear();
    CHECK(run_clips(*model, only_second, options).captions == second.captions);
  }

  TEST_CASE("the frames of an example are freed when they are encoded") {
    const testing::DrawnCheckpoint checkpoint(fs::path(CAPTION_SOURCE_DIR) /
                                              "tests/golden/qwen3_vl/untied_f32");
    const auto model = model::open_model({}, checkpoint.path(), weights::WeightFormat::kF32);
    const InputList inputs = clips(2);
    Options options = chat_options(engine::PrefixCache::kOn);
    options.examples = read_examples({{.video = clip_name(1), .caption = "공원이다."}},
                                     options.read, options.read_clip);
    const std::weak_ptr<const video::Clip> frames = options.examples[0].clip->frames;
    int num_held = 0;
    options.on_progress = [&](const Progress& progress) {
      if (progress.clips_done > 0 && !frames.expired()) ++num_held;
    };
    KeepingSink sink;
    CHECK(run(*model, inputs, options, sink).ending == Ending::kFinished);
    CHECK(num_held > 0);  // the caller's options share them
    CHECK_FALSE(frames.expired());
    num_held = 0;
    CHECK(run(*model, inputs, std::move(options), sink).ending == Ending::kFinished);
    CHECK(num_held == 0);
    CHECK(sink.kept.size() == 4);
  }

  TEST_CASE("an example without a prompt has the clip's") {
    const model::Conversation conversation = conversation_of(
        "s", {{.prompt = "", .caption = "a"}, {.prompt = "b", .caption = "c"}}, "p");
    CHECK(conversation.system == "s");
    CHECK(conversation.prompt == "p");
    REQUIRE(conversation.examples.size() == 2);
    CHECK(conversation.examples[0].prompt == "p");
    CHECK(conversation.examples[1].prompt == "b");
    CHECK_FALSE(conversation.examples[0].clip.has_value());
  }

  TEST_CASE("a broken video is one error that names its example") {
    clips(1);
    const ExampleSource text = {.caption = "a"};
    const std::string missing =
        message_of({text, {.video = "nowhere.mp4", .caption = "b"}}, make_small_clip);
    CHECK(missing.starts_with("example 2: nowhere.mp4: "));
    write_file("empty.mp4", "");
    CHECK(message_of({{.video = "empty.mp4", .caption = "b"}}, Options().read_clip)
              .starts_with("example 1: empty.mp4: "));
    const auto no_frames = [](const OpenFile&, const video::ReadOptions&) { return video::Clip(); };
    CHECK(message_of({{.video = clip_name(0), .caption = "b"}}, no_frames) ==
          "example 1: clip_0: no frame could be decoded");
    const auto changing = [](const OpenFile& file, const video::ReadOptions& read) {
      write_file(file.path(), "something longer");
      return make_small_clip(file, read);
    };
    write_file("clip_77", "film");
    CHECK(message_of({{.video = "clip_77", .caption = "b"}}, changing) ==
          "example 1: clip_77: the file changed while it was read");
    fs::remove("clip_77");
  }

  TEST_CASE("a manifest's text tells the video by its content") {
    clips(2);
    const std::vector<Example> examples =
        read_examples({{.video = clip_name(0), .prompt = "왜?", .caption = "\"비\""},
                       {.video = clip_name(1), .caption = "b"},
                       {.caption = "b"}},
                      {}, make_small_clip);
    const std::string first = describe_example(examples[0]);
    CHECK(first == "{\"video\": \"" + examples[0].clip->id +
                       "\", \"prompt\": \"왜?\", \"caption\": \"\\\"비\\\"\"}");
    CHECK(examples[0].clip->id != examples[1].clip->id);
    CHECK(describe_example(examples[2]) == "{\"caption\": \"b\"}");
  }

  TEST_CASE("frames of a constant rate have times that are no whole microseconds") {
    video::Clip clip;
    clip.frames.resize(2);
    clip.frames[0].frame_idx = 4;
    clip.frames[0].pts_us = 133'333;
    clip.frames[1].frame_idx = 5;
    clip.frames[1].pts_us = 166'667;
    CHECK(shape_of(clip).times_s == std::vector{0.133333, 0.166667});
    clip.fps = 30;
    CHECK(shape_of(clip).times_s == std::vector{4.0 / 30, 5.0 / 30});
  }
}

}  // namespace
}  // namespace caption::pipeline
