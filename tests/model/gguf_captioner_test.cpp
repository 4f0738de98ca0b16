// Captioners in GGUF files, which scripts/make_goldens_gguf_captioners.py described, beside the
// same weights in the layout of transformers.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/caption_model.h"
#include "model/internal/model_folder.h"
#include "model/model_files.h"
#include "model/read_blueprint.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "tests/support/drawn_gguf.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden";
constexpr const char* kCases[] = {"qwen3_vl", "qwen2_5_vl", "internvl", "llava_next_video"};
constexpr const char* kPrompts[] = {"이 영상을 자세히 설명해 주세요.",
                                    "What is  happening?\nWhere?", "", " <|im_end|> [INST] 🎬"};

std::unique_ptr<model::CaptionModel> open(const fs::path& path,
                                          WeightFormat format = WeightFormat::kF32) {
  return model::open_model(tested_context(), path, format);
}

JsonObject expected_of(const std::string& name) {
  const JsonObject files = JsonObject::open(kGoldens / "gguf_captioners" / name / "files.json",
                                            ErrorCode::kBadReference);
  return JsonObject::open(kGoldens / files.require_string("base") / "expected.json",
                          ErrorCode::kBadReference);
}

std::vector<JsonObject> clips_of(const std::string& name) {
  std::vector<JsonObject> clips = expected_of(name).get_objects("clips");
  // On the mirror every access changes the protection of pages: one clip shows what it can show.
  if (tested_context().device == Device::kMirror) clips.erase(clips.begin() + 1, clips.end());
  return clips;
}

bool is_equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.view().raw(), b.view().raw(), a.size_bytes()) == 0;
}

// Checks that both models see, read and write the same of a clip of a golden.
void check_clip(model::CaptionModel& gguf, model::CaptionModel& plain, const JsonObject& clip) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const Tensor pixels = golden_pixel_values(pool, gguf, clip);
  CHECK(is_equal(pixels, golden_pixel_values(pool, plain, clip)));
  const Tensor tokens = gguf.encode_frames(stream, pixels.view());
  const Tensor expected = plain.encode_frames(stream, pixels.view());
  const Tensor found_rows = to_host(stream, tokens.view());
  const Tensor expected_rows = to_host(stream, expected.view());
  REQUIRE(found_rows.shape() == expected_rows.shape());
  // The same numbers in another dtype: only the order of sums in f32 may differ.
  const auto count = static_cast<std::size_t>(found_rows.num_elements());
  CHECK(max_difference(std::span(found_rows.as<float>(), count),
                       std::span<const float>(expected_rows.as<float>(), count)) < 1e-5);
  for (const char* const text : kPrompts) {
    CAPTURE(std::string(text));
    const model::PromptIds found = gguf.build_prompt(text, golden_shape(clip));
    const model::PromptIds wanted = plain.build_prompt(text, golden_shape(clip));
    CHECK(found.ids == wanted.ids);
    CHECK(found.vision_positions == wanted.vision_positions);
    CHECK(found.positions == wanted.positions);
  }
  constexpr std::int64_t kNumTokens = 64;
  const model::PromptIds prompt = gguf.build_prompt(kPrompts[0], golden_shape(clip));
  const Greedy found = run_greedy(stream, gguf, prompt, tokens.view(), kNumTokens);
  const Greedy wanted = run_greedy(stream, plain, prompt, expected.view(), kNumTokens);
  CHECK(found.ids == wanted.ids);
  CHECK(max_difference(found.first_logits, std::span<const float>(wanted.first_logits)) < 1e-4);
}

