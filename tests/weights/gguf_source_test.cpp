// Tensors of GGUF files under the names of checkpoints, and their configurations; the goldens are
// made by scripts/make_goldens_gguf_models.py.
#include "weights/gguf_source.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "tests/weights/gguf_bytes.h"
#include "tests/weights/gguf_goldens.h"
#include "weights/joined_source.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

GgufSource open_source(const std::string& name, const char* file, const char* prefix) {
  return GgufSource(GgufFile::open(kGgufModels / name / file), prefix);
}

std::vector<float> values_of(const ConstView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
  dispatch_float(view.dtype(), [&](auto tag) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = to_float(view.as<decltype(tag)>()[i]);
    }
  });
  return values;
}

std::string hash_of(const std::vector<float>& values) {
  Sha256Hasher hasher;
  hasher.update(std::as_bytes(std::span(values)));
  return hasher.digest().hex();
}

// Checks the tensors of the golden that the source has; returns their number.
int check_tensors(const JsonObject& expected, GgufSource& source) {
  int count = 0;
  const JsonObject tensors = *expected.get_object("tensors");
  for (const std::string& name : tensors.keys()) {
    if (!source.has(name)) continue;
    CAPTURE(name);
    ++count;
    const JsonObject tensor = *tensors.get_object(name);
    const Shape shape(tensor.get_ints("shape"));
    const std::string hash = tensor.require_string("sha256");
    CHECK(hash_of(values_of(source.read(name, shape))) == hash);
    source.release(name);
    CHECK(hash_of(values_of(source.read(name, shape))) == hash);
    if (!source.codes_of(name)) continue;
    std::vector<float> values;
    for (const std::int64_t first : {std::int64_t{0}, shape[0] / 3}) {
      const std::int64_t rows = first == 0 ? shape[0] / 3 : shape[0] - shape[0] / 3;
      const QuantisedMatrix matrix = source.read_codes(name, shape, first, rows);
      for (std::int64_t n = 0; n < rows; ++n) {
        for (std::int64_t k = 0; k < shape[1]; ++k) values.push_back(matrix.value(n, k));
      }
    }
    CHECK(values == values_of(source.read(name, shape)));
    if (!source.has_decodable_rows(name)) continue;  // rows of attention in another order
    std::vector<float> decoded(values.size());
    const std::int64_t first = shape[0] / 3;
    source.decode_rows(name, 0, first, decoded.data());
    source.decode_rows(name, first, shape[0] - first, decoded.data() + first * shape[1]);
    CHECK(decoded == values);
    CHECK_THROWS_AS(source.decode_rows(name, 1, shape[0], decoded.data()), Error);
  }
  return count;
}

