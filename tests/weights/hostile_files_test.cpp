// Files that are made to cost much: small ones that name large sizes, and ones of a megabyte that
// consist of nothing but entries.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/support/counted_memory.h"
#include "tests/weights/gguf_bytes.h"
#include "tests/weights/gguf_goldens.h"
#include "tests/weights/quantised_files.h"
#include "text/token_tables.h"
#include "weights/gguf_config.h"
#include "weights/gguf_file.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"
#include "weights/open_source.h"

namespace caption::weights {
namespace {

using testing::MemoryPeak;

constexpr std::int64_t kBytesPerByte = 8;
constexpr std::int64_t kFixedBytes = 16 << 10;

std::string safetensors(std::string header, std::size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return bytes_of<std::uint64_t>(header.size()) + header + std::string(data_bytes, '\0');
}

// Opens config.json and model.safetensors with these contents; returns the message of the error.
std::string refusal_of(const std::string& config, const std::string& tensors, ErrorCode code) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "hostile_checkpoint";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "config.json", std::ios::binary) << config;
  std::ofstream(folder / "model.safetensors", std::ios::binary) << tensors;
  return refusal(code, [&] { weights::open_source(folder); });
}

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The golden with the value of a u32 key replaced.
std::string with_number(std::string file, std::string_view key, std::uint32_t number) {
  const std::size_t at = file.find(gguf_text(key));
  REQUIRE(at != std::string::npos);
  constexpr std::size_t kTypeBytes = 4;
  return file.replace(at + 8 + key.size() + kTypeBytes, sizeof(number), bytes_of(number));
}

void check_memory(const MemoryPeak& peak, std::size_t file_bytes) {
  CAPTURE(file_bytes);
  CHECK(peak.bytes() <= kBytesPerByte * static_cast<std::int64_t>(file_bytes) + kFixedBytes);
}

GgufBytes language_model() {
  GgufBytes file;
  file.alignment = 1;
  file.add_string("general.architecture", "qwen2").add_u32("general.alignment", 1);
  return file;
}

