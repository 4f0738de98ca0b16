// Captioners whose decoder is quantised: beside the reference with the numbers that the codes stand
// for (scripts/make_goldens_quantised_captioners.py), and one of AutoAWQ's format beside the same
// captioner with these numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/caption_model.h"
#include "model/read_blueprint.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using weights::WeightFormat;

constexpr std::int64_t kGroup = 16;

// The tensors of a safetensors file that a test writes.
class TensorFile {
 public:
  template <class T>
  void add(const std::string& name, const char* dtype, const Shape& shape,
           const std::vector<T>& values) {
    std::string extents;
    for (int i = 0; i < shape.rank(); ++i) extents += (i > 0 ? "," : "") + std::to_string(shape[i]);
    const std::size_t begin = values_.size();
    values_.resize(begin + values.size() * sizeof(T));
    std::memcpy(values_.data() + begin, values.data(), values.size() * sizeof(T));
    header_ += (header_.empty() ? "{" : ",") + json_quote(name) + ":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + extents + "],\"data_offsets\":[" + std::to_string(begin) + "," +
               std::to_string(values_.size()) + "]}";
  }
  void write(const fs::path& path) const {
    std::string header = header_ + "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const auto length = static_cast<std::uint64_t>(header.size());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header << values_;
  }

 private:
  std::string header_, values_;
};

class Draw {
 public:
  std::uint32_t below(std::uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_ = 7;
};

bool is_quantised(const std::string& name) {
  return name.find("language_model.layers.") != std::string::npos && name.ends_with("_proj.weight");
}

// Packs eight numbers of 4 bits as AutoAWQ does: nibble i has the number kOrder[i].
std::uint32_t pack(const std::array<std::uint32_t, 8>& numbers) {
  constexpr std::size_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::uint32_t word = 0;
  for (unsigned i = 0; i < 8; ++i) word |= numbers[kOrder[i]] << (4 * i);
  return word;
}

// Adds a matrix [n, k] of drawn codes to `awq`, and its numbers to `plain`.
void add_matrix(const std::string& name, std::int64_t n, std::int64_t k, Draw& draw,
                TensorFile& awq, TensorFile& plain) {
  const std::int64_t groups = k / kGroup;
  std::vector<std::uint32_t> codes, zeros;
  std::vector<std::uint16_t> scales;
  const auto fill = [&](std::int64_t rows, std::vector<std::uint32_t>& words) {
    std::vector<std::uint32_t> numbers;
    for (std::int64_t i = 0; i < rows * n; i += 8) {
      std::array<std::uint32_t, 8> eight{};
      for (std::uint32_t& number : eight) number = draw.below(16);
      words.push_back(pack(eight));
      numbers.insert(numbers.end(), eight.begin(), eight.end());
    }
    return numbers;
  };
  const std::vector<std::uint32_t> q = fill(k, codes);
  const std::vector<std::uint32_t> z = fill(groups, zeros);
  for (std::int64_t i = 0; i < groups * n; ++i) {
    scales.push_back(to_f16(0.01F + 0.0001F * static_cast<float>(draw.below(200))).bits);
  }
  std::vector<float> weights;
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t column = 0; column < k; ++column) {
      const auto at = static_cast<std::size_t>(column / kGroup * n + row);
      const auto code = static_cast<float>(q[static_cast<std::size_t>(column * n + row)]);
      weights.push_back((code - static_cast<float>(z[at])) * to_float(F16{scales[at]}));
    }
  }
  const std::string stem = name.substr(0, name.size() - std::string("weight").size());
  awq.add(stem + "qweight", "I32", {k, n / 8}, codes);
  awq.add(stem + "qzeros", "I32", {groups, n / 8}, zeros);
  awq.add(stem + "scales", "F16", {groups, n}, scales);
  plain.add(name, "F32", {n, k}, weights);
}