// Writes the tensors of a model's source, decoded to f32, as one safetensors file.
void write_decoded(const fs::path& gguf, const fs::path& file) {
  const auto source = model::ModelFolder(gguf).open_weights();
  std::string header, values;
  for (const std::string& name : source->names()) {
    const Shape shape = source->shape(name).value();
    const ConstView tensor = source->read(name, shape);
    const std::size_t begin = values.size();
    dispatch_float(tensor.dtype(), [&](auto tag) {
      const auto* const numbers = tensor.as<decltype(tag)>();
      std::vector<float> decoded;
      for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
        decoded.push_back(to_float(numbers[i]));
      }
      append_values(decoded, "F32", values);
    });
    source->release(name);
    std::string extents;
    for (int i = 0; i < shape.rank(); ++i) extents += (i > 0 ? "," : "") + std::to_string(shape[i]);
    header += (header.empty() ? "{" : ",") + json_quote(name) + R"(:{"dtype":"F32","shape":[)" +
              extents + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(values.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const auto length = static_cast<std::uint64_t>(header.size());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << values;
}

// The logits after the prompt and after each of `ids`.
std::vector<std::vector<float>> follow(model::CaptionModel& model, const JsonObject& clip,
                                       const std::vector<std::int32_t>& ids) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const Tensor vision = model.encode_frames(stream, golden_pixel_values(pool, model, clip).view());
  const model::PromptIds prompt = model.build_prompt(kPrompts[0], golden_shape(clip));
  const std::int64_t num_prompt = std::ssize(prompt.ids);
  Sequence sequence(model.decoder(), DType::kF32, num_prompt + std::ssize(ids));
  std::vector<std::vector<float>> rows;
  const auto keep = [&](const Tensor& logits) {
    const std::span<const float> row = row_of(logits, logits.dim(0) - 1);
    rows.emplace_back(row.begin(), row.end());
  };
  keep(sequence.prefill(stream, prompt, vision.view(), num_prompt));
  for (const std::int32_t id : ids) keep(sequence.decode(stream, id));
  return rows;
}

