// GGUF files made of model folders: those of gguf-py with llama.cpp's rules
// (scripts/make_goldens_gguf_captioners.py) are the oracle for names, bytes and keys, and what is
// read back is what was rounded. scripts/check_gguf_write.py compares with llama.cpp's converter.
#include "weights/gguf_export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"
#include "tests/support/drawn_gguf.h"
#include "tests/weights/gguf_goldens.h"
#include "text/tokenizer.h"
#include "weights/ggml_encode.h"
#include "weights/gguf_config.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"
#include "weights/joined_source.h"
#include "weights/open_source.h"

namespace caption::weights {
namespace {

using testing::DrawnCheckpoint;
using testing::DrawnGguf;

const fs::path kAllGoldens = CAPTION_SOURCE_DIR "/tests/golden";
const fs::path kDemoModel = CAPTION_SOURCE_DIR "/samples/demo-model";

fs::path new_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "gguf_export" / name;
  fs::remove_all(folder);
  return folder;
}

GgufSummary write_gguf_model(const fs::path& model, const fs::path& out, GgufWeights type,
                             const GgufProgress& progress = {},
                             const FreeBytes& free = free_bytes) {
  return GgufExport(model, type).write(out, progress, free);
}

std::size_t num_files(const fs::path& folder) {
  if (!fs::exists(folder)) return 0;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::vector<float> values_of(Source& source, const std::string& name) {
  const ConstView view = source.read(name, *source.shape(name));
  std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
  dispatch_float(view.dtype(), [&](auto tag) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = to_float(view.as<decltype(tag)>()[i]);
    }
  });
  source.release(name);
  return values;
}

std::vector<float> rounded(GgmlType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_bytes(type, std::ssize(values)));
  encode_rows(type, values, bytes);
  std::vector<float> decoded(values.size());
  decode_rows(
      {.type = type, .bytes = bytes, .num_columns = std::ssize(values), .first = 0, .count = 1},
      decoded.data());
  return decoded;
}

std::unique_ptr<Source> open_pair(const GgufSummary& files) {
  std::vector<std::unique_ptr<Source>> sources;
  const auto open = [](const fs::path& path) {
    return std::make_shared<const GgufFile>(GgufFile::open(path));
  };
  sources.push_back(std::make_unique<GgufSource>(open(files.text_file), "model.language_model."));
  sources.push_back(std::make_unique<GgufSource>(open(*files.tower_file), ""));
  return std::make_unique<JoinedSource>(std::move(sources));
}

// The name under which GGUF files give a tensor of a checkpoint.
std::string read_name(const std::string& name) {
  constexpr std::pair<const char*, const char*> kPrefixes[] = {
      {"language_model.model.", "model.language_model."},
      {"language_model.lm_head.", "lm_head."},
      {"visual.", "model.visual."},
      {"multi_modal_projector.", "model.multi_modal_projector."},
      {"image_newline", "model.image_newline"},
      {"vision_tower.embeddings.", "model.vision_tower.embeddings."},
      {"vision_tower.encoder.", "model.vision_tower.encoder."},
      {"model.layers.", "model.language_model.layers."},
      {"model.embed_tokens.", "model.language_model.embed_tokens."},
      {"model.norm.", "model.language_model.norm."}};
  for (const auto& [from, to] : kPrefixes) {
    if (name.starts_with(from)) return to + name.substr(std::strlen(from));
  }
  return name;
}

// Checks that every tensor that is read back is that of the checkpoint, rounded to one of the types
// that the table in the header allows; returns the number of tensors of each.
std::map<GgmlType, int> check_values(Source& checkpoint, Source& written, GgmlType matrices) {
  std::map<GgmlType, int> counts;
  std::size_t num_found = 0;
  for (const std::string& name : checkpoint.names()) {
    const std::string read = read_name(name);
    CAPTURE(name);
    if (!written.has(read)) continue;
    ++num_found;
    const std::vector<float> values = values_of(checkpoint, name);
    const std::vector<float> found = values_of(written, read);
    const bool is_matrix = checkpoint.shape(name)->rank() == 2;
    const bool has_blocks = is_matrix && (*checkpoint.shape(name))[-1] % 32 == 0;
    if (found == values) {
      ++counts[GgmlType::kF32];
      continue;
    }
    std::vector<GgmlType> types = {GgmlType::kF16};
    if (has_blocks) types = {matrices, GgmlType::kQ8_0};
    bool is_found = false;
    for (const GgmlType type : types) {
      if (is_found || found != rounded(type, values)) continue;
      is_found = true;
      ++counts[type];
    }
    CHECK(is_found);
  }
  CHECK(num_found == written.names().size());
  return counts;
}

