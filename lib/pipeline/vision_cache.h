// pipeline/vision_cache.h: vision tokens of clips that were seen before, on disk.
//
// The key is what decides them: the content of the clip, and the run's vision identity
// (config/identity.h). A hit gives what decoding and encoding would have given, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "kv/disk_store.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"
#include "tensor/tensor.h"

namespace caption::pipeline {

struct SeenClip {
  Tensor tokens;          // [vision tokens, hidden] f32
  Hash128 pixel_content;  // of the preprocessed pixels
  std::int64_t frames_wanted = 0;
  std::int64_t frames_used = 0;
  std::int64_t duration_us = 0;
  std::string suspicion;  // suspicion_of_frames()
  std::vector<std::string> warnings;
};

// Thread-safe.
class VisionCache {
 public:
  // Throws Error(kIo) when the folder cannot be used.
  VisionCache(const VisionCacheOptions& options, model::CaptionModel& model);

  // `content`: what stands for the clip's bytes.
  Hash128 key_of(std::string_view content) const;
  // What is not exactly as it was stored, or does not fit the model, is not found.
  std::optional<SeenClip> find(const Hash128& key);
  void store(const Hash128& key, const SeenClip& clip);

  kv::DiskStoreStats stats() const { return store_.stats(); }

 private:
  const model::CaptionModel& model_;
  std::int64_t hidden_;
  Hash128 identity_;
  kv::DiskStore store_;
};

// The bytes of a clip in the store, and back; std::nullopt for bytes that are none. For tests.
std::vector<std::byte> to_bytes(const SeenClip& clip);
std::optional<SeenClip> parse_seen_clip(std::span<const std::byte> bytes);

}  // namespace caption::pipeline
