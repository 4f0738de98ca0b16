// config/draft_model.h: the smaller model that guesses tokens (engine/draft_decoder.h).
#pragma once

#include <cstdint>
#include <memory>

#include "backend/context.h"
#include "config/locations.h"
#include "config/preset.h"
#include "config/resolve.h"
#include "model/caption_model.h"

namespace caption::config {

// Whether the preset's drafts come from a draft model, too.
bool has_draft_model(const Preset& preset);

// Opens speculative.draft_model for `context` with 16-bit weights, or returns null without one.
// video.max_pixels limits its frames where it can. Throws Error with a sentence that names the
// draft model: kUsage for one that is larger than the preset's model, or whose vocabulary has no
// token of that of `model`; otherwise as open_model(). Logs how much of the vocabulary it has, if
// it is another one. To be checked only, its weights stay as they are stored.
std::unique_ptr<model::CaptionModel> open_draft_model(const Context& context, const Preset& preset,
                                                      const Locations& locations,
                                                      const model::CaptionModel& model,
                                                      const OpenChoices& choices = {});

// Memory for the draft model's KV pages: as many as the model has in `kv_cache_bytes`.
std::int64_t draft_kv_cache_bytes(const Preset& preset, const model::DecoderSpec& model,
                                  std::int64_t kv_cache_bytes, const model::DecoderSpec& draft);

}  // namespace caption::config
