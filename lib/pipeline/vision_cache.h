// pipeline/vision_cache.h: cache on disk of the vision tokens of clips.
//
// The key is a hash of the clip's content and of the run's vision identity (config/identity.h),
// which together determine the tokens. A hit is bit-identical to decoding and encoding the clip
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"
#include "store/blob_store.h"
#include "tensor/tensor.h"

namespace caption::pipeline {

struct SeenClip {
  Tensor tokens;          // [vision tokens, vision_width] f32; on the host in the functions below
  Hash128 pixel_content;  // hash of the preprocessed pixels
  std::int64_t frames_wanted = 0;
  model::ClipShape shape;
  std::int64_t duration_us = 0;
  std::string suspicion;  // suspicion_of_frames()
  std::vector<std::string> warnings;
};

// Thread-safe.
class VisionCache {
 public:
  // Throws Error(kIo) when the folder cannot be used.
  VisionCache(const VisionCacheOptions& options, model::CaptionModel& model);

  // `content` identifies the clip's bytes (content_of() in internal/stages.h).
  Hash128 key_of(std::string_view content) const;
  // Returns std::nullopt for an entry that is damaged or does not fit the model.
  std::optional<SeenClip> find(const Hash128& key);
  void store(const Hash128& key, const SeenClip& clip);

  store::BlobStoreStats stats() const { return store_.stats(); }

 private:
  const model::CaptionModel& model_;
  std::int64_t width_;  // numbers of a vision token
  Hash128 identity_;
  store::BlobStore store_;
};

// Serialises a clip for the store, and parses it; std::nullopt for malformed bytes. Public for
// tests.
std::vector<std::byte> to_bytes(const SeenClip& clip);
std::optional<SeenClip> parse_seen_clip(std::span<const std::byte> bytes);

}  // namespace caption::pipeline
