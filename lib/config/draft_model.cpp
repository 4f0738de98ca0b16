#include "config/draft_model.h"

#include <filesystem>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "config/preset_blueprint.h"
#include "config/resources.h"
#include "pipeline/pipeline.h"

namespace caption::config {
namespace {

constexpr weights::WeightFormat kFormat = weights::WeightFormat::kBF16;

void require_smaller(const Preset& preset, const Locations& locations) {
  const std::int64_t draft_bytes = model::weight_bytes(
      find_blueprint(preset.speculative.draft_model, locations).blueprint, kFormat);
  const std::int64_t model_bytes =
      model::weight_bytes(find_preset_blueprint(preset.model, locations).blueprint, kFormat);
  if (draft_bytes <= model_bytes) return;
  throw Error(ErrorCode::kUsage, "it is larger than the model it would guess for, in 16 bits " +
                                     format_bytes(draft_bytes) + " and " +
                                     format_bytes(model_bytes) +
                                     "; a draft model saves time only where it is much smaller");
}

void describe_match(const text::VocabularyMatch& match, const std::string& draft) {
  const std::int64_t num_other = match.num_spelled() + match.num_lost();
  if (num_other == 0) return;
  std::string text = "draft model " + draft + ": its vocabulary has " +
                     std::to_string(match.num_same()) + " of the model's " +
                     counted(match.num_same() + num_other, "token") +
                     ", the only ones that it can guess";
  if (match.num_lost() > 0) {
    text += "; after " + counted(match.num_lost(), "token") +
            " that it cannot write a caption has no guesses";
  }
  log_info("config", text);
}

std::unique_ptr<model::CaptionModel> open(const Context& context, const Preset& preset,
                                          const Locations& locations,
                                          const model::CaptionModel& model,
                                          const OpenChoices& choices) {
  require_smaller(preset, locations);
  const DigestCache digests(locations.digests, choices.digests == KeepDigests::kYes
                                                   ? DigestCache::Keeping::kYes
                                                   : DigestCache::Keeping::kNo);
  const bool runs = choices.opening == model::Opening::kToRun;
  const std::filesystem::path path = find_model(preset.speculative.draft_model, locations);
  const auto open_any =
      model::is_language_model(path) ? model::open_language_model : model::open_model;
  auto draft = open_any(context, path, runs ? kFormat : weights::WeightFormat::kF32,
                        {.digests = digests,
                         .opening = choices.opening,
                         .requantises = preset.quantization.requantize,
                         .cancelled = choices.cancelled});
  if (!draft->sees_video()) {
    log_info("config", "draft model " + preset.speculative.draft_model +
                           ": is a language model; it guesses from the question and the caption, "
                           "without the video");
  }
  describe_match(pipeline::match_draft(model, *draft), preset.speculative.draft_model);
  if (preset.video.max_pixels > 0 && draft->preprocess_spec().smart) {
    draft->set_max_pixels(preset.video.max_pixels);
  }
  return draft;
}

}  // namespace

bool has_draft_model(const Preset& preset) {
  return !preset.speculative.draft_model.empty() && max_drafts(preset) > 0;
}

std::unique_ptr<model::CaptionModel> open_draft_model(const Context& context, const Preset& preset,
                                                      const Locations& locations,
                                                      const model::CaptionModel& model,
                                                      const OpenChoices& choices) {
  if (!has_draft_model(preset)) return nullptr;
  try {
    return open(context, preset, locations, model, choices);
  } catch (const Error& error) {
    const std::string& name = preset.speculative.draft_model;
    const std::string message = error.what();
    const bool names_model = message.starts_with(name + ": ");
    throw Error(error.code(), "draft model " + (names_model ? "" : name + ": ") + message);
  }
}

std::int64_t draft_kv_cache_bytes(const Preset& preset, const model::DecoderSpec& model,
                                  std::int64_t kv_cache_bytes, const model::DecoderSpec& draft) {
  return kv_cache_bytes / kv_page_bytes(preset, model) * kv_page_bytes(preset, draft);
}

}  // namespace caption::config