// The last token is the tokenizer's, as the converter has it; the goldens have that of config.json.
std::string without_eos(std::string config) {
  const std::size_t at = config.find(",\"eos_token_id\":");
  if (at != std::string::npos) config.erase(at, config.find_first_of(",}", at + 1) - at);
  return config;
}

std::string gguf_projector(const GgufFile& file) {
  return file.metadata().get_string("clip.projector_type", "");
}

void check_same_bytes(const fs::path& ours, const fs::path& theirs) {
  const GgufFile found = GgufFile::open(ours);
  const GgufFile expected = GgufFile::open(theirs);
  std::size_t count = 0;
  for (const GgufTensor& tensor : expected.tensors()) {
    // llama.cpp's converter of LLaVA leaves it out: the projector gets what is before it.
    if (tensor.name.starts_with("v.post_ln.") && gguf_projector(expected) == "mlp") continue;
    ++count;
    CAPTURE(std::string(tensor.name));
    const GgufTensor* const other = found.find(tensor.name);
    REQUIRE(other != nullptr);
    CHECK(other->type == tensor.type);
    CHECK(std::equal(other->bytes.begin(), other->bytes.end(), tensor.bytes.begin(),
                     tensor.bytes.end()));
  }
  CHECK(found.tensors().size() == count);
}

// A copy of the demonstration model's folder whose config.json is changed.
fs::path changed_demo(const std::string& name, const std::string& from, const std::string& to) {
  const fs::path folder = new_folder("demo_" + name);
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(kDemoModel)) {
    fs::create_symlink(entry.path(), folder / entry.path().filename());
  }
  std::string config = read_text_file(kDemoModel / "config.json");
  const std::size_t at = config.find(from);
  REQUIRE(at != std::string::npos);
  fs::remove(folder / "config.json");
  std::ofstream(folder / "config.json") << config.replace(at, from.size(), to);
  return folder;
}