TEST_SUITE("model/gguf_captioner") {
  TEST_CASE("captioners in GGUF files write what their checkpoints write") {
    for (const char* const name : kCases) {
      CAPTURE(std::string(name));
      const DrawnGguf drawn(kGoldens / "gguf_captioners" / name);
      REQUIRE(drawn.is_equal_to_original());
      const auto gguf = open(drawn.path());
      const auto plain = open(drawn.checkpoint());
      CHECK(gguf->family() == name);
      CHECK(gguf->eos_ids() == plain->eos_ids());
      CHECK(gguf->preprocess_spec() == plain->preprocess_spec());
      CHECK(gguf->tokenizer().bos_id() == plain->tokenizer().bos_id());
      for (const JsonObject& clip : clips_of(name)) check_clip(*gguf, *plain, clip);
    }
  }

  TEST_CASE("with the reference's tokenizer they write what transformers writes") {
    const DrawnGguf drawn(kGoldens / "gguf_captioners/internvl");
    check_golden_clips(*open(drawn.path()), kGoldens / "internvl/byte_level_qwen3");
  }

  TEST_CASE("a value that cannot be is told with the GGUF file and its key") {
    struct Row {
      const char* file;
      const char* key;
      std::uint32_t bits;  // bits of the value, u32 or f32
      const char* message;
    };
    const float negative = -1;
    std::uint32_t negative_bits = 0;
    std::memcpy(&negative_bits, &negative, sizeof(negative));
    const Row rows[] = {
        {"model.gguf", "qwen3.attention.layer_norm_rms_epsilon", negative_bits,
         ": qwen3.attention.layer_norm_rms_epsilon must be in (0, 1], found -1; download the file "
         "again, or convert the model again"},
        {"model.gguf", "qwen3.context_length", 0x3fffffff,
         ": qwen3.context_length: expected 1 to 268435456, found 1073741823"},
        {"model.gguf", "qwen3.attention.head_count_kv", 3,
         "attention heads (qwen3.attention.head_count) are no multiple of 3 key-value heads "
         "(qwen3.attention.head_count_kv)"},
        {"mmproj-model.gguf", "clip.vision.image_size", 9000,
         ": clip.vision.image_size must be an edge of 1 to 8192 pixels, or height and width, found "
         "9000"}};
    for (const Row& row : rows) {
      CAPTURE(std::string(row.key));
      const DrawnGguf drawn(kGoldens / "gguf_captioners/internvl");
      const fs::path path = drawn.path() / row.file;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>()};
      // Behind the key are its type, u32, and the value.
      const std::size_t at = bytes.find(std::string(row.key));
      REQUIRE(at != std::string::npos);
      file.seekp(static_cast<std::streamoff>(at + std::strlen(row.key) + 4));
      file.write(reinterpret_cast<const char*>(&row.bits), sizeof(row.bits));
      file.close();
      for (const bool is_run : {true, false}) {
        try {
          if (is_run) {
            open(drawn.path());
          } else {
            model::read_blueprint(drawn.path());
          }
          FAIL_CHECK("opened");
        } catch (const Error& error) {
          const std::string message = error.what();
          CAPTURE(message);
          CHECK(error.code() == ErrorCode::kBadModel);
          CHECK(message.starts_with(path.string() + ": "));
          CHECK(message.find(row.message) != std::string::npos);
          CHECK(message.find("config.json") == std::string::npos);
        }
      }
    }
  }

  TEST_CASE("a plan counts their bytes as they are held") {
    for (const char* const name :
         {"qwen3_vl", "qwen3_vl_q8_0", "qwen2_5_vl", "internvl", "llava_next_video"}) {
      CAPTURE(std::string(name));
      const DrawnGguf drawn(kGoldens / "gguf_captioners" / name);
      const model::Blueprint blueprint = model::read_blueprint(drawn.path());
      for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
        CAPTURE(weights::describe(format));
        CHECK(open(drawn.path(), format)->weight_bytes() ==
              model::placed_bytes(tested_context(), blueprint, format));
      }
    }
  }

  TEST_CASE("codes of a GGUF file give the tokens of the numbers that they stand for") {
    const DrawnGguf drawn(kGoldens / "gguf_captioners/qwen3_vl_q8_0");
    REQUIRE(drawn.is_equal_to_original());
    fs::remove(drawn.checkpoint() / "model.safetensors");
    write_decoded(drawn.path(), drawn.checkpoint() / "model.safetensors");
    const JsonObject clip = clips_of("qwen3_vl_q8_0").front();
    const auto plain = open(drawn.checkpoint());
    ThreadPool pool(2);
    Stream stream(tested_context(), pool);
    const Tensor vision =
        plain->encode_frames(stream, golden_pixel_values(pool, *plain, clip).view());
    const std::vector<std::int32_t> ids =
        run_greedy(stream, *plain, plain->build_prompt(kPrompts[0], golden_shape(clip)),
                   vision.view(), 24)
            .ids;
    const auto expected = follow(*plain, clip, ids);
    // Products with codes round their input to bf16, each number by up to 2^-9 of itself; four
    // layers of seven products add up, mostly at random. In bf16 the other matrices and the
    // embedding are rounded too.
    constexpr double kRelativeBound = 8 * 0x1p-9;
    for (const auto& [format, bound] : {std::pair{WeightFormat::kF32, kRelativeBound},
                                        {WeightFormat::kBF16, 2 * kRelativeBound}}) {
      CAPTURE(weights::describe(format));
      const auto gguf = open(drawn.path(), format);
      const auto found = follow(*gguf, clip, ids);
      int num_decided = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        std::vector<float> row = expected[i];
        const auto [least, most] = std::minmax_element(row.begin(), row.end());
        const double limit = bound * std::max(std::abs(*least), std::abs(*most));
        const double difference = max_difference(found[i], std::span<const float>(expected[i]));
        CHECK(difference <= limit);
        CHECK(difference > 0);  // else the codes were not multiplied
        std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
        if (row[0] - row[1] <= 2 * limit) continue;  // either token may be the largest
        ++num_decided;
        CHECK(argmax(found[i]) == argmax(expected[i]));
      }
      CHECK(num_decided >= 8);
    }
    CHECK_THROWS_WITH_AS(open(drawn.path(), WeightFormat::kInt4),
                         doctest::Contains("holds 8-bit codes (Q8_0)"), Error);
    CHECK(model::read_model_files(drawn.path()).quantisation == "GGUF: Q8_0");
  }
}

}  // namespace
}  // namespace caption