TEST_SUITE("weights/hostile_files") {
  TEST_CASE("the other axes of an empty tensor may be of any length") {
    struct Case {
      const char* config;
      const char* tensor;
      const char* dtype;
      const char* other;  // the tensor by which a module is found, if it is another one
    };
    const Case cases[] = {
        {R"({"quant_method":"gptq","bits":4})", "a.qweight", "I32", nullptr},
        {R"({"quant_method":"gptq","bits":8})", "a.qweight", "I32", nullptr},
        {R"({"quant_method":"awq","bits":4})", "a.qweight", "I32", nullptr},
        {R"({"quant_method":"fp8"})", "a.weight", "F8_E4M3", "a.weight_scale"},
        {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "a.weight", "I8", "a.SCB"},
        {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":
            {"targets":["Linear"],"weights":{"num_bits":8,"strategy":"channel"}}}})",
         "a.weight", "I8", "a.weight_scale"}};
    for (const Case& c : cases) {
      for (const char* const shape : {"[4611686018427387904,0]", "[0,4611686018427387904]"}) {
        CAPTURE(std::string(c.config));
        std::string header = std::string("{\"") + c.tensor + "\":{\"dtype\":\"" + c.dtype +
                             "\",\"shape\":" + shape + ",\"data_offsets\":[0,0]}";
        if (c.other != nullptr) {
          header += std::string(",\"") + c.other +
                    "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
        }
        const std::size_t data_bytes = c.other == nullptr ? 0 : 4;
        const std::string config = std::string("{\"quantization_config\":") + c.config + "}";
        check_contains(
            refusal_of(config, safetensors(header + "}", data_bytes), ErrorCode::kBadModel),
            "is empty");
      }
    }
  }

  TEST_CASE("a configuration has at most 32 different groups of modules") {
    const auto config_of = [](int num_schemes, int num_equal) {
      std::string groups;
      for (int i = 0; i < num_schemes + num_equal; ++i) {
        const std::string width = std::to_string(i < num_schemes ? 2 + 2 * i : 2);
        groups += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                  R"(":{"targets":["Linear"],"weights":{"num_bits":8,"strategy":"group",)"
                  R"("group_size":)" +
                  width + "}}";
      }
      return R"({"quantization_config":{"quant_method":"compressed-tensors",)"
             R"("format":"int-quantized","config_groups":{)" +
             groups + "}}}";
    };
    check_contains(refusal_of(config_of(33, 0), safetensors("{}", 0), ErrorCode::kUnavailable),
                   "config_groups: a group beyond 32 different ones is not read by this build; at "
                   "most so many are");
    check_contains(refusal_of(config_of(32, 300), safetensors("{}", 0), ErrorCode::kBadModel),
                   "holds no weight of this format");
  }

  TEST_CASE("no file has more layers than tensors") {
    const std::string text = testing::read_whole_file(kGgufModels / "qwen2_5_vl/text.gguf");
    const std::string tower = testing::read_whole_file(kGgufModels / "qwen2_5_vl/mmproj.gguf");
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "hostile_gguf";
    fs::create_directories(folder);
    const auto config_of = [&](const std::string& text_bytes, const std::string& tower_bytes) {
      std::ofstream(folder / "text.gguf", std::ios::binary) << text_bytes;
      std::ofstream(folder / "mmproj.gguf", std::ios::binary) << tower_bytes;
      const GgufFile text_file = GgufFile::open(folder / "text.gguf");
      const GgufFile tower_file = GgufFile::open(folder / "mmproj.gguf");
      const MemoryPeak peak;
      const std::string message =
          refusal(ErrorCode::kBadModel, [&] { gguf_captioner_config(text_file, tower_file); });
      check_memory(peak, text_bytes.size() + tower_bytes.size());
      return message;
    };
    CHECK(config_of(text, tower).empty());
    constexpr std::uint32_t kLayers = 1u << 30;
    std::string many = with_number(tower, "clip.vision.block_count", kLayers);
    many = with_number(many, "clip.vision.n_wa_pattern", 1);
    check_contains(config_of(text, many),
                   "mmproj.gguf: clip.vision.block_count is 1073741824, but the file has");
    check_contains(config_of(with_number(text, "qwen2vl.block_count", kLayers), tower),
                   "text.gguf: qwen2vl.block_count is 1073741824, but the file has");
    fs::remove_all(folder);
  }

  TEST_CASE("a tower lists no more layers with a merger than it has tensors") {
    GgufBytes file;
    file.add_string("general.architecture", "clip")
        .add_string("clip.projector_type", "qwen3vl_merger")
        .add("clip.vision.is_deepstack_layers", GgufType::kArray,
             gguf_array(GgufType::kBool, 1000, std::string(1000, '\1')))
        .add_tensor("v.deepstack.999.fc1.bias", {1}, GgmlType::kF32, bytes_of(1.0F));
    const fs::path path = written("mergers.gguf", file);
    check_contains(refusal(ErrorCode::kBadModel, [&] { GgufSource(GgufFile::open(path)); }),
                   "is_deepstack_layers lists 1000 layers, but the file has 1 tensor");
  }

  TEST_CASE("safetensors headers of many small entries take at most 8 bytes per byte") {
    const auto members = [](int count, const std::string& value) {
      std::string all;
      for (int i = 0; i < count; ++i) {
        all += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + value;
      }
      return "{" + all + "}";
    };
    const std::string axes = "{\"dtype\":\"U8\",\"shape\":[" + repeat("1,", 400000) + "1]}";
    const struct {
      std::string header;
      const char* message;  // the refusal; "" if the file opens
    } files[] = {
        {members(1, axes), "is described by 800"},
        {"{\"__metadata__\":{\"a\":[" + repeat("[],", 300000) + "[]]}}", "expected a string"},
        {members(100000, "{}"), "dtype: is missing"},
        {"{\"__metadata__\":" + members(100000, "\"\"") + "}", ""},
        {"{\"__metadata__\":{\"a\":\"" + std::string(1 << 20, 'x') + "\"}}", ""},
        {members(20000, R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})"), ""}};
    const fs::path path = fs::path(CAPTION_TEST_TMP) / "hostile.safetensors";
    for (const auto& file : files) {
      const std::string bytes = safetensors(file.header, 0);
      std::ofstream(path, std::ios::binary) << bytes;
      const MemoryPeak peak;
      const std::string message =
          refusal(ErrorCode::kBadModel, [&] { weights::open_source(path); });
      check_memory(peak, bytes.size());
      CAPTURE(std::string(file.message));
      CAPTURE(message.substr(0, 300));
      CHECK(message.empty() == std::string_view(file.message).empty());
      CHECK(message.find(file.message) != std::string::npos);
      CHECK(message.size() < 1000);
    }
    fs::remove(path);
  }

  TEST_CASE("messages show the beginning of long keys and tokens") {
    const std::string name(60000, 'x');
    GgufBytes file;
    file.add_string("tokenizer.ggml.model", "llama").add_string(name, "text");
    const std::string tokens = gguf_text(std::string(100000, 'y')) + gguf_text("\xFF");
    file.add("tokenizer.ggml.tokens", GgufType::kArray, gguf_array(GgufType::kString, 2, tokens));
    file.add("tokenizer.ggml.token_type", GgufType::kArray,
             gguf_array(GgufType::kU8, 2, std::string(2, '\7')));
    const fs::path path = written("long.gguf", file);
    const GgufFile open_file = GgufFile::open(path);
    for (const std::string& message :
         {refusal(ErrorCode::kBadModel, [&] { open_file.metadata().require_int(name, 0, 1); }),
          refusal(ErrorCode::kBadModel,
                  [&] { text::make_tokenizer(gguf_token_tables(open_file.metadata())); })}) {
      CAPTURE(message.substr(0, 500));
      CHECK(message.find("...") != std::string::npos);
      CHECK(message.size() < 1000);
    }
  }

  TEST_CASE("GGUF headers of many small entries take at most 8 bytes per byte") {
    std::vector<GgufBytes> files(5, language_model());
    for (int i = 0; i < 50000; ++i) {
      files[0].add("k" + std::to_string(i), GgufType::kU8, "\1");
    }
    for (int i = 0; i < 20000; ++i) {
      files[1].add_tensor("blk." + std::to_string(i) + ".ffn_up.bias", {1}, GgmlType::kF16, "\1\1");
    }
    files[2].add_string("tokenizer.ggml.model", "gpt2");
    files[2].add("tokenizer.ggml.tokens", GgufType::kArray,
                 gguf_array(GgufType::kString, 100000, repeat(std::string(8, '\0'), 100000)));
    files[3].add(
        "nested", GgufType::kArray,
        gguf_array(GgufType::kArray, 60000, repeat(gguf_array(GgufType::kU8, 0, ""), 60000)));
    files[4].add_string("tokenizer.ggml.model", "gpt2");
    files[4].add("tokenizer.ggml.token_type", GgufType::kArray,
                 gguf_array(GgufType::kU8, 1000000, std::string(1000000, '\1')));
    for (std::size_t i = 0; i < files.size(); ++i) {
      CAPTURE(i);
      const fs::path path = written("many.gguf", files[i]);
      const MemoryPeak peak;
      const auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
      refusal(ErrorCode::kBadModel, [&] { gguf_text_config(*file); });
      refusal(ErrorCode::kBadModel, [&] { gguf_token_tables(file->metadata()); });
      GgufSource source(file);
      check_memory(peak, fs::file_size(path));
      fs::remove(path);
    }
  }
}

}  // namespace
}  // namespace caption::weights
