#include "weights/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/open_file.h"
#include "base/units.h"
#include "tensor/dtype.h"
#include "text/export_tokenizer.h"
#include "weights/ggml_encode.h"
#include "weights/gguf_config.h"
#include "weights/gguf_writer.h"
#include "weights/internal/export_config.h"
#include "weights/internal/export_names.h"
#include "weights/internal/export_rows.h"
#include "weights/internal/export_tokens.h"
#include "weights/internal/export_tower.h"
#include "weights/internal/safetensors.h"
#include "weights/open_source.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

// Numbers of general.file_type and general.quantization_version.
constexpr std::uint32_t kMostlyF16 = 1;
constexpr std::uint32_t kMostlyQ4_0 = 2;
constexpr std::uint32_t kMostlyQ8_0 = 7;
constexpr std::uint32_t kQuantizationVersion = 2;

std::uint32_t file_type_of(GgufWeights type) {
  switch (type) {
    case GgufWeights::kF16: return kMostlyF16;
    case GgufWeights::kQ8_0: return kMostlyQ8_0;
    case GgufWeights::kQ4_0: return kMostlyQ4_0;
  }
  return kMostlyF16;
}

// The type of a tensor; see the table in the header.
GgmlType type_of(const GgufTensorHeader& tensor, GgufWeights type) {
  const std::string_view name = tensor.name;
  if (tensor.extents.size() <= 1 || name.ends_with("_norm.weight")) return GgmlType::kF32;
  if (name.find(".patch_embd.weight") != std::string_view::npos) {
    return type == GgufWeights::kF16 ? GgmlType::kF16 : GgmlType::kF32;
  }
  if (name.find(".position_embd.") != std::string_view::npos || !name.ends_with(".weight")) {
    return GgmlType::kF32;
  }
  constexpr std::int64_t kBlock = 32;
  if (type == GgufWeights::kF16 || tensor.extents.back() % kBlock != 0) return GgmlType::kF16;
  return type == GgufWeights::kQ8_0 ? GgmlType::kQ8_0 : GgmlType::kQ4_0;
}

// A file that is to be written.
struct FilePlan {
  std::string name;
  GgufFields fields;
  std::vector<ExportedTensor> tensors;

  std::int64_t data_bytes() const {
    std::int64_t bytes = 0;
    for (const ExportedTensor& tensor : tensors) {
      bytes += static_cast<std::int64_t>(tensor.header.size_bytes());
    }
    return bytes;
  }
};

void set_types(GgufWeights type, FilePlan& plan, std::vector<std::string>& kept_f16) {
  for (ExportedTensor& tensor : plan.tensors) {
    tensor.header.type = type_of(tensor.header, type);
    if (type != GgufWeights::kF16 && tensor.header.type == GgmlType::kF16) {
      kept_f16.push_back(tensor.header.name);
    }
  }
}

// "1.2B" for the number of parameters, of at least two digits. Source: gguf-py 0.19, utility.py.
std::string size_label(const std::vector<ExportedTensor>& tensors) {
  double count = 0;
  for (const ExportedTensor& tensor : tensors) {
    const std::vector<std::int64_t>& extents = tensor.header.extents;
    count += std::accumulate(extents.begin(), extents.end(), 1.0,
                             [](double a, std::int64_t b) { return a * static_cast<double>(b); });
  }
  constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {0, 'K'}};
  const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                 [&](const auto& candidate) { return count > candidate.first; });
  const auto [above, letter] = unit == std::end(kUnits) ? kUnits[3] : *unit;
  const double scaled = count / (above == 0 ? 1e3 : above);
  const double whole = std::nearbyint(scaled);
  const int digits = whole < 1 ? 2 : whole < 10 ? 1 : 0;
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f%c", digits, scaled, letter);
  return text;
}

// The name of the folder, also of "model/" and ".".
std::string name_of(const fs::path& folder) {
  std::error_code ignored;
  fs::path path = fs::weakly_canonical(folder, ignored);
  if (path.filename().empty()) path = path.parent_path();
  const std::string name = path.filename().string();
  return name.empty() ? "model" : name;
}