// A folder with the codes, and one with the numbers.
class Pair {
 public:
  Pair() : awq("qwen3_vl", "no_deepstack"), plain("qwen3_vl", "no_deepstack") {
    TensorFile awq_file, plain_file;
    Draw draw;
    {
      const auto file = weights::Checkpoint::open(plain.folder());
      for (const std::string& name : file.names()) {
        const ConstView tensor = file.find(name).value();
        if (is_quantised(name)) {
          add_matrix(name, tensor.dim(0), tensor.dim(1), draw, awq_file, plain_file);
          continue;
        }
        const float* const values = tensor.as<float>();
        const std::vector<float> copy(values, values + tensor.num_elements());
        awq_file.add(name, "F32", tensor.shape(), copy);
        plain_file.add(name, "F32", tensor.shape(), copy);
      }
    }
    replace(awq.folder(), awq_file);
    replace(plain.folder(), plain_file);
    replace_in_file(awq.folder() / "config.json", "\"image_token_id\"",
                    "\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, "
                    "\"group_size\": 16, \"version\": \"gemm\"}, \"image_token_id\"");
  }

  CaptionerGolden awq, plain;

 private:
  static void replace(const fs::path& folder, const TensorFile& file) {
    fs::remove(folder / "model.safetensors");
    file.write(folder / "model.safetensors");
  }
};

// The logits with which a model continues one clip of the goldens: those after the prompt and after
// each of `ids`.
std::vector<std::vector<float>> follow(model::CaptionModel& model, const CaptionerGolden& golden,
                                       const std::vector<std::int32_t>& ids) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const std::vector<GoldenClip> clips = golden.clips(pool, model);
  const Tensor vision = model.encode_frames(stream, clips[0].pixel_values.view());
  const model::PromptIds prompt = model.build_prompt("이 영상을 설명해 주세요.", clips[0].shape);
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

std::vector<float> first_logits(model::CaptionModel& model, const CaptionerGolden& golden) {
  return follow(model, golden, {}).front();
}

// 24 greedy tokens.
std::vector<std::int32_t> greedy_ids(model::CaptionModel& model, const CaptionerGolden& golden) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const std::vector<GoldenClip> clips = golden.clips(pool, model);
  const Tensor vision = model.encode_frames(stream, clips[0].pixel_values.view());
  const model::PromptIds prompt = model.build_prompt("이 영상을 설명해 주세요.", clips[0].shape);
  return run_greedy(stream, model, prompt, vision.view(), 24).ids;
}

// The distance of the two largest numbers of a row.
double margin(std::vector<float> row) {
  std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
  return static_cast<double>(row[0]) - static_cast<double>(row[1]);
}

double largest(const std::vector<float>& row) {
  double result = 0;
  for (const float value : row) result = std::max(result, std::abs(static_cast<double>(value)));
  return result;
}

// Products with codes round their input to bf16, each number by up to 2^-9 of itself; four layers
// of seven products add up, mostly at random.
constexpr double kRelativeBound = 8 * 0x1p-9;

void write_adapter(const fs::path& folder,
                   const std::function<void(TensorFile&)>& add_more = nullptr) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})";
  TensorFile file;
  Draw draw;
  const auto values = [&](std::int64_t count) {
    std::vector<float> drawn;
    for (std::int64_t i = 0; i < count; ++i) {
      drawn.push_back((static_cast<float>(draw.below(17)) - 8.0F) / 16.0F);
    }
    return drawn;
  };
  const std::string stem = "base_model.model.model.language_model.layers.0.self_attn.q_proj.";
  file.add(stem + "lora_A.weight", "F32", {2, 64}, values(2 * 64));
  file.add(stem + "lora_B.weight", "F32", {96, 2}, values(96 * 2));
  if (add_more) add_more(file);
  file.write(folder / "adapter_model.safetensors");
}

