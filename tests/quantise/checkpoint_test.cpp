// Whole checkpoints: what is in them, what continues an interrupted call, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/caption_model.h"
#include "model/read_blueprint.h"
#include "quantise/blocks.h"
#include "quantise/quantise_checkpoint.h"
#include "quantise/rounding.h"
#include "tests/quantise/folders.h"
#include "tests/support/drawn_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/open_source.h"
#include "weights/quantise.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

QuantiseOptions options_of(const fs::path& model, const fs::path& output, const char* format) {
  return {.model = model, .output = output, .format = format, .num_threads = 2};
}

bool is_decoder_matrix(const std::string& name) {
  return name.find("layers.") != std::string::npos &&
         (name.find("language_model.") != std::string::npos || name.starts_with("model.layers.")) &&
         name.ends_with("_proj.weight");
}

// The numbers that the codes of a format stand for, from the rounding alone. Each value is one
// product in f32, as the reader's.
std::vector<float> rounded_numbers(const std::string& format, bool double_quant, ConstView matrix) {
  ThreadPool pool(1);
  std::vector<float> numbers;
  if (format == "nf4" || format == "fp4") {
    const BlockTable table = format == "nf4" ? BlockTable::kNf4 : BlockTable::kFp4;
    BlockCodes blocks = round_to_blocks(pool, matrix, table);
    if (double_quant) {
      const NestedScales nested = nest_scales(blocks.absmax, mean_of(blocks.absmax));
      for (std::size_t i = 0; i < blocks.absmax.size(); ++i) {
        blocks.absmax[i] =
            weights::dynamic_codebook()[nested.codes[i]] * nested.absmax[i / 256] + nested.offset;
      }
    }
    for (std::int64_t i = 0; i < matrix.num_elements(); ++i) {
      const unsigned both = blocks.codes[static_cast<std::size_t>(i / 2)];
      const unsigned code = i % 2 == 0 ? both >> 4u : both & 15u;
      numbers.push_back(table_of(table)[code] * blocks.absmax[static_cast<std::size_t>(i / 64)]);
    }
    return numbers;
  }
  const RoundedMatrix rounded = format == "int8"    ? round_llm_int8(pool, matrix)
                                : format == "w8a8"  ? round_symmetric(pool, matrix, 8, 0)
                                : format == "w4a16" ? round_symmetric(pool, matrix, 4, 128)
                                : format == "awq"   ? round_awq(pool, matrix, 128)
                                                    : round_gptq(pool, matrix, 128);
  const bool has_f16_scales = format == "awq" || format == "gptq";
  for (std::size_t i = 0; i < rounded.codes.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(rounded.columns);
    const std::size_t column = i % static_cast<std::size_t>(rounded.columns);
    const std::size_t group = row * static_cast<std::size_t>(rounded.groups()) +
                              column / static_cast<std::size_t>(rounded.group_columns);
    const int zero = rounded.zeros.empty() ? 0 : rounded.zeros[group];
    const auto code = static_cast<float>(rounded.codes[i] - zero);
    const float scale =
        has_f16_scales ? to_float(to_f16(rounded.scales[group])) : rounded.scales[group];
    // LLM.int8() is decoded as the library does: code * SCB * (1 / 127).
    numbers.push_back(format == "int8" ? code * scale * 7.874015718698502e-3F : code * scale);
  }
  return numbers;
}

// Compares every tensor of a checkpoint with its source. Returns the number of matrices.
int check_tensors(const fs::path& model, const fs::path& output, const std::string& format,
                  bool double_quant) {
  const weights::Checkpoint plain = weights::Checkpoint::open(model);
  const auto quantised = weights::open_source(output);
  CHECK(quantised->names() == plain.names());
  int num_matrices = 0;
  for (const std::string& name : plain.names()) {
    CAPTURE(name);
    const ConstView before = plain.find(name).value();
    const ConstView after = quantised->read(name, before.shape());
    if (!is_decoder_matrix(name)) {
      CHECK(testing::count_unequal_bits(before, after) == 0);
      continue;
    }
    ++num_matrices;
    const std::vector<float> expected = rounded_numbers(format, double_quant, before);
    REQUIRE(after.dtype() == DType::kF32);
    std::int64_t unequal = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Both zeros are the number 0.
      if (after.as<float>()[i] != expected[i]) ++unequal;
    }
    CHECK(unequal == 0);
    quantised->release(name);
  }
  return num_matrices;
}

