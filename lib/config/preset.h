// config/preset.h: all options of a run, as set by presets and flags.
//
// A preset is a flat YAML file of at most two levels: sections, and keys in them. Keys, ranges and
// help texts are defined in config/fields.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/default_seed.h"
#include "base/error.h"
#include "drafts/drafter.h"
#include "engine/options.h"
#include "sampling/sampling_params.h"
#include "video/read_clip.h"

namespace caption::config {

using engine::BatchMode;
using DraftMethod = drafts::Method;
using engine::CompressionMode;
using sampling::EarlyStopping;
using video::ColorMatrix;

enum class DeviceType { kAuto, kCpu, kCuda };
// How weights are held (weights/format.h); kAuto: chosen for the machine (config/weight_choice.h).
enum class WeightFormat {
  kAuto,
  kF32,
  kBF16,
  kF16,
  kInt8,
  kInt4,
  kNf4,
  kW8A8,
  kFp8,
  kW4A8,
  kInt4Head4,
  kW4A8Head4,
  kAwq,
  kGptq
};
enum class KvFormat { kAuto, kF32, kBF16, kF16, kInt8 };
// A composed model's projector; kAuto: recognised by its tensors.
enum class ProjectorType { kAuto, kMlp, kPerceiverResampler, kCAbstractor };
// An activation as transformers names it; kAuto: the one that is usual for the projector.
enum class HiddenAct { kAuto, kGelu, kGeluPytorchTanh, kQuickGelu, kRelu, kSilu };

struct DeviceSection {
  DeviceType type = DeviceType::kCpu;
  std::string devices = "first";  // "first", "all" or "0,1" (config/devices.h)
  double memory_utilization = 0.5;
  std::int64_t threads = 0;
  std::string given_by = {};  // the option that chose the type, "--device cuda"; empty: the preset
  friend bool operator==(const DeviceSection&, const DeviceSection&) = default;
};

// A model's folder or name; if `is_composed`, the parts of a composed model.
struct ModelSection {
  std::string path = "samples/demo-model";
  bool is_composed = false;
  std::string vision;
  std::vector<std::int64_t> vision_feature_layer = {-1};
  std::int64_t pooling = 1;
  std::string projector;
  ProjectorType projector_type = ProjectorType::kAuto;
  HiddenAct projector_hidden_act = HiddenAct::kAuto;
  std::int64_t projector_tokens = 0;
  std::int64_t projector_head_dim = 0;
  std::vector<std::string> tensor_names;  // "THEIRS=OURS" or "PART:THEIRS=OURS"
  std::string llm;
  std::vector<std::string> adapter;  // FOLDER, or NAME=FOLDER (config/adapters.h)
  std::string prompt = "{video}{prompt}";
  std::string system_template;
  std::string example_end;
  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

struct QuantizationSection {
  WeightFormat weights = WeightFormat::kBF16;
  bool double_quant = false;
  bool requantize = false;
  KvFormat kv_cache = KvFormat::kAuto;
  friend bool operator==(const QuantizationSection&, const QuantizationSection&) = default;
};

struct EngineSection {
  BatchMode batching = BatchMode::kContinuous;
  std::int64_t max_num_seqs = scheduler::kDefaultMaxSeqs;
  std::int64_t max_num_batched_tokens = scheduler::kDefaultMaxBatchedTokens;
  bool chunked_prefill = true;
  bool prefix_cache = true;
  CompressionMode attention = CompressionMode::kNone;
  std::int64_t attention_keep_tokens = 512;
  double attention_threshold = 0.01;
  std::int64_t kv_cache_bytes = 0;
  std::int64_t kv_host_bytes = 2LL << 30;
  std::string kv_cache_dir;
  std::int64_t kv_cache_dir_bytes = 16LL << 30;
  friend bool operator==(const EngineSection&, const EngineSection&) = default;
};

struct SpeculativeSection {
  DraftMethod method = DraftMethod::kNone;
  std::vector<std::string> draft_from;  // files of captions or references
  std::string draft_model;
  bool draft_video = true;
  std::int64_t num_draft_tokens = 8;
  bool adaptive = true;
  friend bool operator==(const SpeculativeSection&, const SpeculativeSection&) = default;
};

struct GenerationSection {
  std::string prompt;
  std::string system;
  std::vector<std::string> examples;  // JSON objects (config/examples.h)
  std::int64_t max_new_tokens = 128;
  std::int64_t min_new_tokens = 0;
  double temperature = 0.0;
  double top_p = 1.0;
  std::int64_t top_k = 50;
  double repetition_penalty = 1.0;
  std::int64_t no_repeat_ngram_size = 0;
  std::int64_t num_beams = 1;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::vector<std::string> stop;
  std::int64_t num_logprobs = -1;
  std::int64_t seed = kDefaultSeed;
  friend bool operator==(const GenerationSection&, const GenerationSection&) = default;
};

struct VideoSection {
  std::int64_t num_frames = 8;
  std::string sampling = "arange";
  std::int64_t max_pixels = 0;
  std::int64_t max_frame_pixels = 64LL << 20;
  double decode_timeout_s = 120;
  ColorMatrix color_matrix = ColorMatrix::kAuto;
  friend bool operator==(const VideoSection&, const VideoSection&) = default;
};

// How a value was given, for messages (config/option_names.h).
struct Origin {
  std::string name;             // "--num-beams"; "generation.num_beams" where a file gives it
  std::string separator = " ";  // stands between name and value; ": " where a file gives it
  std::string place = {};       // follows the value: " (own.yaml:3:14)", " of --quality"
};

struct Preset {
  std::string name;  // for messages and manifests; not stored in the file
  DeviceSection device;
  ModelSection model;
  QuantizationSection quantization;
  EngineSection engine;
  SpeculativeSection speculative;
  GenerationSection generation;
  VideoSection video;
  // Keys ("generation.top_k") whose values came from a file or a flag. The others have the defaults
  // above or the model's (config/generation_defaults.h).
  std::set<std::string, std::less<>> given;
  std::map<std::string, Origin, std::less<>> origins;  // every key is in `given`, too

  // Compares the name and the values, but neither `given` nor `origins`.
  friend bool operator==(const Preset& a, const Preset& b) {
    const auto values = [](const Preset& preset) {
      return std::tie(preset.name, preset.device, preset.model, preset.quantization, preset.engine,
                      preset.speculative, preset.generation, preset.video);
    };
    return values(a) == values(b);
  }
};

inline constexpr std::string_view kExamplesKey = "generation.examples";

}  // namespace caption::config