TEST_SUITE("model/quantised_model") {
  TEST_CASE("AWQ codes give the greedy tokens of the numbers that they stand for") {
    const Pair pair;
    const auto plain = pair.plain.open();
    const std::vector<std::int32_t> ids = greedy_ids(*plain, pair.plain);
    const auto expected = follow(*plain, pair.plain, ids);
    // In bf16 the other matrices and the embedding are rounded too.
    for (const auto& [format, bound] : {std::pair{WeightFormat::kF32, kRelativeBound},
                                        {WeightFormat::kBF16, 2 * kRelativeBound}}) {
      CAPTURE(weights::describe(format));
      const auto awq = pair.awq.open(format);
      const auto found = follow(*awq, pair.awq, ids);
      int num_decided = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const double limit = bound * largest(expected[i]);
        const double difference = max_difference(found[i], expected[i]);
        CHECK(difference <= limit);
        CHECK(difference > 0);                           // else the codes were not multiplied
        if (margin(expected[i]) <= 2 * limit) continue;  // either token may be the largest
        ++num_decided;
        CHECK(argmax(found[i]) == argmax(expected[i]));
      }
      CHECK(num_decided >= 8);
    }
  }

  TEST_CASE("greedy tokens are those of the reference with the numbers of the codes") {
    for (const char* const name : {"awq", "gptq_act_order", "gptq_8_bits", "nf4_double", "llm_int8",
                                   "packed_w4", "int_w8a8", "fp8_block"}) {
      CAPTURE(std::string(name));
      const CaptionerGolden golden("quantised_captioners", name);
      golden.check_prompts();
      golden.check_clips();
      const model::Blueprint blueprint = model::read_blueprint(golden.folder());
      for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
        // FP8 is bf16 in f32 too, where a plan counts the dtype of config.json.
        if (std::string(name) == "fp8_block" && format == WeightFormat::kF32) continue;
        CHECK(golden.open(format)->weight_bytes() ==
              model::placed_bytes(tested_context(), blueprint, format));
      }
    }
  }

  TEST_CASE("rows of 8 bits are multiplied by 8-bit activations in w8a8 only") {
    const CaptionerGolden golden("quantised_captioners", "int_w8a8");
    const model::Blueprint blueprint = model::read_blueprint(golden.folder());
    const auto exact = golden.open(WeightFormat::kF32);
    const auto eight = golden.open(WeightFormat::kW8A8);
    CHECK(eight->weight_bytes() ==
          model::placed_bytes(tested_context(), blueprint, WeightFormat::kW8A8));
    const std::vector<float> expected = first_logits(*exact, golden);
    const double difference = max_difference(first_logits(*eight, golden), expected);
    // A step of 8 bits is 1/127 of a row's largest number, about 2.6 times the usual one, and errs
    // by 1/sqrt(12) of itself: seven times as much as bf16. Tower and head have 8 bits too.
    CHECK(difference > kRelativeBound * largest(expected) / 16);
    CHECK(difference < 16 * kRelativeBound * largest(expected));
  }

  TEST_CASE("a plan counts the codes as they are held") {
    const Pair pair;
    const model::Blueprint blueprint = model::read_blueprint(pair.awq.folder());
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
      const auto awq = pair.awq.open(format);
      CHECK(awq->weight_bytes() == model::placed_bytes(tested_context(), blueprint, format));
      CHECK(awq->weight_bytes() < pair.plain.open(format)->weight_bytes());
    }
  }

  TEST_CASE("a format that would round the codes again is refused with one that keeps them") {
    const Pair pair;
    for (const WeightFormat format :
         {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kNf4, WeightFormat::kW8A8}) {
      CAPTURE(weights::describe(format));
      try {
        pair.awq.open(format);
        FAIL_CHECK("opened");
      } catch (const Error& error) {
        const std::string what = error.what();
        CAPTURE(what);
        CHECK(error.code() == ErrorCode::kUnavailable);
        CHECK(what.find("holds 4-bit codes (awq)") != std::string::npos);
        CHECK(what.find("bf16 keeps them as they are") != std::string::npos);
      }
    }
  }

  TEST_CASE("a format that is a file's codes holds them, and everything else in bf16") {
    const auto same_as_bf16 = [](const char* name, WeightFormat format) {
      CAPTURE(name);
      const CaptionerGolden golden("quantised_captioners", name);
      const model::Blueprint blueprint = model::read_blueprint(golden.folder());
      const auto codes = golden.open(format);
      const auto kept = golden.open(WeightFormat::kBF16);
      CHECK(first_logits(*codes, golden) == first_logits(*kept, golden));
      CHECK(codes->weight_bytes() == kept->weight_bytes());
      CHECK(codes->weight_bytes() == model::placed_bytes(tested_context(), blueprint, format));
      CHECK(model::weight_bytes(blueprint, format) ==
            model::weight_bytes(blueprint, WeightFormat::kBF16));
    };
    same_as_bf16("awq", WeightFormat::kAwq);
    same_as_bf16("gptq_act_order", WeightFormat::kGptq);
    same_as_bf16("nf4_double", WeightFormat::kNf4Double);
  }

  TEST_CASE("a format that is a file's codes refuses a file without them, with what to do") {
    const auto refusal = [](const CaptionerGolden& golden, WeightFormat format) -> std::string {
      try {
        golden.open(format);
        return {};
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUsage);
        return error.what();
      }
    };
    const auto contains = [](const std::string& text, const char* part) {
      CAPTURE(text);
      CHECK(text.find(part) != std::string::npos);
    };
    const CaptionerGolden awq("quantised_captioners", "awq");
    contains(refusal(awq, WeightFormat::kGptq),
             "as other codes (awq) than the GPTQ codes that the format of the weights asks for; "
             "--dtype bf16 keeps them as they are");
    const CaptionerGolden rounded("quantised_captioners", "fp8_block");  // has no codes
    contains(refusal(rounded, WeightFormat::kAwq), "holds no AWQ codes, which the format of");
    contains(refusal(rounded, WeightFormat::kAwq),
             "`caption-cli quantize MODEL -o FOLDER --format awq` makes");
    contains(refusal(rounded, WeightFormat::kGptq),
             "`caption-cli quantize MODEL -o FOLDER --format gptq` makes");
    contains(refusal(rounded, WeightFormat::kNf4Double),
             "`caption-cli quantize MODEL -o FOLDER --format nf4 --double-quant` makes");
  }

  TEST_CASE("requantising rounds the decoded numbers as those of a plain file") {
    const Pair pair;
    for (const WeightFormat format :
         {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kNf4, WeightFormat::kW4A8Head4}) {
      CAPTURE(weights::describe(format));
      const auto again =
          model::open_model(tested_context(), pair.awq.folder(), format, {.requantises = true});
      const auto plain = pair.plain.open(format);  // holds the numbers that the codes stand for
      CHECK(again->weight_bytes() == plain->weight_bytes());
      CHECK(first_logits(*again, pair.awq) == first_logits(*plain, pair.plain));
    }
    // A format that keeps the codes does so.
    const auto kept = model::open_model(tested_context(), pair.awq.folder(), WeightFormat::kF32,
                                        {.requantises = true});
    CHECK(kept->weight_bytes() == pair.awq.open()->weight_bytes());
  }

  TEST_CASE("an adapter is computed beside the codes") {
    const Pair pair;
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "quantised_model_adapter";
    write_adapter(folder);
    const std::vector<model::AdapterSource> adapters = {{.folder = folder, .name = ""}};
    const auto plain = model::open_model(tested_context(), pair.plain.folder(), WeightFormat::kF32,
                                         {.adapters = adapters});
    const auto awq = model::open_model(tested_context(), pair.awq.folder(), WeightFormat::kF32,
                                       {.adapters = adapters});
    const std::vector<float> expected = first_logits(*plain, pair.plain);
    const double bound = kRelativeBound * largest(expected);
    CHECK(max_difference(first_logits(*awq, pair.awq), expected) <= bound);
    const auto bare = pair.awq.open();
    CHECK(max_difference(first_logits(*bare, pair.awq), expected) > bound);
  }

  TEST_CASE("an adapter's copy of a weight is compared with what numbers of e4m3 stand for") {
    const CaptionerGolden golden("quantised_captioners", "fp8_block");
    const std::string module = "model.language_model.layers.0.self_attn.q_proj.";
    const auto source = weights::open_source(golden.folder());
    const ConstView decoded = source->read(module + "weight", {96, 64});
    std::vector<std::uint16_t> base;
    for (std::int64_t i = 0; i < 96 * 64; ++i) base.push_back(decoded.as<BF16>()[i].bits);
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "adapter_of_e4m3";
    const auto open = [&] {
      write_adapter(folder, [&](TensorFile& file) {
        file.add("base_model.model." + module + "base_layer.weight", "BF16", {96, 64}, base);
      });
      model::open_model(tested_context(), golden.folder(), WeightFormat::kBF16,
                        {.adapters = {{.folder = folder}}});
    };
    CHECK_NOTHROW(open());
    base[77] ^= 0x40u;
    CHECK_THROWS_WITH_AS(open(), doctest::Contains("q_proj.base_layer.weight"), Error);
  }
}

}  // namespace
}  // namespace caption
