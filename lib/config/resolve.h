// config/resolve.h: from a preset to the rooms' own options.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/machine.h"
#include "base/sha256.h"
#include "config/preset.h"
#include "engine/options.h"
#include "model/caption_model.h"
#include "sampling/sampling_params.h"
#include "video/read_clip.h"

namespace caption::config {

// How the model holds its weights.
model::WeightType weight_type(const Preset& preset);

// What the preset asks for and this build does not have, each as a phrase ("beam search").
std::vector<std::string> missing_features(const Preset& preset, bool has_cuda_kernels);
// Throws Error(kUnavailable) with all of them in one sentence.
void require_available(const Preset& preset, bool has_cuda_kernels);

// Throws Error(kUsage) for options that contradict each other.
void require_consistent(const Preset& preset);

// Whether digests of weight files that are computed are kept for the next start.
enum class KeepDigests { kYes, kNo };

// Opens the model or the composed model that the preset names; paths as find_model() resolves them.
// Throws Error: kBadModel, kUnavailable.
std::unique_ptr<model::CaptionModel> open_model(const Preset& preset,
                                                const std::filesystem::path& preset_folder,
                                                KeepDigests keep = KeepDigests::kYes);

// Throws Error(kUsage) when a prompt with its vision tokens and the new tokens needs more positions
// than the model has, so that every clip would fail. Where the number of frames is a matter of each
// clip's length (sampling fps=F), one frame is counted.
void require_fitting_prompts(const Preset& preset, model::CaptionModel& model,
                             const std::vector<std::string>& prompts);

// Throws when the KV pages of `kv_cache_bytes` (plan_kv_cache_bytes()) cannot hold one clip with a
// caption of max_new_tokens, so that every clip would fail; frames are counted as above. Error(
// kUsage) names --kv-cache-bytes and the least that is enough where the preset sets it, Error(
// kOutOfMemory) says what would help where the machine leaves too little.
void require_fitting_pages(const Preset& preset, model::CaptionModel& model,
                           const std::vector<std::string>& prompts, std::int64_t kv_cache_bytes);

// Bytes of a KV page: K and V of all layers for kv::kPageTokens tokens.
std::int64_t kv_page_bytes(const Preset& preset, const model::DecoderSpec& spec);

// Memory for KV pages: what max_num_seqs sequences of the model's longest length need, at most
// memory_utilization of the machine less `held_bytes` (weights, activations); or kv_cache_bytes
// when the preset sets it.
std::int64_t plan_kv_cache_bytes(const Preset& preset, const model::DecoderSpec& spec,
                                 std::int64_t held_bytes, std::int64_t machine_memory_bytes);

int num_threads(const Preset& preset, const Machine& machine);
// `model_hash`: CaptionModel::content_hash(), for the identity of pages.
engine::EngineOptions engine_options(const Preset& preset, std::int64_t kv_cache_bytes,
                                     const Sha256& model_hash = {});
// Without stop ids: those are the model's.
sampling::SamplingParams sampling_params(const Preset& preset);
video::ReadOptions read_options(const Preset& preset);

}  // namespace caption::config
