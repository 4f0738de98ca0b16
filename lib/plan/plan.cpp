#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/math.h"
#include "base/units.h"
#include "kv/page_pool.h"
#include "model/step_scratch.h"
#include "scheduler/positions.h"
#include "scheduler/scheduler.h"

namespace caption::plan {
namespace {

using model::DecoderSpec;

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kSamplerBytesPerId = 24;  // sampling/sampler.h

const DecoderSpec& text_of(const PlanInput& input) { return *input.model.text; }

// The layers of a card round their inputs, as those of this tier of the CPU do.
Context rounding_context(const PlanInput& input) {
  return input.device == PlanDevice::kHost ? input.context
                                           : Context{.cpu_tier = CpuTier::kAvx512Bf16};
}

std::int64_t prompt_tokens(const Plan& plan) {
  return plan.vision_tokens + plan.input.prompt_tokens;
}

// kF32 means the numbers of the file, which may have 16 bits.
weights::WeightFormat stored_format(const PlanInput& input, weights::WeightFormat format) {
  const bool is_16_bit =
      format == weights::WeightFormat::kF32 && input.model.is_stored_in_16_bits();
  return is_16_bit ? weights::WeightFormat::kBF16 : format;
}

// Bytes of the model's weights as a run with this format would hold them.
std::int64_t held_bytes(const PlanInput& input, weights::WeightFormat format) {
  return input.device == PlanDevice::kHost
             ? model::placed_bytes(input.context, input.model, format)
             : model::weight_bytes(input.model, stored_format(input, format));
}

PlannedStep plan_step(const PlanInput& input, const StepWork& work) {
  PlannedStep step;
  step.cost = cost_of(input.model, stored_format(input, input.weights), input.kv_dtype, work);
  step.cost.flops += 2 * work.new_tokens * input.adapters.multiply_adds_per_token;
  step.cost.bytes += work.steps * as_double(input.adapters.size_bytes);
  step.seconds = step.cost.seconds(input.rates.bytes_per_s, input.rates.flops_per_s);
  step.is_bound_by_bandwidth =
      step.cost.is_bound_by_bandwidth(input.rates.bytes_per_s, input.rates.flops_per_s);
  return step;
}

void plan_weights(Plan& plan) {
  const PlanInput& input = plan.input;
  plan.parameters = model::count_parameters(input.model);
  plan.weight_bytes = held_bytes(input, input.weights);
  for (const weights::WeightFormat format : weights::all_weight_formats()) {
    plan.weight_bytes_by_format.push_back({format, held_bytes(input, format)});
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    plan.kv_bytes_by_dtype.push_back({dtype, model::kv_token_bytes(text_of(input), dtype)});
  }
  plan.token_bytes = model::kv_token_bytes(text_of(input), input.kv_dtype);
  if (!input.draft.has_value()) return;
  plan.draft_weight_bytes = model::weight_bytes(*input.draft, weights::WeightFormat::kBF16);
  plan.draft_token_bytes = model::kv_token_bytes(*input.draft->text, input.kv_dtype);
}

void plan_tokens(Plan& plan) {
  const PlanInput& input = plan.input;
  std::int64_t text_tokens = input.prompt_tokens;
  if (input.model.vision.has_value()) {
    const model::VisionSpec& vision = *input.model.vision;
    const model::ClipShape clip = {.num_frames = input.num_frames, .frame = input.frame};
    const std::int64_t images = model::num_images(vision, input.num_frames);
    plan.vision_tokens = model::num_vision_tokens(vision, clip);
    text_tokens += images * vision.text_tokens_per_image;
    plan.vision_flops = model::encoder_flops(vision, clip);
    plan.vision_bytes =
        model::encoder_scratch_bytes(rounding_context(input), vision, clip, input.weights);
  }
  plan.input.prompt_tokens = text_tokens;
  plan.video_tokens = prompt_tokens(plan) + input.output_tokens;
  plan.pages_per_video = scheduler::pool_pages(
      {.num_prompt_tokens = prompt_tokens(plan),
       .max_new_tokens = input.output_tokens,
       .num_branches = static_cast<std::int32_t>(input.num_beams),
       .prompt_end = input.is_prompt_compressed ? scheduler::PromptEnd::kOwnStep
                                                : scheduler::PromptEnd::kPlain});
}

void plan_activations(Plan& plan) {
  const DecoderSpec& text = text_of(plan.input);
  plan.scratch_bytes = model::decoder_scratch_bytes(
      plan.input.device == PlanDevice::kHost ? Device::kCpu : Device::kCuda, text, plan.step_tokens,
      plan.input.num_logit_rows(), plan.input.adapters.max_rank);
  const std::int64_t rows = plan.input.num_logit_rows();
  const CardBytes card = card_bytes(text, plan.step_tokens, rows, plan.input.kv_dtype);
  plan.logits_bytes = plan.input.device == PlanDevice::kHost
                          ? text.vocab * (kFloatBytes * (rows + 1) + kSamplerBytesPerId)
                          : card.logits;
  if (plan.input.device == PlanDevice::kCard) plan.graph_bytes = card.graphs + card.padding_page;
  if (plan.input.has_self_drafts) {
    plan.guess_page_bytes = plan.input.max_num_seqs * kv::pages_for_tokens(plan.input.max_drafts) *
                            kv::kPageTokens * plan.token_bytes;
  }
  if (!plan.input.draft.has_value()) return;
  const DecoderSpec& draft = *plan.input.draft->text;
  plan.scratch_bytes += model::decoder_scratch_bytes(
      plan.input.device == PlanDevice::kHost ? Device::kCpu : Device::kCuda, draft,
      plan.input.max_num_batched_tokens, plan.input.max_num_seqs, 0);
  if (plan.input.device != PlanDevice::kCard) return;
  const CardBytes of_draft = card_bytes(draft, plan.input.max_num_batched_tokens,
                                        plan.input.max_num_seqs, plan.input.kv_dtype);
  plan.logits_bytes += of_draft.logits;
  plan.graph_bytes += of_draft.graphs + of_draft.padding_page;
}

std::int64_t bytes_before_pages(const Plan& plan) {
  return plan.weight_bytes + plan.input.adapters.size_bytes + plan.draft_weight_bytes +
         plan.scratch_bytes + plan.logits_bytes + plan.graph_bytes + plan.guess_page_bytes +
         plan.vision_bytes + plan.input.fixed_bytes;
}

void plan_pages(Plan& plan) {
  const PlanInput& input = plan.input;
  plan.usable_bytes =
      static_cast<std::int64_t>(input.memory_utilization * as_double(input.memory_bytes));
  plan.page_bytes = kv::kPageTokens * plan.token_bytes;
  const std::int64_t most_pages =
      input.max_num_seqs * kv::pages_for_tokens(text_of(input).max_positions);
  const std::int64_t with_draft = kv::kPageTokens * (plan.token_bytes + plan.draft_token_bytes);
  const std::int64_t budget = input.kv_cache_bytes.has_value()
                                  ? *input.kv_cache_bytes
                                  : plan.usable_bytes - bytes_before_pages(plan);
  plan.num_pages = std::clamp<std::int64_t>(budget / with_draft, 0, most_pages);
  plan.pool_bytes = plan.num_pages * with_draft;
}

void plan_memory(Plan& plan) {
  const PlanInput& input = plan.input;
  const std::int64_t whole_prompt = input.chunked_prefill ? 0 : prompt_tokens(plan);
  plan.step_tokens = std::max(input.max_num_batched_tokens, whole_prompt);
  plan_activations(plan);
  plan_pages(plan);
  plan.total_bytes = bytes_before_pages(plan) + plan.pool_bytes;
  if (input.device == PlanDevice::kHost) plan.total_bytes += input.queue_bytes;
  const std::int64_t of_pages = plan.num_pages / plan.pages_per_video;
  plan.num_concurrent =
      std::min(std::max<std::int64_t>(input.max_num_seqs / input.num_beams, 0), of_pages);
}

void plan_speed(Plan& plan) {
  const PlanInput& input = plan.input;
  const double prompt = as_double(prompt_tokens(plan));
  const double chunk = as_double(plan.step_tokens);
  // A step holds several whole prompts, or a chunk of one prompt that attends to the tokens before
  // it.
  const double context = prompt <= chunk ? chunk : (prompt + chunk) / 2;
  plan.prefill = plan_step(input, {.new_tokens = chunk,
                                   .attended_tokens = chunk * (prompt + 1) / 2,
                                   .context_tokens = context,
                                   .logit_rows = chunk / prompt});
  plan.prefill_tokens_per_s = chunk / plan.prefill.seconds;
  const double rows = as_double(plan.num_concurrent * input.num_beams);
  const double mean_length = prompt + as_double(input.output_tokens) / 2;
  plan.decode = plan_step(input, {.new_tokens = rows,
                                  .attended_tokens = rows * mean_length,
                                  .context_tokens = rows * mean_length,
                                  .logit_rows = rows});
  plan.decode_tokens_per_s = as_double(plan.num_concurrent) / plan.decode.seconds;
  plan.vision_s = plan.vision_flops / input.rates.flops_per_s;
  const double decode_s = as_double(input.output_tokens) / plan.decode_tokens_per_s;
  plan.videos_per_s = 1 / (plan.vision_s + prompt / plan.prefill_tokens_per_s + decode_s);
}

std::string percent_text(double share) { return std::to_string(std::lround(100 * share)); }

void find_limit(Plan& plan) {
  const PlanInput& input = plan.input;
  const double prefill_s = as_double(prompt_tokens(plan)) / plan.prefill_tokens_per_s;
  const double decode_s = as_double(input.output_tokens) / plan.decode_tokens_per_s;
  double compute_s = plan.vision_s;
  double bandwidth_s = 0;
  (plan.prefill.is_bound_by_bandwidth ? bandwidth_s : compute_s) += prefill_s;
  (plan.decode.is_bound_by_bandwidth ? bandwidth_s : compute_s) += decode_s;
  const double share = bandwidth_s / (bandwidth_s + compute_s);
  const std::string percent = percent_text(std::max(share, 1 - share));
  const bool has_idle_places = plan.num_concurrent * input.num_beams < input.max_num_seqs &&
                               plan.num_concurrent < input.max_num_seqs / input.num_beams;
  if (share >= 0.5 && has_idle_places) {
    plan.limit = Limit::kMemory;
    plan.limit_reason = "pages for " + std::to_string(plan.num_concurrent) + " of " +
                        counted(input.max_num_seqs / input.num_beams, "video") +
                        "; more of them would share the reading of the weights";
  } else if (share >= 0.5) {
    plan.limit = Limit::kBandwidth;
    plan.limit_reason = percent + " % of a video's time is reading weights and KV pages";
  } else {
    plan.limit = Limit::kCompute;
    plan.limit_reason = percent + " % of a video's time is arithmetic";
    if (input.model.vision.has_value()) {
      plan.limit_reason +=
          " (" + percent_text(plan.vision_s * plan.videos_per_s) + " % in the vision tower)";
    }
  }
}

// Adds the reason to the warnings; the first refusal is the plan's.
void refuse(Plan& plan, Refusal refusal, const std::string& why) {
  plan.warnings.push_back(why);
  if (!plan.fits) return;
  plan.fits = false;
  plan.refusal = refusal;
  plan.limit = Limit::kMemory;
  plan.limit_reason = why;
}

// A part of a video's tokens and what makes it smaller.
struct TokenUse {
  std::int64_t num_tokens = 0;
  const char* name = "";
  std::string way = {};
};

std::string way_to_fewer_vision_tokens(const PlanInput& input) {
  const std::string frames = input.num_frames > 1 ? "fewer frames (--frames)" : "";
  if (!depends_on_frame_size(input)) return frames;
  return frames +
         (frames.empty() ? "smaller frames (--max-pixels)" : " or smaller ones (--max-pixels)");
}

std::string way_to_fewer_new_tokens(const PlanInput& input) {
  return std::string("fewer new tokens (") + input.output_option + ")";
}

// The parts of a video's tokens, the largest first.
std::vector<TokenUse> token_uses(const Plan& plan) {
  const PlanInput& input = plan.input;
  std::vector<TokenUse> uses = {
      {plan.vision_tokens, "of vision", way_to_fewer_vision_tokens(input)},
      {input.example_tokens, "of examples", "fewer or shorter examples (--examples)"},
      {input.system_tokens, "of the system prompt", "a shorter system prompt (--system)"},
      {input.prompt_tokens - input.example_tokens - input.system_tokens, "of the prompt",
       std::string("a shorter prompt (") + input.prompt_option + ")"},
      {input.output_tokens, "new", way_to_fewer_new_tokens(input)}};
  std::erase_if(uses, [](const TokenUse& use) { return use.num_tokens <= 0; });
  std::stable_sort(uses.begin(), uses.end(), [](const TokenUse& a, const TokenUse& b) {
    return a.num_tokens > b.num_tokens;
  });
  return uses;
}

// Returns text such as "fewer frames (--frames) or a larger --kv-cache-bytes": the remedies that
// are not applied yet.
std::string ways_to_room(const Plan& plan) {
  const PlanInput& input = plan.input;
  std::vector<std::string> ways;
  if (input.example_tokens > plan.vision_tokens) {
    ways.emplace_back("fewer or shorter examples (--examples)");
  }
  const bool is_fixed_frame = input.num_frames == 1 && !depends_on_frame_size(input);
  if (input.model.vision.has_value() && !is_fixed_frame) {
    ways.push_back(way_to_fewer_vision_tokens(input));
  }
  if (input.num_beams > 1) ways.emplace_back("fewer beams (--num-beams)");
  if (input.kv_dtype != DType::kI8) ways.emplace_back("an int8 KV cache (--kv-dtype)");
  if (!input.is_kv_cache_given) ways.emplace_back("smaller weights (--dtype)");
  return join(ways) + (ways.empty() ? "" : " or ") +
         (input.is_kv_cache_given ? "a larger --kv-cache-bytes"
                                  : "more memory (--memory-utilization)");
}

std::int64_t num_positions(const Plan& plan) {
  return scheduler::num_positions(prompt_tokens(plan), plan.input.output_tokens);
}

bool is_too_long(const Plan& plan) {
  return num_positions(plan) > text_of(plan.input).max_positions;
}

void check_weights(Plan& plan) {
  const std::int64_t weights = plan.weight_bytes + plan.draft_weight_bytes;
  if (weights <= plan.usable_bytes) return;
  std::string smaller;  // the largest layout that fits
  for (const FormatBytes& other : plan.weight_bytes_by_format) {
    if (smaller.empty() && weights::can_be_held(other.format) &&
        other.bytes + plan.draft_weight_bytes < plan.usable_bytes) {
      smaller = "; " + std::string(weights::describe(other.format)) + " would take " +
                format_bytes(other.bytes);
    }
  }
  refuse(plan, Refusal::kWeights,
         std::string("weights alone") +
             (plan.draft_weight_bytes > 0 ? " and those of the draft model" : "") + " take " +
             format_bytes(weights) + " of the " + format_bytes(plan.usable_bytes) +
             " that may be used" +
             (smaller.empty() ? std::string("; use a smaller model") : smaller));
}

void check_pages(Plan& plan) {
  const PlanInput& input = plan.input;
  if (plan.refusal == Refusal::kWeights) return;
  // The pages are at most those of the model's positions, which check_tokens() is about.
  if (is_too_long(plan)) return;
  if (plan.num_pages < plan.pages_per_video) {
    const std::int64_t least_bytes =
        plan.pages_per_video * kv::kPageTokens * (plan.token_bytes + plan.draft_token_bytes);
    refuse(plan, input.is_kv_cache_given ? Refusal::kGivenPages : Refusal::kPages,
           "one video needs " + std::to_string(plan.pages_per_video) + " KV pages, " +
               exact_bytes(least_bytes) + ", and " +
               (input.is_kv_cache_given ? "--kv-cache-bytes" : "the memory left") + " holds " +
               std::to_string(plan.num_pages) + "; use " + ways_to_room(plan));
    return;
  }
  if (plan.num_concurrent < input.max_num_seqs / input.num_beams) {
    plan.warnings.push_back(
        "max_num_seqs " + std::to_string(input.max_num_seqs) +
        " cannot be reached: the pages hold " + counted(plan.num_concurrent, "video") + " of " +
        counted(plan.video_tokens, "token") + "; set it to " +
        std::to_string(plan.num_concurrent * input.num_beams) + ", or use " + ways_to_room(plan));
  }
  if (plan.total_bytes > input.memory_bytes) {
    plan.warnings.push_back(
        "all pages and full queues together take " + format_bytes(plan.total_bytes) + " of " +
        format_bytes(input.memory_bytes) + "; lower memory_utilization or kv_cache_bytes");
  }
}

// Returns text such as "1152 of vision, 128 new, 13 of the prompt".
std::string describe_uses(const Plan& plan) {
  std::vector<std::string> parts;
  for (const TokenUse& use : token_uses(plan)) {
    parts.push_back(std::to_string(use.num_tokens) + " " + use.name);
  }
  return join(parts);
}

// Returns text such as "fewer frames (--frames) or fewer new tokens (--max-new-tokens)": what makes
// the parts smaller that are no small ones.
std::string ways_to_fewer_tokens(const Plan& plan) {
  constexpr std::int64_t kSmallPart = 8;  // 1/8 of all tokens
  std::string text;
  for (const TokenUse& use : token_uses(plan)) {
    if (use.way.empty() || use.num_tokens * kSmallPart < plan.video_tokens) continue;
    text += (text.empty() ? "" : " or ") + use.way;
  }
  return text.empty() ? way_to_fewer_new_tokens(plan.input) : text;
}

void check_tokens(Plan& plan) {
  const PlanInput& input = plan.input;
  const std::int64_t positions = text_of(input).max_positions;
  if (is_too_long(plan)) {
    refuse(plan, Refusal::kLength,
           "a video of " + counted(plan.video_tokens, "token") + " (" + describe_uses(plan) +
               ") needs " + counted(num_positions(plan), "position") +
               " (the last new token needs none), and the model holds " +
               std::to_string(positions) + "; use " + ways_to_fewer_tokens(plan));
  }
  if (input.num_beams > input.max_num_seqs) {
    refuse(plan, Refusal::kBeams,
           std::to_string(input.num_beams) + " beams do not fit max_num_seqs " +
               std::to_string(input.max_num_seqs) + "; raise it or use fewer beams");
  }
  if (!input.chunked_prefill && prompt_tokens(plan) > input.max_num_batched_tokens) {
    plan.warnings.push_back("a prompt of " + counted(prompt_tokens(plan), "token") +
                            " exceeds max_num_batched_tokens " +
                            std::to_string(input.max_num_batched_tokens) +
                            " and is computed in one step; chunked_prefill keeps steps short");
  }
}

}  // namespace

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::kMemory: return "memory";
    case Limit::kBandwidth: return "bandwidth";
    case Limit::kCompute: return "compute";
  }
  return "?";
}