TEST_SUITE("weights/gguf_export") {
  TEST_CASE("tensors have the names, types and bytes of gguf-py with the converter's rules") {
    for (const char* const name : {"qwen3_vl", "llava_next_video"}) {
      CAPTURE(std::string(name));
      const DrawnGguf drawn(kAllGoldens / "gguf_captioners" / name);
      const GgufSummary files =
          write_gguf_model(drawn.checkpoint(), new_folder(name), GgufWeights::kF16);
      check_same_bytes(files.text_file, drawn.path() / "model.gguf");
      check_same_bytes(*files.tower_file, drawn.path() / "mmproj-model.gguf");
    }
    const DrawnGguf drawn(kAllGoldens / "gguf_captioners/qwen3_vl_q8_0");
    const GgufSummary files =
        write_gguf_model(drawn.checkpoint(), new_folder("q8_0"), GgufWeights::kQ8_0);
    check_same_bytes(files.text_file, drawn.path() / "model.gguf");
  }

  TEST_CASE("keys give the configuration, the pixels and the tokens of gguf-py's files") {
    for (const char* const name : {"qwen3_vl", "qwen2_5_vl", "internvl"}) {
      CAPTURE(std::string(name));
      const DrawnGguf drawn(kAllGoldens / "gguf_captioners" / name);
      const GgufSummary files =
          write_gguf_model(drawn.checkpoint(), new_folder(name), GgufWeights::kF16);
      const GgufFile text = GgufFile::open(files.text_file);
      const GgufFile tower = GgufFile::open(*files.tower_file);
      const GgufFile other_text = GgufFile::open(drawn.path() / "model.gguf");
      const GgufFile other_tower = GgufFile::open(drawn.path() / "mmproj-model.gguf");
      CHECK(without_eos(gguf_captioner_config(text, tower)) ==
            without_eos(gguf_captioner_config(other_text, other_tower)));
      const JsonObject generation = JsonObject::parse(
          gguf_stored_file(text, kGenerationFile).value(), "generation", ErrorCode::kBadModel);
      CHECK(generation.get_ints("eos_token_id") == std::vector<std::int64_t>{2});
      CHECK(gguf_preprocessor_config(tower) == gguf_preprocessor_config(other_tower));
      std::set<std::string_view> names;
      for (const GgufTensor& tensor : tower.tensors()) names.insert(tensor.name);
      for (const GgufTensor& tensor : other_tower.tensors()) CHECK(names.erase(tensor.name) == 1);
      CHECK(names.empty());
      const auto tokenizer = text::make_tokenizer(gguf_token_tables(text.metadata()));
      const auto folder = text::open_tokenizer(drawn.checkpoint());
      for (const char* const prompt :
           {"이 영상을 설명해 주세요.", "a  b\n\xF0\x9F\x98\x80", "<|im_end|>"}) {
        CHECK(tokenizer->encode(prompt) == folder->encode(prompt));
      }
    }
  }

  TEST_CASE("what is read back is what was rounded, in every family and type") {
    const struct {
      const char* golden;
      const char* tokenizer;  // another golden, copied over the folder's own files
    } kRows[] = {{"qwen2_5_vl/hub_layout", "gguf_captioners/qwen_tokenizer"},
                 {"qwen3_vl/shards_f16", "gguf_captioners/qwen_tokenizer"},
                 {"internvl/byte_level_qwen3", nullptr},
                 {"llava_next_video/yi_bf16", nullptr}};
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.golden));
      const DrawnCheckpoint drawn(kAllGoldens / row.golden);
      if (row.tokenizer != nullptr) {
        fs::remove(drawn.path() / "tokenizer.model");
        fs::copy(kAllGoldens / row.tokenizer, drawn.path(),
                 fs::copy_options::recursive | fs::copy_options::overwrite_existing);
      }
      for (const auto& [type, matrices] : {std::pair{GgufWeights::kF16, GgmlType::kF16},
                                           std::pair{GgufWeights::kQ8_0, GgmlType::kQ8_0},
                                           std::pair{GgufWeights::kQ4_0, GgmlType::kQ4_0}}) {
        const GgufSummary files = write_gguf_model(drawn.path(), new_folder("values"), type);
        const auto checkpoint = open_source(drawn.path());
        const auto written = open_pair(files);
        check_values(*checkpoint, *written, matrices);
        CHECK(files.size_bytes == static_cast<std::int64_t>(fs::file_size(files.text_file) +
                                                            fs::file_size(*files.tower_file)));
      }
    }
  }

  TEST_CASE("the demonstration model is written whole, with rotated rows and its own keys") {
    const GgufSummary files = write_gguf_model(kDemoModel, new_folder("demo"), GgufWeights::kQ4_0);
    CHECK(files.text_file.filename() == "demo-model-Q4_0.gguf");
    CHECK(files.tower_file->filename() == "mmproj-demo-model-Q8_0.gguf");
    CHECK(num_files(files.text_file.parent_path()) == 2);
    CHECK(files.kept_f16.empty());
    const auto checkpoint = open_source(kDemoModel);
    const auto written = open_pair(files);
    const auto counts = check_values(*checkpoint, *written, GgmlType::kQ4_0);
    CHECK(counts.at(GgmlType::kQ4_0) == 30);  // 4 layers of 7, the embedding and the head
    CHECK(counts.at(GgmlType::kQ8_0) == 26);  // 4 layers of 6 and the projector
    const GgufFile text = GgufFile::open(files.text_file);
    const std::string config = gguf_captioner_config(text, GgufFile::open(*files.tower_file));
    check_contains(config, "\"caption_cli_demonstration\":true");
    const auto tokenizer = text::make_tokenizer(gguf_token_tables(text.metadata()));
    const auto folder = text::open_tokenizer(kDemoModel);
    for (const char* const prompt :
         {"USER: <video>\n설명해 주세요. ASSISTANT:", "a <video> b", " c"}) {
      CHECK(tokenizer->encode(prompt) == folder->encode(prompt));
    }
  }

  TEST_CASE("blocks that stay in the file are those of the rows that are read") {
    const GgufSummary files =
        write_gguf_model(kDemoModel, new_folder("blocks"), GgufWeights::kQ4_0);
    const auto source = open_pair(files);
    std::int64_t num_of_4_bits = 0;
    std::int64_t num_of_8_bits = 0;
    std::int64_t num_different = 0;
    for (const std::string& name : source->names()) {
      const std::optional<StoredCodes> codes = source->codes_of(name);
      if (!codes) continue;
      const bool is_4_bit = !codes->layout.is_8_bit;
      const Shape shape = *source->shape(name);
      constexpr std::int64_t kRows = 32;
      for (std::int64_t first = 0; first + kRows <= shape[0]; first += kRows) {
        const QuantisedMatrix borrowed = source->borrow_codes(name, shape, first, kRows);
        if (borrowed.file_codes.empty()) continue;
        ++(is_4_bit ? num_of_4_bits : num_of_8_bits);
        const QuantisedMatrix read = source->read_codes(name, shape, first, kRows);
        REQUIRE(borrowed.file_codes.order == CodeOrder::kBlocks);
        REQUIRE(borrowed.is_4_bit() == is_4_bit);
        REQUIRE(borrowed.file_codes.rows.size() == kRows);
        CHECK(borrowed.codebook == read.codebook);
        const auto row_bytes = static_cast<std::size_t>(shape[1] / 32 * (is_4_bit ? 18 : 34));
        for (std::int64_t n = 0; n < kRows; ++n) {
          const auto* const row = borrowed.file_codes.rows[static_cast<std::size_t>(n)];
          const QuantisedMatrix one =
              codes_of_rows({.type = is_4_bit ? GgmlType::kQ4_0 : GgmlType::kQ8_0,
                             .bytes = std::as_bytes(std::span(row, row_bytes)),
                             .num_columns = shape[1],
                             .first = 0,
                             .count = 1});
          for (std::int64_t k = 0; k < shape[1]; ++k) {
            num_different += one.value(0, k) == read.value(n, k) ? 0 : 1;
          }
        }
      }
      CHECK_THROWS_AS(source->borrow_codes(name, shape, shape[0], kRows), Error);
    }
    CHECK(num_of_4_bits > 0);
    CHECK(num_of_8_bits > 0);
    CHECK(num_different == 0);
  }

  TEST_CASE("models that are incomplete, quantised or without a form are refused in one line") {
    const struct {
      const char* name;
      const char* from;
      const char* to;
      ErrorCode code;
      const char* message;
    } kRows[] = {
        {"layers", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5", ErrorCode::kBadModel,
         "tensor \"language_model.model.layers.4.input_layernorm.weight\" is missing"},
        {"fewer", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 3", ErrorCode::kBadModel,
         "config.json says that there are 3 layers"},
        {"vocab", "\"vocab_size\": 1280", "\"vocab_size\": 1281", ErrorCode::kBadModel,
         "config.json says [1281, 256]"},
        {"heads", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", ErrorCode::kBadModel,
         "whose rows are not those of 3 heads"},
        {"type", "llava_next_video", "florence2", ErrorCode::kUnavailable,
         "model_type \"florence2\": GGUF files are made of models of the types llama, mistral"},
        {"pool", "\"average\"", "\"max\"", ErrorCode::kUnavailable,
         "spatial_pool_mode \"max\" has no form in a GGUF file; average has"},
        {"quantised", "\"tie_word",
         "\"quantization_config\": {\"quant_method\": \"awq\"}, \"tie_word",
         ErrorCode::kUnavailable, "holds quantised weights already"},
        {"rope", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"longrope\"}",
         ErrorCode::kUnavailable, "rope_type \"longrope\" has no form in a GGUF file"}};
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.name));
      const fs::path folder = changed_demo(row.name, row.from, row.to);
      const fs::path out = new_folder("refused");
      const std::string message =
          refusal(row.code, [&] { write_gguf_model(folder, out, GgufWeights::kQ8_0); });
      check_contains(message, row.message);
      check_contains(message, folder.string());
      CHECK(message.find('\n') == std::string::npos);
      CHECK((row.code != ErrorCode::kBadModel || message.ends_with("download the folder again")));
      CHECK(num_files(out) == 0);
    }
    const std::string empty = refusal(ErrorCode::kBadModel, [] {
      write_gguf_model(kAllGoldens, new_folder("refused"), GgufWeights::kF16);
    });
    check_contains(empty, "config.json is missing; GGUF files are made of a model's folder");
  }

  TEST_CASE("a folder whose name is a tower's is refused") {
    const fs::path folder = new_folder("demo-MMPROJ");
    fs::copy(kDemoModel, folder, fs::copy_options::recursive);
    const std::string message = refusal(ErrorCode::kUsage, [&] {
      write_gguf_model(folder, new_folder("refused"), GgufWeights::kQ8_0);
    });
    check_contains(message, folder.string() + ": has \"mmproj\" in its name");
    check_contains(message, "rename the folder");
  }

  TEST_CASE("a file system without room is refused before anything is written") {
    const fs::path out = new_folder("room");
    std::int64_t free = 0;
    const auto write = [&] {
      return write_gguf_model(kDemoModel, out, GgufWeights::kQ8_0, {},
                              [&](const fs::path&) { return free; });
    };
    const std::int64_t size_bytes =
        write_gguf_model(kDemoModel, new_folder("room_enough"), GgufWeights::kQ8_0).size_bytes;
    // Paddings of 31 bytes and the list of tensors, of a few hundred bytes each, are not counted.
    free = size_bytes - 113 * 400;
    const std::string message = refusal(ErrorCode::kIo, write);
    check_contains(message, out.string() + ": the files need ");
    check_contains(message, " are free; give another folder with -o");
    CHECK(num_files(out) == 0);
    // What an interrupted call has left is overwritten.
    std::ofstream(out / "demo-model-Q8_0.gguf.part") << std::string(113 * 400, 'x');
    CHECK(write().size_bytes == size_bytes);
    free = size_bytes;
    CHECK(write().size_bytes == size_bytes);
  }

  TEST_CASE("work that is ended or cannot be written leaves no file that is not whole") {
    const fs::path out = new_folder("ended");
    std::int64_t total = 0;
    const auto end_at = [&](double share) {
      return [&, share](const GgufStep& step) {
        total = step.total_bytes;
        CHECK(step.done_bytes <= step.total_bytes);
        if (static_cast<double>(step.done_bytes) >= share * static_cast<double>(total)) {
          throw std::runtime_error("ended");
        }
      };
    };
    CHECK_THROWS_WITH(write_gguf_model(kDemoModel, out, GgufWeights::kQ8_0, end_at(0.3)), "ended");
    CHECK(!fs::exists(out / "demo-model-Q8_0.gguf"));
    CHECK_THROWS_WITH(write_gguf_model(kDemoModel, out, GgufWeights::kQ8_0, end_at(1.0)), "ended");
    CHECK(num_files(out) == 1);  // the text file, which was whole
    CHECK(GgufFile::open(out / "demo-model-Q8_0.gguf").tensors().size() == 39);
    CHECK(write_gguf_model(kDemoModel, out, GgufWeights::kQ8_0).num_tensors == 113);
    const fs::path file = new_folder("file");
    std::ofstream(file) << "x";
    const std::string message = refusal(
        ErrorCode::kIo, [&] { write_gguf_model(kDemoModel, file / "out", GgufWeights::kF16); });
    check_contains(message, "cannot make the folder: ");
  }
}

}  // namespace
}  // namespace caption::weights
