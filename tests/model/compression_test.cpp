// Compressed attention on real checkpoints: when it is exact, that its result depends only on the
// sequence, and how it changes the demo model's captions.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/internal/compression.h"
#include "tests/model/support.h"
#include "video/read_clip.h"
#include "vision/preprocess.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using engine::CompressedSequence;
using engine::CompressionMode;
using engine::CompressionOptions;

// A prompt with its vision tokens.
struct Prompt {
  model::PromptIds ids;
  Tensor vision;

  std::int64_t size() const { return std::ssize(ids.ids); }
  std::int64_t first_fixed() const { return ids.vision_positions.front(); }
  std::int64_t num_fixed() const { return std::ssize(ids.vision_positions); }
};

struct Checkpoint {
  explicit Checkpoint(std::string_view name) : model(open_case(name)) {
    const JsonObject golden = open_golden(name);
    const Tensor pixels = golden_pixel_values(pool, *model, golden);
    prompt.vision = model->encode_frames(stream, pixels.view());
    prompt.ids = model->build_prompt(model->default_prompt(), {pixels.dim(0)});
  }
  ThreadPool pool{2};
  Stream stream{testing::tested_context(), pool};
  std::unique_ptr<model::CaptionModel> model;
  Prompt prompt;
};

struct Output {
  std::vector<std::int32_t> ids;
  std::vector<float> last_logits;
  std::int64_t slots = 0;
};

// Runs greedy decoding with the prompt in chunks. Mode kNone means no CompressedSequence.
Output run(Stream& stream, model::CaptionModel& model, const Prompt& prompt,
           const CompressionOptions& options, DType dtype, std::int64_t chunk, std::int64_t count) {
  CompressedSequence compression(options, model.decoder().spec(), stream.device(), prompt.size(),
                                 prompt.first_fixed(), prompt.num_fixed());
  Sequence sequence(model.decoder(), dtype, prompt.size() + count);
  if (options.mode != CompressionMode::kNone) sequence.compress(compression, prompt.size());
  Tensor logits;
  while (sequence.num_tokens() < prompt.size()) {
    logits = sequence.prefill(stream, prompt.ids, prompt.vision.view(), chunk);
  }
  CHECK(compression.size_bytes() <= engine::compression_bytes(options, model.decoder().spec(),
                                                              prompt.size(), prompt.num_fixed()));
  Output output;
  output.slots = compression.num_slots(prompt.size());
  const std::vector<std::int32_t> stops = model.eos_ids();
  for (;;) {
    const std::span<const float> row = row_of(logits, logits.dim(0) - 1);
    output.ids.push_back(argmax(row));
    output.last_logits.assign(row.begin(), row.end());
    const bool stopped = std::find(stops.begin(), stops.end(), output.ids.back()) != stops.end();
    if (stopped || std::ssize(output.ids) == count) return output;
    logits = sequence.decode(stream, output.ids.back());
  }
}

CompressionOptions topk_merge(std::int32_t window, std::int32_t keep, std::int32_t summaries) {
  return {.mode = CompressionMode::kTopkMerge,
          .window_tokens = window,
          .keep_tokens = keep,
          .num_summaries = summaries};
}

CompressionOptions squeezed(std::int32_t tokens_per_cluster, float threshold) {
  return {.mode = CompressionMode::kSqueezed,
          .tokens_per_cluster = tokens_per_cluster,
          .threshold = threshold};
}

