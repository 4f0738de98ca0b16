// apps/caption-cli/model_report.h: the facts that `inspect` prints of a model, as aligned lines and
// as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/context.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "config/generation_defaults.h"
#include "model/adapter_load.h"
#include "model/blueprint.h"
#include "model/caption_model.h"
#include "model/model_files.h"
#include "plan/plan.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"

namespace caption::cli {

// One fact after the other, each as a line and as a key of a JSON object.
class ModelReport {
 public:
  explicit ModelReport(const std::string& name);

  // Adds a line "name  value" with what printable() (base/display_width.h) makes of the value,
  // which may quote a file; the JSON is the caller's.
  void line(const std::string& name, const std::string& value);
  JsonWriter& json() { return json_; }

  const std::string& text() const { return text_; }
  std::string to_json() const;  // one object on one line

 private:
  std::string text_;
  JsonWriter json_;
};

void report_parameters(const model::Blueprint& blueprint, ModelReport& report);
void report_decoder(const model::DecoderSpec& spec, ModelReport& report);
void report_files(const model::WeightFiles& files, ModelReport& report);
// `vocab` is the number of rows of the embedding.
void report_tokenizer(const text::Tokenizer& tokenizer, std::int64_t vocab, ModelReport& report);
// The frames of a clip and what becomes of them, for clips of `num_frames` frames.
void report_vision(const model::VisionSpec& vision, std::int64_t num_frames, ModelReport& report);
// What generation_config.json sets of the options of a run.
void report_generation(const model::GenerationConfig& config, ModelReport& report);
void report_adapters(const std::vector<model::AdapterSummary>& adapters, ModelReport& report);
void report_adapter_files(const model::AdapterFiles& adapter, ModelReport& report);
void report_projector(const model::ProjectorSummary& projector, ModelReport& report);
void report_gguf(const weights::GgufFile& gguf, ModelReport& report);
// Whether this build runs the model; `refusal` is the error with which `run` would end.
void report_refusal(const std::optional<Error>& refusal, ModelReport& report);

// How a preset would do with the model.
struct PresetFit {
  std::string name;
  std::string missing;  // what this build lacks for the preset: "CUDA kernels, awq weights"
  plan::Plan plan;
  bool lacks_codes = false;   // the files do not hold the codes that the preset's format is
  bool has_codes = false;     // the files hold codes, of which `quantize` makes no others
  bool rounds_codes = false;  // the preset's format would round them a second time
};
void report_presets(const std::vector<PresetFit>& presets, bool is_runnable, ModelReport& report);
// Bytes of the weights as the context's device holds them, with padding (as `plan` counts them),
// and of KV, for every format and dtype that this build holds.
void report_bytes(const Context& context, const model::Blueprint& blueprint, ModelReport& report);
// What the plan says of this machine.
void report_plan(const plan::Plan& plan, ModelReport& report);

}  // namespace caption::cli