CardBytes card_bytes(const DecoderSpec& spec, std::int64_t num_tokens, std::int64_t num_logit_rows,
                     DType kv_dtype) {
  // Decode steps are recorded as graphs, of which the engine keeps this many; a layer has at most
  // so many launches (docs/gpu.md). What the driver holds for a launch is an estimate: a few KB.
  constexpr std::int64_t kMostGraphs = 64;
  constexpr std::int64_t kLaunchesOfLayer = 13;
  constexpr std::int64_t kOtherLaunches = 8;
  constexpr std::int64_t kLaunchBytes = 8 << 10;
  const std::int64_t launches = spec.num_layers * kLaunchesOfLayer + kOtherLaunches;
  return {.logits = spec.vocab * kFloatBytes * num_logit_rows +
                    model::step_scratch_bytes(spec, num_tokens, num_logit_rows),
          .graphs = kMostGraphs * launches * kLaunchBytes,
          .padding_page = kv::kPageTokens * model::kv_token_bytes(spec, kv_dtype)};
}

bool depends_on_frame_size(const PlanInput& input) {
  return input.model.vision.has_value() && input.model.vision->image_px == 0;
}

Plan make_plan(const PlanInput& input) {
  if (!input.model.text.has_value()) {
    throw Error(ErrorCode::kUsage, "plan: " + input.model.name +
                                       " has no decoder; a captioner or a language model has");
  }
  const bool has_rates = input.rates.bytes_per_s > 0 && input.rates.flops_per_s > 0;
  if (!has_rates) throw Error(ErrorCode::kUsage, "plan: bandwidth and FLOP rate must be positive");
  Plan plan;
  plan.input = input;
  plan_weights(plan);
  plan_tokens(plan);
  plan_memory(plan);
  // In the order in which a run would meet them.
  check_weights(plan);
  check_tokens(plan);
  check_pages(plan);
  if (plan.fits) {
    plan_speed(plan);
    find_limit(plan);
  }
  return plan;
}

}  // namespace caption::plan