TEST_SUITE("model/compression") {
  TEST_CASE("the K most attended are kept, the window always; of equals the earlier ones") {
    const std::vector<float> mass = {0, 5, 1, 1, 9, 1, 0, 0};
    CHECK(engine::most_attended(mass, 4, 6) == std::vector<std::int32_t>{1, 4, 6, 7});
    CHECK(engine::most_attended(mass, 5, 6) == std::vector<std::int32_t>{1, 2, 4, 6, 7});
    CHECK(engine::most_attended(mass, 1, 8) == std::vector<std::int32_t>{4});
    CHECK(engine::most_attended(mass, 8, 6).size() == 8);
    CHECK_THROWS_AS(engine::most_attended(mass, 1, 6), Error);
    CHECK_THROWS_AS(engine::most_attended(mass, 9, 8), Error);
  }

  TEST_CASE("options out of range are refused by name") {
    const model::DecoderSpec spec;
    CHECK_NOTHROW(engine::validate(topk_merge(32, 32, 1), spec, Device::kCpu));
    CHECK_THROWS_AS(engine::validate(topk_merge(33, 32, 1), spec, Device::kCpu), Error);
    CHECK_THROWS_AS(engine::validate(topk_merge(0, 32, 1), spec, Device::kCpu), Error);
    CHECK_THROWS_AS(engine::validate(topk_merge(1, 1, 0), spec, Device::kCpu), Error);
    CHECK_THROWS_AS(engine::validate(squeezed(0, 0.5F), spec, Device::kCpu), Error);
    CHECK_THROWS_AS(engine::validate(squeezed(8, 1.5F), spec, Device::kCpu), Error);
    CHECK_THROWS_WITH_AS(
        engine::validate(squeezed(8, -1.0F), spec, Device::kCpu),
        "engine: the threshold of compressed attention is out of range; wanted 0 to 1", Error);
  }

  TEST_CASE("a GPU refuses both modes in one sentence") {
    const model::DecoderSpec spec;
    for (const CompressionOptions& options : {topk_merge(32, 32, 1), squeezed(8, 0.5F)}) {
      CHECK_THROWS_WITH_AS(
          engine::validate(options, spec, Device::kCuda),
          "engine: compressed attention runs on the CPU only; use --attention full", Error);
    }
    CHECK_NOTHROW(engine::validate({}, spec, Device::kCuda));
  }

  TEST_CASE("keeping the whole prompt, or every cluster, is full attention bit for bit") {
    for (const char* name : {"llama_bf16", "qwen3_shards"}) {
      CAPTURE(std::string(name));
      Checkpoint checkpoint(name);
      const auto keep = static_cast<std::int32_t>(checkpoint.prompt.size());
      for (const DType dtype : {DType::kF32, DType::kI8}) {
        const Output full =
            run(checkpoint.stream, *checkpoint.model, checkpoint.prompt, {}, dtype, 1000, 24);
        for (const CompressionOptions& options :
             {topk_merge(8, keep, 4), topk_merge(8, keep + 100, 1), squeezed(4, 0)}) {
          const Output output = run(checkpoint.stream, *checkpoint.model, checkpoint.prompt,
                                    options, dtype, 1000, 24);
          CHECK(output.ids == full.ids);
          CHECK(output.last_logits == full.last_logits);
          CHECK(output.slots == checkpoint.prompt.size());
        }
      }
    }
  }

  TEST_CASE("chunks and threads do not change a bit of what compressed attention gives") {
    for (const char* name : {"llama_bf16", "qwen3_shards"}) {
      CAPTURE(std::string(name));
      Checkpoint checkpoint(name);
      ThreadPool one(1);
      Stream single(checkpoint.stream.context(), one);
      const auto keep = static_cast<std::int32_t>(checkpoint.prompt.size() / 2);
      for (const DType dtype : {DType::kF32, DType::kI8}) {
        const Output full =
            run(checkpoint.stream, *checkpoint.model, checkpoint.prompt, {}, dtype, 1000, 12);
        for (const CompressionOptions& options : {topk_merge(8, keep, 3), squeezed(4, 0.3F)}) {
          const Output whole = run(checkpoint.stream, *checkpoint.model, checkpoint.prompt, options,
                                   dtype, 1000, 12);
          CHECK(whole.last_logits != full.last_logits);
          if (options.mode == CompressionMode::kTopkMerge) CHECK(whole.slots == keep + 3);
          for (const std::int64_t chunk : {1, 5, 17}) {
            CAPTURE(chunk);
            const Output pieces =
                run(single, *checkpoint.model, checkpoint.prompt, options, dtype, chunk, 12);
            CHECK(pieces.ids == whole.ids);
            CHECK(pieces.last_logits == whole.last_logits);
          }
        }
      }
    }
  }

  TEST_CASE("a prompt whose window was not watched, or that is finished twice, is our fault") {
    Checkpoint checkpoint("llama_bf16");
    const model::DecoderSpec& spec = checkpoint.model->decoder().spec();
    CompressedSequence compression(topk_merge(8, 8, 1), spec, checkpoint.stream.device(), 40, 0, 0);
    CHECK_FALSE(compression.watch(0, 32, 0, 0).has_value());
    const auto watched = compression.watch(30, 8, 3, 100);
    REQUIRE(watched.has_value());
    CHECK(watched->sequence == 3);
    CHECK(watched->first_row == 102);
    CHECK(watched->num_rows == 6);
    CHECK_THROWS_AS(compression.watch(38, 3, 0, 0), Error);  // beyond the prompt
    CHECK_THROWS_AS(compression.finish_prompt(checkpoint.stream, {}, {}), Error);
    CHECK_THROWS_AS(compression.finish_prompt(checkpoint.stream, {}, {}), Error);
    compression.reset();
    CHECK(compression.size_bytes() == 0);
  }

  // Reports without a bound: scores on many clips measure how much captions change.
  TEST_CASE("the demo model's captions under compression, counted") {
    const fs::path root = CAPTION_SOURCE_DIR;
    const auto model = model::open_model(testing::tested_context(), root / "samples/demo-model",
                                         weights::WeightFormat::kF32);
    ThreadPool pool(2);
    Stream stream(testing::tested_context(), pool);
    std::vector<Prompt> prompts;
    for (const auto& entry : fs::directory_iterator(root / "samples/videos")) {
      video::ReadOptions options;
      options.sampling.num_frames = 8;
      const video::Clip clip = video::read_clip(entry.path(), options);
      const Tensor pixels =
          vision::preprocess(stream, clip.frames, model->preprocess_spec()).values;
      prompts.push_back({.ids = model->build_prompt(model->default_prompt(), {pixels.dim(0)}),
                         .vision = model->encode_frames(stream, pixels.view())});
    }
    REQUIRE_FALSE(prompts.empty());
    std::vector<Output> full;
    for (const Prompt& prompt : prompts) {
      full.push_back(run(stream, *model, prompt, {}, DType::kBF16, 1000, 96));
    }
    for (const CompressionOptions& options :
         {topk_merge(16, 96, 8), topk_merge(16, 48, 8), squeezed(8, 0.01F), squeezed(8, 0.05F),
          squeezed(8, 0.2F)}) {
      std::size_t same = 0;
      std::int64_t slots = 0;
      std::int64_t tokens = 0;
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        const Output output = run(stream, *model, prompts[i], options, DType::kBF16, 1000, 96);
        same += output.ids == full[i].ids;
        slots += output.slots;
        tokens += prompts[i].size();
        CHECK_FALSE(output.ids.empty());
      }
      const bool is_squeezed = options.mode == CompressionMode::kSqueezed;
      const std::string what = is_squeezed
                                   ? "squeezed, threshold " + std::to_string(options.threshold)
                                   : "topk-merge, K " + std::to_string(options.keep_tokens);
      MESSAGE(what << ": " << same << " of " << prompts.size() << " captions the same, " << slots
                   << " slots for " << tokens << " prompt tokens");
    }
  }
}

}  // namespace
}  // namespace caption