std::string file_name(const std::string& name, GgufWeights type) {
  return name + "-" + std::string(gguf_weights_name(type)) + ".gguf";
}

GgufFields general_fields(std::string_view architecture, std::string_view kind,
                          const std::string& name, const std::vector<ExportedTensor>& tensors) {
  GgufFields fields;
  fields.add_text("general.architecture", architecture)
      .add_text("general.type", kind)
      .add_text("general.name", name)
      .add_text("general.size_label", size_label(tensors));
  return fields;
}

}  // namespace

struct GgufExport::Plan {
  fs::path model_folder;
  std::unique_ptr<Source> source;
  FilePlan text;
  std::optional<FilePlan> tower;
  std::vector<std::string> kept_f16;
  std::int64_t total_bytes() const { return text.data_bytes() + (tower ? tower->data_bytes() : 0); }
  std::int64_t num_tensors() const {
    return std::ssize(text.tensors) + (tower ? std::ssize(tower->tensors) : 0);
  }
};

namespace {

using Plan = GgufExport::Plan;

void check_embedding(const Source& source, const ExportedModel& model,
                     const std::vector<ExportedTensor>& tensors) {
  for (const ExportedTensor& tensor : tensors) {
    if (tensor.header.name != "token_embd.weight") continue;
    const Shape expected = {model.text.vocab, model.text.hidden};
    if (tensor.shape == expected) return;
    throw Error(ErrorCode::kBadModel, source.name() + ": tensor " + quote_name(tensor.source) +
                                          " has shape " + tensor.shape.to_string() +
                                          "; config.json says " + expected.to_string() +
                                          ": download the folder again");
  }
}

void add_file(std::string_view name, const std::string& text, GgufFields& fields) {
  fields.add_text(gguf_key_of_file(name), text);
}

// Adds generation_config.json. The ids that end a caption, where only config.json has them, are
// added to its text: a GGUF file has the tokenizer's.
void add_generation_file(const ExportedModel& model, const fs::path& model_folder,
                         GgufFields& fields) {
  const fs::path path = model_folder / kGenerationFile;
  std::string text = is_present(path) ? read_model_file(path) : "{}";
  const JsonObject config = JsonObject::parse(text, path.string(), ErrorCode::kBadModel);
  const std::vector<std::string> keys = config.keys();
  std::string ids;
  for (const std::int64_t id : model.text_config.get_ints("eos_token_id")) {
    ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  }
  if (!ids.empty() && std::find(keys.begin(), keys.end(), "eos_token_id") == keys.end()) {
    const char* const separator = keys.empty() ? "" : ",";
    text.insert(text.find('{') + 1, "\"eos_token_id\": [" + ids + "]" + separator);
  } else if (!is_present(path)) {
    return;
  }
  add_file(kGenerationFile, text, fields);
}

void add_processor_files(const fs::path& model_folder, GgufFields& fields) {
  for (const std::string_view name : kProcessorFiles) {
    const fs::path path = model_folder / name;
    if (!is_present(path)) continue;
    const std::string text = read_model_file(path);
    JsonObject::parse(text, path.string(), ErrorCode::kBadModel);
    add_file(name, text, fields);
  }
}

Plan make_plan(const fs::path& model_folder, GgufWeights type) {
  const ExportedModel model = read_exported_model(model_folder);
  Plan plan;
  plan.model_folder = model_folder;
  plan.source = open_source(model_folder);
  const std::string name = name_of(model_folder);
  const bool has_tower = model.family != ExportFamily::kText;
  GgufFields tower_fields;
  std::optional<ExportedTower> tower;
  if (has_tower) tower = read_exported_tower(model, model_folder, tower_fields);
  ExportedTensors tensors = assign_tensors(*plan.source, model, tower ? &*tower : nullptr);
  check_embedding(*plan.source, model, tensors.text);
  plan.text.name = file_name(name, type);
  plan.text.fields = general_fields(model.text.architecture, "model", name, tensors.text);
  add_text_fields(model.text, plan.text.fields);
  plan.text.fields.add("general.file_type", file_type_of(type))
      .add("general.quantization_version", kQuantizationVersion);
  add_token_fields(model, model_folder, plan.text.fields);
  add_generation_file(model, model_folder, plan.text.fields);
  plan.text.tensors = std::move(tensors.text);
  set_types(type, plan.text, plan.kept_f16);
  if (!tower) return plan;
  // The towers of 4-bit models have 8 bits, as in the pairs of files that llama.cpp's makers
  // publish.
  const GgufWeights tower_type = type == GgufWeights::kQ4_0 ? GgufWeights::kQ8_0 : type;
  plan.tower.emplace();
  plan.tower->name = "mmproj-" + file_name(name, tower_type);
  plan.tower->fields = general_fields("clip", "mmproj", name, tensors.tower);
  plan.tower->fields.add("general.file_type", file_type_of(tower_type));
  plan.tower->fields.append(tower_fields);
  add_processor_files(model_folder, plan.tower->fields);
  plan.tower->fields.add("general.quantization_version", kQuantizationVersion);
  plan.tower->tensors = std::move(tensors.tower);
  set_types(tower_type, *plan.tower, plan.kept_f16);
  return plan;
}

std::vector<GgufTensorHeader> headers_of(const FilePlan& plan) {
  std::vector<GgufTensorHeader> headers;
  for (const ExportedTensor& tensor : plan.tensors) headers.push_back(tensor.header);
  return headers;
}

void require_unchanged(const Source& source) {
  if (const auto changed = source.find_changed_file()) {
    throw Error(ErrorCode::kBadModel, *changed);
  }
}

// One call of GgufExport::write().
struct Writing {
  const fs::path& folder;
  Source& source;
  const GgufProgress& progress;
  GgufKeeper* keeper;  // may be null
  GgufStep step;
  std::int64_t tensors_kept = 0;