std::string error_of(const QuantiseOptions& options, ErrorCode code) {
  try {
    quantise_checkpoint(options);
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(code));
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return testing::contains_text(text, part);
}

}  // namespace

TEST_SUITE_BEGIN("quantise/checkpoint");

TEST_CASE("codes stand for the rounded numbers, and all else keeps its bytes, in every format") {
  for (const FormatEntry& entry : formats()) {
    for (const bool double_quant : {false, true}) {
      if (double_quant && !entry.has_double_quant) continue;
      CAPTURE(entry.name);
      CAPTURE(double_quant);
      const fs::path output = new_folder("quantise_checkpoint/demo");
      QuantiseOptions options = options_of(demo_model(), output, std::string(entry.name).c_str());
      options.format_options.double_quant = double_quant;
      const QuantiseOutcome outcome = quantise_checkpoint(options);
      CHECK(outcome.is_complete);
      CHECK(outcome.num_matrices == 28);
      CHECK(outcome.kept.empty());
      CHECK(outcome.output_bytes < outcome.source_bytes);
      CHECK(check_tensors(demo_model(), output, options.format, double_quant) == 28);
      Files files = files_of(output);
      for (const auto& [name, content] : files_of(demo_model())) {
        CAPTURE(name);
        REQUIRE(files.contains(name));
        if (name == "config.json" || name.ends_with(".safetensors")) continue;
        CHECK(files[name] == content);
      }
      CHECK(files.size() == files_of(demo_model()).size() + 1);  // the manifest
    }
  }
}

TEST_CASE("the families' checkpoints open with their decoders quantised") {
  for (const std::string name :
       {"qwen3_vl/untied_f32", "qwen3_vl/shards_f16", "qwen3_vl/tied_bf16", "qwen2_5_vl/hub_layout",
        "internvl/new_names_tied", "internvl/chat_300m", "llava_next_video/qwen2_chatml",
        "llava_onevision/qwen3_f32"}) {
    for (const std::string format : {"nf4", "int8", "w8a8"}) {
      CAPTURE(name);
      CAPTURE(format);
      const DrawnCheckpoint model(golden(name.c_str()));
      const std::int64_t num_matrices = 7 * model::read_blueprint(model.path()).text->num_layers;
      const fs::path output = new_folder("quantise_checkpoint/family");
      const QuantiseOutcome outcome =
          quantise_checkpoint(options_of(model.path(), output, format.c_str()));
      CHECK(outcome.num_matrices == num_matrices);
      CHECK(check_tensors(model.path(), output, format, false) == num_matrices);
      CHECK_NOTHROW(model::open_model(Context{}, output, weights::WeightFormat::kBF16));
    }
  }
}

TEST_CASE("the language model of a composed model is quantised under its own names") {
  const fs::path model = golden("model/composed/llm");
  const fs::path output = new_folder("quantise_checkpoint/language_model");
  const QuantiseOutcome outcome = quantise_checkpoint(options_of(model, output, "nf4"));
  const std::int64_t num_matrices = 7 * model::read_blueprint(model).text->num_layers;
  CHECK(outcome.num_matrices == num_matrices);
  CHECK(check_tensors(model, output, "nf4", false) == num_matrices);
  CHECK(contains(error_of(options_of(golden("model/composed/vision"),
                                     new_folder("quantise_checkpoint/x"), "nf4"),
                          ErrorCode::kBadModel),
                 "has no decoder to quantise; give the folder of a captioner"));
}

