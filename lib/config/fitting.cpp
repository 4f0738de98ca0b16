// Checks whether a clip with its caption fits the model's positions and the KV pages.
#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/units.h"
#include "config/option_names.h"
#include "config/prompt_tokens.h"
#include "config/resolve.h"
#include "kv/page_pool.h"
#include "scheduler/positions.h"
#include "scheduler/scheduler.h"

namespace caption::config {
namespace {

// Token counts of one clip with one prompt.
struct ClipTokens {
  std::int64_t num_frames = 0;
  std::int64_t num_examples = 0;
  PromptTokens prompt = {};
  std::int64_t num_new = 0;

  std::int64_t num_text() const { return prompt.total() - prompt.vision; }
};

ClipTokens count_tokens(const Preset& preset, const model::CaptionModel& model,
                        const model::Conversation& prompt) {
  const video::SamplingOptions sampling = read_options(preset).sampling;
  ClipTokens tokens{.num_frames = sampling.is_by_length() ? 1 : sampling.num_frames,
                    .num_examples = std::ssize(prompt.examples)};
  model::ClipShape clip = {.num_frames = tokens.num_frames};
  // Where tokens depend on the size of the frames, only what no clip can satisfy is refused here.
  if (model.preprocess_spec().smart) clip.frame = {.width_px = 1, .height_px = 1};
  tokens.prompt = count_prompt_tokens(model, prompt, clip);
  tokens.num_new = preset.generation.max_new_tokens;
  return tokens;
}

// Returns text such as "8 frames (128 vision tokens), 2 examples (300 tokens), 13 prompt tokens and
// 128 new tokens".
std::string describe(const ClipTokens& tokens) {
  std::vector<std::string> parts = {counted(tokens.num_frames, "frame") + " (" +
                                    counted(tokens.prompt.vision, "vision token") + ")"};
  if (tokens.num_examples > 0) {
    parts.push_back(counted(tokens.num_examples, "example") + " (" +
                    counted(tokens.prompt.examples, "token") + ")");
  }
  if (tokens.prompt.system > 0) {
    parts.push_back("a system prompt (" + counted(tokens.prompt.system, "token") + ")");
  }
  parts.push_back(counted(tokens.prompt.question, "prompt token"));
  return join(parts) + " and " + counted(tokens.num_new, "new token");
}

// What a prompt has the most tokens of, if that comes before the clip's own question and frames.
std::string advise_on_lead(const ClipTokens& tokens) {
  const PromptTokens& prompt = tokens.prompt;
  const std::int64_t most =
      std::max({prompt.vision, prompt.question, prompt.system, prompt.examples, tokens.num_new});
  if (prompt.examples == most) return "give fewer or shorter examples, or ";
  return prompt.system == most ? "give a shorter system prompt, or " : "";
}

std::int64_t pages_of(const Preset& preset, const ClipTokens& tokens) {
  const bool may_shrink = preset.engine.attention != CompressionMode::kNone;
  return scheduler::pool_pages(
      {.num_prompt_tokens = tokens.prompt.total(),
       .max_new_tokens = tokens.num_new,
       .num_branches = static_cast<std::int32_t>(preset.generation.num_beams),
       .prompt_end = may_shrink ? scheduler::PromptEnd::kOwnStep : scheduler::PromptEnd::kPlain});
}

}  // namespace

void require_fitting_prompts(const Preset& preset, model::CaptionModel& model,
                             const std::vector<model::Conversation>& prompts) {
  const std::int64_t max_positions = model.decoder().spec().max_positions;
  for (const model::Conversation& prompt : prompts) {
    const ClipTokens tokens = count_tokens(preset, model, prompt);
    const std::int64_t num_positions =
        scheduler::num_positions(tokens.prompt.total(), tokens.num_new);
    if (num_positions <= max_positions) continue;
    const std::int64_t most_new = max_positions - tokens.prompt.total() + 1;
    const std::int64_t most_frames = (max_positions + 1 - tokens.num_new - tokens.num_text()) *
                                     tokens.num_frames / tokens.prompt.vision;
    const std::string lead = advise_on_lead(tokens);
    std::string way_out = (lead.empty() ? std::string("shorten the prompt, or ") : "") +
                          "lower --frames or --max-new-tokens";
    if (most_new > 0) {
      way_out = "lower --max-new-tokens to at most " + std::to_string(most_new);
    } else if (most_frames > 0) {
      way_out = "lower --frames to at most " + std::to_string(most_frames);
    }
    throw Error(ErrorCode::kUsage, "the model holds " + counted(max_positions, "position") + "; " +
                                       describe(tokens) + " need " + std::to_string(num_positions) +
                                       " (the last new token needs none); " + lead + way_out);
  }
}

void require_fitting_pages(const Preset& preset, model::CaptionModel& model,
                           model::CaptionModel* draft,
                           const std::vector<model::Conversation>& prompts,
                           std::int64_t kv_cache_bytes) {
  const std::int64_t own_page_bytes = kv_page_bytes(preset, model.decoder().spec());
  const std::int64_t num_pages = kv_cache_bytes / own_page_bytes;
  const std::int64_t page_bytes =
      own_page_bytes + (draft == nullptr ? 0 : kv_page_bytes(preset, draft->decoder().spec()));
  for (const model::Conversation& prompt : prompts) {
    const ClipTokens tokens = count_tokens(preset, model, prompt);
    const std::int64_t needed = pages_of(preset, tokens);
    if (num_pages >= needed) continue;
    const bool is_given = preset.engine.kv_cache_bytes > 0;
    const std::string beams = preset.generation.num_beams > 1
                                  ? " in " + std::to_string(preset.generation.num_beams) + " beams"
                                  : "";
    throw Error(
        is_given ? ErrorCode::kUsage : ErrorCode::kOutOfMemory,
        (is_given ? option_text(preset, "engine.kv_cache_bytes",
                                exact_bytes(preset.engine.kv_cache_bytes)) +
                        " holds "
                  : "the " + format_bytes(num_pages * page_bytes) + " left for KV pages hold ") +
            counted(num_pages, "KV page") + " of " + std::to_string(kv::kPageTokens) +
            (draft == nullptr ? " tokens; " : " tokens of model and draft model; ") +
            describe(tokens) + beams + " need " + std::to_string(needed) + "; " +
            advise_on_lead(tokens) +
            (is_given ? "raise it to at least " + exact_bytes(needed * page_bytes)
                      : std::string("raise --memory-utilization")) +
            ", or lower --frames or --max-new-tokens");
  }
}

void require_least_pages(const Preset& preset, const model::DecoderSpec& spec) {
  const std::int64_t given_bytes = preset.engine.kv_cache_bytes;
  const std::int64_t page_bytes = kv_page_bytes(preset, spec);
  const std::int64_t needed = scheduler::kLeastPoolPages;
  if (given_bytes == 0 || given_bytes >= needed * page_bytes) return;
  throw Error(ErrorCode::kUsage,
              option_text(preset, "engine.kv_cache_bytes", exact_bytes(given_bytes)) + " holds " +
                  counted(given_bytes / page_bytes, "KV page") + " of " +
                  std::to_string(kv::kPageTokens) + " tokens, and an engine needs " +
                  std::to_string(needed) + "; raise it to at least " +
                  exact_bytes(needed * page_bytes));
}

}  // namespace caption::config