  // Whether an earlier call made the whole file, with the same keys and tensors.
  bool has(const FilePlan& plan) const {
    return keeper != nullptr &&
           GgufWriter::is_begun(folder / plan.name, plan.fields, headers_of(plan)) &&
           keeper->has_file(plan.name);
  }
  // Counts the first `count` tensors of a file as kept.
  void pass(const FilePlan& plan, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      step.total_bytes -= static_cast<std::int64_t>(plan.tensors[i].header.size_bytes());
    }
    step.done_tensors += static_cast<std::int64_t>(count);
    tensors_kept += static_cast<std::int64_t>(count);
  }
};

void write_file(const FilePlan& plan, Writing& call) {
  const std::string unfinished = plan.name + GgufWriter::kUnfinished;
  GgufKeeper* const keeper = call.keeper;
  GgufWriter writer(call.folder / plan.name, plan.fields, headers_of(plan),
                    keeper == nullptr ? 0 : keeper->kept_bytes(unfinished));
  call.pass(plan, writer.num_kept());
  for (std::size_t i = writer.num_kept(); i < plan.tensors.size(); ++i) {
    const ExportedTensor& tensor = plan.tensors[i];
    call.step.tensor = tensor.header.name;
    write_tensor(tensor, call.source, [&](std::span<const std::byte> bytes) {
      writer.write(bytes);
      call.step.done_bytes += std::ssize(bytes);
      if (call.progress) call.progress(call.step);
    });
    ++call.step.done_tensors;
    if (keeper == nullptr) continue;
    require_unchanged(call.source);
    writer.keep();
    keeper->keep_part(unfinished, writer.size_bytes());
  }
  require_unchanged(call.source);
  writer.finish();
  if (keeper != nullptr) keeper->keep_file(plan.name, unfinished);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && fs::is_directory(folder, error)) return;
  throw Error(ErrorCode::kIo, folder.string() + ": cannot make the folder: " +
                                  (error ? error.message() : "a file of this name is there"));
}

