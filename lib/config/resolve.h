// config/resolve.h: converts a preset to the options of the modules.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/machine.h"
#include "base/sha256.h"
#include "config/locations.h"
#include "config/preset.h"
#include "engine/options.h"
#include "model/blueprint.h"
#include "model/caption_model.h"
#include "sampling/sampling_params.h"
#include "video/read_clip.h"
#include "weights/format.h"

namespace caption::config {

// Returns the format in which the model's weights are held: nf4 with double_quant is kNf4Double.
// kAuto must have been replaced by a choice (config/weight_choice.h).
weights::WeightFormat weight_format(const QuantizationSection& quantization);
// Returns the format of KV pages, never kAuto: `auto` means f32 for kF32 weights and bf16 for all
// other formats. kv_dtype() returns its element type.
KvFormat kv_format(const QuantizationSection& quantization);
DType kv_dtype(const QuantizationSection& quantization);
// The tokens that a step may guess for a sequence; 0 without drafts.
std::int32_t max_drafts(const Preset& preset);
// The tokens that a step may guess besides, after prompts (engine::EngineOptions).
std::int64_t max_copied_tokens(const Preset& preset, std::int64_t vocab);

// Returns the requested features that this build lacks, each as a phrase ("beam search").
std::vector<std::string> missing_features(const Preset& preset, bool has_cuda_kernels);
// Throws Error(kUnavailable) listing all of them in one sentence.
void require_available(const Preset& preset, bool has_cuda_kernels);

// Returns what every device can multiply by in the place of 8-bit floats, without rounding codes of
// the model's files a second time: w8a8, or bf16, which keeps them.
weights::WeightFormat format_without_fp8(const model::Blueprint& blueprint);
// Throws Error(kUnavailable) where the device of `context` cannot multiply by weights of the
// format; it names a format that can be taken, for weights without codes or those of the preset's
// model.
void require_products(const Context& context, const QuantizationSection& quantization);
void require_products(const Context& context, const Preset& preset, const Locations& locations);

// Throws Error(kUsage) for options that contradict each other.
void require_consistent(const Preset& preset);

// Whether computed digests of weight files are stored for later runs.
enum class KeepDigests { kYes, kNo };

struct OpenChoices {
  KeepDigests digests = KeepDigests::kYes;
  model::Opening opening = model::Opening::kToRun;
  const std::atomic<bool>* cancelled = nullptr;  // model::OpenOptions::cancelled
};

// Applies video.max_pixels to the tower of `blueprint`, if both are there. Throws as
// vision::set_max_pixels().
void apply_max_pixels(const VideoSection& video, model::Blueprint& blueprint);

// Opens the preset's model or composed model, with its adapters, for `context`; paths are resolved
// by find_model(). Throws Error: kBadModel, kUnavailable, also as require_products(); kUsage for
// the adapters that adapter_sources() refuses, and as apply_max_pixels().
std::unique_ptr<model::CaptionModel> open_model(const Context& context, const Preset& preset,
                                                const Locations& locations,
                                                const OpenChoices& choices = {});

// Throws Error(kUsage) when a prompt with its vision tokens and new tokens needs more positions
// than the model has, so that every clip would fail. If the number of frames depends on the clip's
// length (sampling fps=F), one frame is assumed.
void require_fitting_prompts(const Preset& preset, model::CaptionModel& model,
                             const std::vector<model::Conversation>& prompts);

// Throws when the KV pages of `kv_cache_bytes` (config::kv_cache_bytes(), which leaves out those of
// the draft model) cannot hold one clip with a caption of max_new_tokens, so that every clip would
// fail; frames are counted as above. If the preset sets the size, Error(kUsage) names
// --kv-cache-bytes and the smallest sufficient value; otherwise Error(kOutOfMemory) lists remedies.
// `draft` is the draft model, which has as many pages, or null.
void require_fitting_pages(const Preset& preset, model::CaptionModel& model,
                           model::CaptionModel* draft,
                           const std::vector<model::Conversation>& prompts,
                           std::int64_t kv_cache_bytes);

// Throws Error(kUsage) when the pages of --kv-cache-bytes are fewer than an engine needs for any
// sequence (scheduler::kLeastPoolPages).
void require_least_pages(const Preset& preset, const model::DecoderSpec& spec);

// Bytes of one KV page: K and V of all layers for kv::kPageTokens tokens.
std::int64_t kv_page_bytes(const Preset& preset, const model::DecoderSpec& spec);
// Bytes of the pages that self-drafts have besides (engine::num_guess_pages()).
std::int64_t guess_page_bytes(const Preset& preset, const model::DecoderSpec& spec);

// Memory for KV pages: kv_cache_bytes if the preset sets it; otherwise what max_num_seqs sequences
// of the model's maximum length need, limited to memory_utilization of the machine's memory minus
// `held_bytes` (weights, activations). With a draft model, whose pages have `draft_page_bytes`, it
// is the memory of as many pages of both.
std::int64_t plan_kv_cache_bytes(const Preset& preset, const model::DecoderSpec& spec,
                                 std::int64_t held_bytes, std::int64_t machine_memory_bytes,
                                 std::int64_t draft_page_bytes = 0);

int num_threads(const Preset& preset, const Machine& machine);
// `model_hash` is CaptionModel::content_hash(), which is part of the pages' identity.
engine::EngineOptions engine_options(const Context& context, const Preset& preset,
                                     std::int64_t kv_cache_bytes, const Sha256& model_hash = {});
// Leaves out the stop ids, which the model provides.
sampling::SamplingParams sampling_params(const Preset& preset);
// Throws as sampling::validate() for parameters, with the model's stop ids, that no request of this
// model may have.
void require_valid_sampling(const Preset& preset, model::CaptionModel& model);
video::ReadOptions read_options(const Preset& preset);

}  // namespace caption::config