TEST_SUITE("weights/gguf_source") {
  TEST_CASE("language models have the tensors of their checkpoints") {
    for (const char* const name : kTextCases) {
      CAPTURE(std::string(name));
      const JsonObject expected = expected_of(name);
      GgufSource source = open_source(name, "text.gguf", "model.");
      const auto wanted = std::ssize(expected.get_object("tensors")->keys());
      CHECK(check_tensors(expected, source) == wanted);
      CHECK(source.names() == expected.get_object("tensors")->keys());
      CHECK(source.shape("model.embed_tokens.weight") == Shape{24, 32});
      CHECK(!source.shape("model.none"));
      CHECK(source.content_hash({}) ==
            GgufFile::open(kGgufModels / name / "text.gguf").content_hash());
      CHECK(!source.find_changed_file());
    }
  }

  TEST_CASE("captioners have the tensors of their checkpoints in two files") {
    for (const char* const name : kCaptioners) {
      CAPTURE(std::string(name));
      const JsonObject expected = expected_of(name);
      GgufSource text = open_source(name, "text.gguf", "model.language_model.");
      GgufSource tower = open_source(name, "mmproj.gguf", "");
      const auto wanted = std::ssize(expected.get_object("tensors")->keys());
      CHECK(check_tensors(expected, text) + check_tensors(expected, tower) == wanted);
    }
  }

  TEST_CASE("codes are those of the matrices that the file holds in one type with codes") {
    const GgufSource llama = open_source("llama", "text.gguf", "model.");
    CHECK(llama.codes_of("model.layers.0.self_attn.q_proj.weight"));
    const StoredCodes codes = llama.codes_of("lm_head.weight").value();
    CHECK(codes.method == "Q8_0");
    CHECK(codes.format == MatrixFormat::kInt8);
    CHECK(codes.layout.is_8_bit);
    CHECK(codes.layout.group_columns == 32);
    CHECK(!llama.codes_of("model.norm.weight"));
    CHECK(llama.has_decodable_rows("model.embed_tokens.weight"));
    CHECK(!llama.has_decodable_rows("model.layers.0.self_attn.q_proj.weight"));
    CHECK(!llama.has_decodable_rows("model.norm.weight"));
    CHECK(!llama.codes_of("model.none"));
    CHECK(!open_source("mistral", "text.gguf", "model.").codes_of("lm_head.weight"));
    const GgufSource tower = open_source("qwen2_5_vl", "mmproj.gguf", "");
    CHECK(tower.has("model.visual.blocks.0.attn.qkv.weight"));
    CHECK(!tower.codes_of("model.visual.blocks.0.attn.qkv.weight"));
  }

  TEST_CASE("the dtype that a tensor is read as is known beforehand") {
    for (const char* const name : kTextCases) {
      CAPTURE(std::string(name));
      GgufSource source = open_source(name, "text.gguf", "model.");
      for (const std::string& tensor : source.names()) {
        CAPTURE(tensor);
        CHECK(source.dtype_of(tensor) == source.read(tensor, *source.shape(tensor)).dtype());
        source.release(tensor);
      }
      CHECK(!source.dtype_of("model.none"));
    }
    CHECK(open_source("mistral", "text.gguf", "model.").dtype_of("lm_head.weight") == DType::kF16);
  }

  TEST_CASE("two files are one source") {
    const auto part = [](const char* file, const char* prefix) {
      return std::make_unique<GgufSource>(GgufFile::open(kGgufModels / "qwen3_vl" / file), prefix);
    };
    const auto joined = [](std::unique_ptr<Source> first, std::unique_ptr<Source> second) {
      std::vector<std::unique_ptr<Source>> sources;
      sources.push_back(std::move(first));
      sources.push_back(std::move(second));
      return JoinedSource(std::move(sources));
    };
    JoinedSource both = joined(part("text.gguf", "model.language_model."), part("mmproj.gguf", ""));
    CHECK(both.names() == expected_of("qwen3_vl").get_object("tensors")->keys());
    CHECK(both.name().find("text.gguf and ") != std::string::npos);
    for (const char* const name :
         {"lm_head.weight", "model.visual.blocks.0.mlp.linear_fc1.weight"}) {
      CAPTURE(std::string(name));
      const Shape shape = both.shape(name).value();
      const std::vector<float> values = values_of(both.read(name, shape));
      CHECK(both.dtype_of(name) == DType::kF32);
      CHECK(both.codes_of(name)->method == "Q8_0");
      const QuantisedMatrix codes = both.read_codes(name, shape, 1, 1);
      CHECK(codes.value(0, 3) == values[static_cast<std::size_t>(shape[1] + 3)]);
      both.release(name);
    }
    CHECK(!both.has("model.none"));
    CHECK(!both.shape("model.none"));
    CHECK(!both.codes_of("model.none"));
    CHECK(!both.dtype_of("model.none"));
    CHECK(!both.find_changed_file());
    check_contains(
        refusal(ErrorCode::kBadModel, [&] { both.read("model.none", {2}); }),
        "mmproj.gguf: tensor \"model.none\" [2] is missing; download or convert them again");
    // The message calls a tensor that a file could have by the name that it would have there.
    const std::string of_text = refusal(ErrorCode::kBadModel, [&] {
      both.read("model.language_model.layers.7.mlp.down_proj.weight", {2});
    });
    check_contains(of_text, "text.gguf: tensor \"blk.7.ffn_down.weight\" [2] is missing; ");
    CHECK(of_text.find("mmproj") == std::string::npos);
    check_contains(refusal(ErrorCode::kBadModel,
                           [&] { both.read("model.visual.blocks.7.norm1.weight", {2}); }),
                   "mmproj.gguf: tensor \"v.blk.7.ln1.weight\" [2] is missing; ");
    const Sha256 hash = both.content_hash({});
    CHECK(hash == joined(part("text.gguf", "a."), part("mmproj.gguf", "")).content_hash({}));
    CHECK(hash != joined(part("mmproj.gguf", ""), part("text.gguf", "a.")).content_hash({}));
    check_contains(refusal(ErrorCode::kBadModel,
                           [&] { joined(part("text.gguf", "a."), part("text.gguf", "a.")); }),
                   "both have a tensor \"a.embed_tokens.weight\"; download or convert them again");
  }

  TEST_CASE("missing tensors and other shapes are refused by name") {
    GgufSource source = open_source("llama", "text.gguf", "model.");
    check_contains(
        refusal(ErrorCode::kBadModel,
                [&] {
                  source.read("model.none", {3, 4});
                }),
        "text.gguf: tensor \"model.none\" [3, 4] is missing; download the file again, or "
        "convert");
    check_contains(refusal(ErrorCode::kBadModel, [&] { source.read("model.norm.weight", {33}); }),
                   "tensor \"output_norm.weight\" has the shape [32]; expected [33]");
    check_contains(refusal(ErrorCode::kBadModel,
                           [&] {
                             source.read("lm_head.weight", {32, 24});
                           }),
                   "expected [32, 24]");
    CHECK_NOTHROW(source.read("model.norm.weight", {1, 32, 1}));
  }

  TEST_CASE("files of other models are refused by name") {
    const auto file = [](const char* architecture) {
      GgufBytes bytes;
      bytes.add_string("general.architecture", architecture);
      return bytes;
    };
    const auto refusal_of = [](const GgufBytes& bytes, ErrorCode code) {
      return refusal(code, [&] { GgufSource{GgufFile::open(written("x.gguf", bytes))}; });
    };
    const std::string four(16, '\0');
    const ErrorCode unavailable = ErrorCode::kUnavailable;
    check_contains(refusal_of(GgufBytes(), ErrorCode::kBadModel),
                   "general.architecture: is missing");
    check_contains(refusal_of(file("gemma3"), unavailable), "general.architecture \"gemma3\"");
    check_contains(
        refusal_of(file("clip").add_string("clip.projector_type", "resampler"), unavailable),
        "clip.projector_type \"resampler\" is not supported");
    for (const char* const name :
         {"blk.0.ffn_gate_exps.weight", "blk.00.attn_q.weight", "blk.1234567.attn_q.weight",
          "blk.x.attn_q.weight", "blk.0.attn_q.scale"}) {
      CAPTURE(std::string(name));
      check_contains(
          refusal_of(file("qwen2").add_tensor(name, {4}, GgmlType::kF32, four), unavailable),
          std::string("x.gguf: tensor \"") + name + "\":");
    }
    check_contains(refusal_of(file("llama")
                                  .add_u32("llama.attention.head_count", 3)
                                  .add_tensor("blk.0.attn_q.weight", {4, 1}, GgmlType::kF32, four),
                              ErrorCode::kBadModel),
                   "has 4 rows, which are not those of 3 heads");
    GgufBytes tower = file("clip");
    tower.add_string("clip.projector_type", "qwen2.5vl_merger");
    check_contains(
        refusal_of(GgufBytes(tower).add_tensor("v.blk.0.attn_q.bias", {4}, GgmlType::kF32, four),
                   ErrorCode::kBadModel),
        "is a part of \"model.visual.blocks.0.attn.qkv.bias\", whose other parts are missing");
    check_contains(
        refusal_of(GgufBytes(tower)
                       .add_tensor("v.blk.0.attn_q.weight", {1, 4}, GgmlType::kF32, four)
                       .add_tensor("v.blk.0.attn_k.weight", {1, 4}, GgmlType::kF32, four)
                       .add_tensor("v.blk.0.attn_v.weight", {2, 2}, GgmlType::kF32, four),
                   ErrorCode::kBadModel),
        "has shape [2, 2], which does not fit [1, 4]");
    check_contains(refusal_of(file("clip")
                                  .add_string("clip.projector_type", "qwen3vl_merger")
                                  .add_tensor("v.deepstack.1.fc1.bias", {4}, GgmlType::kF32, four),
                              ErrorCode::kBadModel),
                   "is not among the layers of clip.vision.is_deepstack_layers");
    GgufSource other(GgufFile::open(written(
        "x.gguf", file("qwen2").add_tensor("output.weight", {1, 256}, 10, std::string(84, '\0')))));
    check_contains(refusal(unavailable,
                           [&] {
                             other.read("lm_head.weight", {1, 256});
                           }),
                   "tensor \"output.weight\" has the type Q2_K, which this build does not read");
  }

  TEST_CASE("a number that is not finite is found by file, tensor and element") {
    const auto broken = [](std::string numbers) {
      GgufBytes bytes;
      bytes.add_string("general.architecture", "qwen2");
      bytes.add_tensor("output_norm.weight", {4}, GgmlType::kF32, numbers);
      const GgufSource source(GgufFile::open(written("nan.gguf", bytes)));
      return source.find_broken_tensor();
    };
    std::string numbers(16, '\0');
    CHECK_FALSE(broken(numbers).has_value());
    numbers[10] = '\x80';
    numbers[11] = '\x7f';
    check_contains(broken(numbers).value_or(""),
                   "nan.gguf: tensor \"output_norm.weight\" holds a number that is not finite "
                   "(element 2)");
  }

  TEST_CASE("towers of LLaVA have the names of the checkpoint, and layers under exchanged names") {
    const std::string row(4 * 8, '\1');
    const std::string other_row(4 * 8, '\2');
    GgufBytes bytes;
    bytes.add_string("general.architecture", "clip");
    bytes.add_tensor("v.blk.0.ffn_down.weight", {4, 2}, GgmlType::kF32, row);
    bytes.add_tensor("v.blk.0.ffn_up.weight", {2, 4}, GgmlType::kF32, other_row);
    bytes.add_tensor("v.blk.0.ffn_down.bias", {4}, GgmlType::kF32, row.substr(16));
    bytes.add_tensor("v.blk.0.ffn_up.bias", {2}, GgmlType::kF32, row.substr(24));
    bytes.add_tensor("v.class_embd", {4}, GgmlType::kF32, row.substr(16));
    bytes.add_tensor("mm.0.weight", {2, 4}, GgmlType::kF32, row);
    GgufSource source(GgufFile::open(written("llava.gguf", bytes)));
    const std::string layer = "vision_tower.vision_model.encoder.layers.0.";
    CHECK_NOTHROW(source.read(layer + "mlp.fc1.weight", {4, 2}));
    CHECK_NOTHROW(source.read(layer + "mlp.fc1.bias", {4}));
    CHECK_NOTHROW(source.read(layer + "mlp.fc2.weight", {2, 4}));
    CHECK_NOTHROW(source.read(layer + "mlp.fc2.bias", {2}));
    CHECK_NOTHROW(source.read("vision_tower.vision_model.embeddings.class_embedding", {4}));
    CHECK_NOTHROW(source.read("model.multi_modal_projector.linear_1.weight", {2, 4}));

    // The key says that the MLP is narrower inside, so that the names are right.
    GgufBytes narrow = bytes;
    narrow.add_u32("clip.vision.feed_forward_length", 2);
    GgufSource as_named(GgufFile::open(written("narrow.gguf", narrow)));
    CHECK_NOTHROW(as_named.read(layer + "mlp.fc1.weight", {2, 4}));
    CHECK_NOTHROW(as_named.read(layer + "mlp.fc2.weight", {4, 2}));

    bytes.add_tensor("model.image_newline", {4}, GgmlType::kF32, row.substr(16));
    const auto file =
        std::make_shared<const GgufFile>(GgufFile::open(written("llava.gguf", bytes)));
    CHECK(GgufSource(file, "").names().size() == 7);
    CHECK(GgufSource(file, "", GgufPart::kProjector).names() ==
          std::vector<std::string>{"model.multi_modal_projector.linear_1.weight"});
    const GgufSource tower(file, "", GgufPart::kTower);
    CHECK(tower.names().size() == 5);
    CHECK(!tower.has("model.image_newline"));
  }
}

}  // namespace
}  // namespace caption::weights