// The bytes that writing a file takes from the file system, less the padding: what an interrupted
// call has left of it is overwritten, a whole file of its name only at the end.
std::int64_t bytes_needed(const fs::path& folder, const FilePlan& plan) {
  std::error_code error;
  const std::uintmax_t left = fs::file_size(folder / (plan.name + GgufWriter::kUnfinished), error);
  const std::int64_t written = plan.data_bytes() + std::ssize(plan.fields.bytes());
  return written - (error ? 0 : static_cast<std::int64_t>(left));
}

void require_space(const fs::path& folder, const std::vector<const FilePlan*>& missing,
                   const FreeBytes& free) {
  const std::optional<std::int64_t> available = free(folder);
  std::int64_t needed = 0;
  for (const FilePlan* const plan : missing) needed += bytes_needed(folder, *plan);
  if (!available || *available >= needed) return;
  throw Error(ErrorCode::kIo, folder.string() + ": the files need " + format_bytes(needed) +
                                  ", and " + format_bytes(*available) +
                                  " are free; give another folder with -o, or make room");
}

// The file of a vision tower is known by this part of its name.
void require_text_name(const fs::path& model_folder, const std::string& name) {
  if (to_lower_ascii(name).find("mmproj") == std::string::npos) return;
  throw Error(
      ErrorCode::kUsage,
      model_folder.string() +
          ": has \"mmproj\" in its name, by which the GGUF file of a vision tower is known; "
          "rename the folder, after which the files are named");
}

}  // namespace

std::string_view gguf_weights_name(GgufWeights type) {
  switch (type) {
    case GgufWeights::kF16: return "F16";
    case GgufWeights::kQ8_0: return "Q8_0";
    case GgufWeights::kQ4_0: return "Q4_0";
  }
  return "?";
}

GgufExport::GgufExport(const fs::path& model_folder, GgufWeights type) {
  if (is_quantised_folder(model_folder)) {
    throw Error(ErrorCode::kUnavailable,
                model_folder.string() +
                    ": holds quantised weights already (quantization_config of config.json); GGUF "
                    "files are made of the model in bf16, f16 or f32");
  }
  plan_ = std::make_unique<Plan>(make_plan(model_folder, type));
  require_text_name(model_folder, plan_->text.name);
}

GgufExport::~GgufExport() = default;

std::set<std::string> GgufExport::file_names() const {
  std::set<std::string> names = {plan_->text.name};
  if (plan_->tower) names.insert(plan_->tower->name);
  for (const std::string& name : std::set<std::string>(names)) {
    names.insert(name + GgufWriter::kUnfinished);
  }
  return names;
}

Sha256 GgufExport::content_hash(const DigestCache& digests) const {
  return plan_->source->content_hash(digests);
}

GgufSummary GgufExport::write(const fs::path& out_folder, const GgufProgress& progress,
                              const FreeBytes& free, GgufKeeper* keeper) {
  const Plan& plan = *plan_;
  make_folder(out_folder);
  Writing call{.folder = out_folder,
               .source = *plan.source,
               .progress = progress,
               .keeper = keeper,
               .step = {.tensor = {},
                        .done_bytes = 0,
                        .total_bytes = plan.total_bytes(),
                        .done_tensors = 0,
                        .total_tensors = plan.num_tensors()}};
  std::vector<const FilePlan*> missing;
  for (const FilePlan* const file : {&plan.text, plan.tower ? &*plan.tower : nullptr}) {
    if (file == nullptr) continue;
    if (call.has(*file)) {
      call.pass(*file, file->tensors.size());
    } else {
      missing.push_back(file);
    }
  }
  require_space(out_folder, missing, free);
  for (const FilePlan* const file : missing) write_file(*file, call);
  GgufSummary summary;
  summary.text_file = out_folder / plan.text.name;
  if (plan.tower) summary.tower_file = out_folder / plan.tower->name;
  summary.kept_f16 = plan.kept_f16;
  summary.num_tensors = plan.num_tensors();
  summary.tensors_kept = call.tensors_kept;
  summary.size_bytes = static_cast<std::int64_t>(fs::file_size(summary.text_file));
  if (summary.tower_file) {
    summary.size_bytes += static_cast<std::int64_t>(fs::file_size(*summary.tower_file));
  }
  return summary;
}

}  // namespace caption::weights