TEST_CASE("shards are as small as asked, with an index, and hold the same tensors") {
  const fs::path whole = new_folder("quantise_checkpoint/whole");
  quantise_checkpoint(options_of(demo_model(), whole, "nf4"));
  const fs::path output = new_folder("quantise_checkpoint/shards");
  QuantiseOptions options = options_of(demo_model(), output, "nf4");
  options.max_shard_bytes = 1'000'000;
  const QuantiseOutcome outcome = quantise_checkpoint(options);
  CHECK(outcome.num_shards > 4);
  CHECK(fs::exists(output / "model.safetensors.index.json"));
  CHECK_FALSE(fs::exists(output / "model.safetensors"));
  const weights::Checkpoint one = weights::Checkpoint::open(whole);
  const weights::Checkpoint several = weights::Checkpoint::open(output);
  CHECK(std::ssize(several.files()) == outcome.num_shards);
  REQUIRE(several.names() == one.names());
  for (const std::string& name : one.names()) {
    const auto& a = one.stored(name)->bytes;
    const auto& b = several.stored(name)->bytes;
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  for (const auto& entry : fs::directory_iterator(output)) {
    if (entry.path().extension() != ".safetensors") continue;
    // A header is less than 40 kB.
    CHECK(fs::file_size(entry.path()) < 1'040'000);
  }
}

TEST_CASE("a call that was stopped anywhere is continued to the same bytes") {
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_checkpoint/uninterrupted"), "awq");
  options.max_shard_bytes = 1'500'000;
  const QuantiseOutcome whole = quantise_checkpoint(options);
  const Files expected = files_of(options.output);
  for (const std::int64_t last : {0, 1, 40, 90, 110}) {
    CAPTURE(last);
    options.output = new_folder("quantise_checkpoint/interrupted");
    std::atomic<bool> stop{last == 0};
    options.stop = &stop;
    options.on_progress = [&](const QuantiseProgress& progress) {
      if (progress.tensors_done >= last) stop = true;
    };
    CHECK_FALSE(quantise_checkpoint(options).is_complete);
    CHECK_FALSE(fs::exists(options.output / "config.json"));
    options.stop = nullptr;
    options.on_progress = {};
    const QuantiseOutcome rest = quantise_checkpoint(options);
    CHECK(rest.is_complete);
    CHECK(rest.shards_found < whole.num_shards);
    if (last > 100) CHECK(rest.shards_found > 0);
    CHECK(files_of(options.output) == expected);
    CHECK(quantise_checkpoint(options).shards_found == whole.num_shards);
    CHECK(files_of(options.output) == expected);
  }
}

TEST_CASE("a call that is stopped while files are hashed has written nothing") {
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_checkpoint/hashing"), "nf4");
  std::atomic<bool> stop{true};
  options.stop = &stop;
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  CHECK_FALSE(fs::exists(options.output / kManifestName));
  stop = false;
  CHECK(quantise_checkpoint(options).is_complete);
  const Files expected = files_of(options.output);
  stop = true;
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  CHECK(files_of(options.output) == expected);
}

TEST_CASE("a file that is not what the manifest says is made again") {
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_checkpoint/damaged"), "int8");
  options.max_shard_bytes = 2'000'000;
  const QuantiseOutcome whole = quantise_checkpoint(options);
  const Files expected = files_of(options.output);
  const fs::path second = options.output / "model-00002-of-00004.safetensors";
  REQUIRE(fs::exists(second));
  const std::vector<std::function<void()>> damages = {
      [&] { fs::remove(second); }, [&] { fs::resize_file(second, 100'000); },
      [&] {
        std::fstream file(second, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(500'000);
        file.put('\x55').put('\xAA');
      },
      [&] { std::ofstream(options.output / "model-00003-of-00004.safetensors.partial") << "x"; },
      [&] { std::ofstream(options.output / "config.json") << "{"; }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    CAPTURE(i);
    damages[i]();
    const QuantiseOutcome outcome = quantise_checkpoint(options);
    CHECK(outcome.shards_found == whole.num_shards - (i < 3 ? 1 : 0));
    fs::remove(options.output / "model-00003-of-00004.safetensors.partial");
    CHECK(files_of(options.output) == expected);
  }
}

TEST_CASE("an output of other settings or with other files is refused and left alone") {
  const fs::path output = new_folder("quantise_checkpoint/other");
  const QuantiseOptions options = options_of(demo_model(), output, "nf4");
  quantise_checkpoint(options);
  const Files before = files_of(output);
  QuantiseOptions other = options;
  other.format = "fp4";
  CHECK(contains(error_of(other, ErrorCode::kOutputConflict),
                 "are made with --format nf4, not fp4; give another folder"));
  other = options;
  other.format_options.double_quant = true;
  CHECK(contains(error_of(other, ErrorCode::kOutputConflict), "are made without --double-quant;"));
  other = options;
  other.max_shard_bytes = 1'000'000;
  CHECK(contains(error_of(other, ErrorCode::kOutputConflict),
                 "are made with --max-shard-size 5000000000, not 1000000;"));
  const DrawnCheckpoint model(golden("llava_next_video/qwen2_chatml"));
  other = options_of(model.path(), output, "nf4");
  const std::string other_model = error_of(other, ErrorCode::kOutputConflict);
  CHECK(contains(other_model, output.string()));
  CHECK(contains(other_model, "are made of other weights (MODEL);"));
  CHECK(files_of(output) == before);
  std::ofstream(output / "notes.txt") << "mine";
  CHECK(contains(error_of(options, ErrorCode::kOutputConflict),
                 "notes.txt: is no file of this checkpoint"));
  // A folder with the files of a model.
  const fs::path copy = new_folder("quantise_checkpoint/copy");
  fs::copy(demo_model(), copy);
  CHECK(contains(error_of(options_of(demo_model(), copy, "nf4"), ErrorCode::kOutputConflict),
                 "is there without caption-cli.quantize.json"));
  CHECK(files_of(copy) == files_of(demo_model()));
}

TEST_CASE("an output whose files are not those that were made is mended or refused") {
  const fs::path output = new_folder("quantise_checkpoint/changed");
  const QuantiseOptions options = options_of(demo_model(), output, "nf4");
  REQUIRE(quantise_checkpoint(options).is_complete);
  const Files made = files_of(output);
  // Weights that another program changed are made again.
  std::fstream(output / "model.safetensors", std::ios::in | std::ios::out).seekp(4096).put('x');
  REQUIRE(files_of(output) != made);
  CHECK(quantise_checkpoint(options).is_complete);
  CHECK(files_of(output) == made);
  // A folder in the place of a file.
  fs::remove(output / "config.json");
  fs::create_directory(output / "config.json");
  CHECK(contains(error_of(options, ErrorCode::kOutputConflict), "config.json: is no file"));
  fs::remove(output / "config.json");
  // Without the manifest nothing says who made the files.
  fs::remove(output / kManifestName);
  CHECK(contains(
      error_of(options, ErrorCode::kOutputConflict),
      "is there without caption-cli.quantize.json, which would say that quantize made it"));
}

TEST_CASE("an output that is a link to nothing is refused in a sentence, and stays a link") {
  const fs::path link = new_folder("quantise_checkpoint/link");
  fs::create_symlink(new_folder("quantise_checkpoint/nothing"), link);
  CHECK(error_of(options_of(demo_model(), link, "nf4"), ErrorCode::kOutputConflict) ==
        link.string() + ": is a link to a folder that does not exist; give another folder with -o");
  CHECK(fs::is_symlink(link));
  fs::create_directory(fs::read_symlink(link));
  CHECK(quantise_checkpoint(options_of(demo_model(), link, "nf4")).is_complete);
}

TEST_CASE("a call needs the room of the files that it will write, and no more") {
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_checkpoint/measured"), "nf4");
  options.max_shard_bytes = 1'000'000;
  REQUIRE(quantise_checkpoint(options).is_complete);
  std::int64_t size_bytes = 0;
  std::int64_t headers_bytes = 0;
  for (const auto& [name, content] : files_of(options.output)) {
    if (name != kManifestName) size_bytes += std::ssize(content);
    if (name.ends_with(".safetensors")) headers_bytes += header_bytes(content);
  }
  options.output = new_folder("quantise_checkpoint/no_room");
  // Headers of files of weights are not counted.
  options.free_bytes = [&](const fs::path&) { return size_bytes - headers_bytes - 1; };
  CHECK(contains(error_of(options, ErrorCode::kIo), "; give another folder with -o, or make room"));
  options.free_bytes = [&](const fs::path&) { return size_bytes; };
  CHECK(quantise_checkpoint(options).is_complete);
}

TEST_CASE("an output without a complete file is of no settings yet") {
  QuantiseOptions options =
      options_of(demo_model(), new_folder("quantise_checkpoint/begun"), "nf4");
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.free_bytes = [&](const fs::path&) {
    stop = true;
    return std::nullopt;
  };
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  CHECK(fs::exists(options.output / kManifestName));
  options.stop = nullptr;
  options.format = "int8";
  CHECK(quantise_checkpoint(options).is_complete);
  CHECK(check_tensors(demo_model(), options.output, "int8", false) == 28);
}

TEST_CASE("models that cannot be quantised are refused with what to do") {
  const fs::path output = new_folder("quantise_checkpoint/refused");
  const auto refusal = [&](const fs::path& model, const char* format, ErrorCode code) {
    return error_of(options_of(model, output, format), code);
  };
  CHECK(contains(refusal(demo_model(), "nf5", ErrorCode::kUsage), "did you mean nf4?"));
  CHECK(contains(refusal(demo_model() / "config.json", "nf4", ErrorCode::kUsage),
                 "quantize takes a model's folder"));
  CHECK(contains(refusal(golden("weights"), "nf4", ErrorCode::kBadModel), "holds no config.json"));
  const fs::path quantised = new_folder("quantise_checkpoint/quantised");
  quantise_checkpoint(options_of(demo_model(), quantised, "int8"));
  CHECK(contains(refusal(quantised, "nf4", ErrorCode::kBadModel),
                 "is quantised already (bitsandbytes, 8 bits)"));
  QuantiseOptions options = options_of(demo_model(), output, "int8");
  options.format_options.double_quant = true;
  CHECK(contains(error_of(options, ErrorCode::kUsage), "--double-quant is for nf4 and fp4"));
  // Its matrices have 64 and 112 columns.
  const DrawnCheckpoint small(golden("qwen3_vl/no_deepstack"));
  CHECK(contains(refusal(small.path(), "w4a16", ErrorCode::kUnavailable),
                 "groups of 128 do not divide its 112 columns"));
  CHECK_FALSE(fs::exists(output));
}

TEST_CASE(
    "a checkpoint that lacks a matrix, or has a number that is not finite, is refused by name") {
  const fs::path model = new_folder("quantise_checkpoint/broken");
  fs::copy(demo_model(), model);
  const std::string name = "language_model.model.layers.2.mlp.up_proj.weight";
  const std::string file = read_whole_file(model / "model.safetensors");
  std::string missing = file;
  missing.replace(missing.find(name), name.size(), name.substr(0, name.size() - 1) + "X");
  std::ofstream(model / "model.safetensors", std::ios::binary) << missing;
  CHECK(contains(
      error_of(options_of(model, new_folder("quantise_checkpoint/x"), "nf4"), ErrorCode::kBadModel),
      "tensor \"" + name + "\""));
  std::string infinite = file;
  for (const weights::FileTensor& tensor :
       weights::parse_safetensors(std::as_bytes(std::span(file)), "test")) {
    if (tensor.name != name) continue;
    const auto at =
        static_cast<std::size_t>(tensor.bytes.data() - std::as_bytes(std::span(file)).data());
    infinite[at] = '\x80';
    infinite[at + 1] = '\x7F';
  }
  std::ofstream(model / "model.safetensors", std::ios::binary) << infinite;
  const std::string message =
      error_of(options_of(model, new_folder("quantise_checkpoint/x"), "nf4"), ErrorCode::kBadModel);
  CHECK(contains(message, name));
  CHECK(contains(message, "a weight is not a finite number; download the model again"));
}

TEST_SUITE_END();

}  // namespace caption::quantise
