// Formats a plan as text and as JSON.

#include "base/counted.h"
#include "base/display_width.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "plan/kv_dtype_name.h"
#include "plan/plan.h"

namespace caption::plan {
namespace {

constexpr std::size_t kNameWidth = 22;
constexpr std::size_t kValueWidth = 11;

class Lines {
 public:
  void heading(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text + "\n"; }
  void add(const std::string& name, const std::string& value, const std::string& note = {}) {
    std::string line = "  " + pad_right(name, kNameWidth) + pad_left(value, kValueWidth);
    if (!note.empty()) line += "  " + note;
    text_ += line + "\n";
  }
  void sentence(const std::string& text) { text_ += "  " + text + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string count_text(std::int64_t count) { return std::to_string(count); }

std::string si_count(std::int64_t count) { return format_si(static_cast<double>(count)); }

void write_model(const Plan& plan, Lines& lines) {
  const PlanInput& input = plan.input;
  const model::DecoderSpec& text = *input.model.text;
  lines.heading("model " + input.model.name);
  const model::ParameterCounts& counts = plan.parameters;
  std::string parts = "decoder layers " + si_count(counts.projections) + ", embedding and head " +
                      si_count(counts.embedding + counts.lm_head);
  if (input.model.vision.has_value()) {
    parts += ", tower " + si_count(counts.tower) + ", projector " + si_count(counts.projector);
  }
  lines.add("parameters", si_count(counts.total()), parts);
  lines.add("decoder", counted(count_text(text.num_layers), "layer"),
            "width " + count_text(text.hidden) + ", " +
                counted(count_text(text.num_heads), "head") + ", " + count_text(text.num_kv_heads) +
                " of keys and values, " + counted(count_text(text.max_positions), "position"));
  for (const FormatBytes& format : plan.weight_bytes_by_format) {
    lines.add(format.format == input.weights ? "weights, chosen" : "weights",
              format_bytes(format.bytes), std::string(weights::describe(format.format)));
  }
  for (const KvBytes& kv : plan.kv_bytes_by_dtype) {
    lines.add(kv.dtype == input.kv_dtype ? "KV per token, chosen" : "KV per token",
              count_text(kv.token_bytes) + " B",
              kv.dtype == DType::kI8 ? "int8 with bf16 scales per token and head"
                                     : std::string(kv_dtype_name(kv.dtype)));
  }
}

void write_memory(const Plan& plan, Lines& lines) {
  const PlanInput& input = plan.input;
  lines.heading("memory of " + input.device_name);
  lines.add("may be used", format_bytes(plan.usable_bytes),
            format_percent(input.memory_utilization) + " of " + format_bytes(input.memory_bytes));
  lines.add("weights", format_bytes(plan.weight_bytes),
            std::string(weights::describe(input.weights)));
  if (input.adapters.size_bytes > 0) {
    lines.add("adapters", format_bytes(input.adapters.size_bytes), "computed beside the weights");
  }
  if (input.draft.has_value()) {
    lines.add(
        "draft model", format_bytes(plan.draft_weight_bytes),
        input.draft->name + ", and " + count_text(plan.draft_token_bytes) + " B of KV per token");
  }
  if (plan.guess_page_bytes > 0) {
    lines.add("self-drafts", format_bytes(plan.guess_page_bytes), "KV pages of their guesses");
  }
  lines.add("activations", format_bytes(plan.scratch_bytes),
            "for steps of " + counted(count_text(plan.step_tokens), "token"));
  lines.add("logits, sampling", format_bytes(plan.logits_bytes));
  if (plan.graph_bytes > 0) {
    lines.add("graphs of steps", format_bytes(plan.graph_bytes),
              "estimated, with the page that pads them");
  }
  if (input.model.vision.has_value()) {
    lines.add("vision activations", format_bytes(plan.vision_bytes));
  }
  lines.add("fixed", format_bytes(input.fixed_bytes),
            input.device == PlanDevice::kHost ? "the process itself" : "the device's context");
  lines.add("KV pages", format_bytes(plan.pool_bytes),
            counted(count_text(plan.num_pages), "page") + " of 16 tokens, " +
                format_bytes(plan.page_bytes) + " each" +
                (input.device == PlanDevice::kHost ? "; committed as they are written" : ""));
  lines.add("frames and queues", format_bytes(input.queue_bytes),
            input.device == PlanDevice::kHost ? "at most" : "at most, in the host's memory");
  if (input.host_pages_bytes > 0) {
    lines.add("evicted KV pages", format_bytes(input.host_pages_bytes),
              "at most, in the host's memory");
  }
  lines.add("together", format_bytes(plan.total_bytes), "with all of it in use");
}

// " of 1280x720", where the size of the videos counts.
std::string frame_text(const PlanInput& input) {
  if (!depends_on_frame_size(input)) return {};
  return " of " + count_text(input.frame.width_px) + "x" + count_text(input.frame.height_px);
}

void write_video(const Plan& plan, Lines& lines) {
  const PlanInput& input = plan.input;
  lines.heading("a video");
  const std::string vision = input.model.vision.has_value()
                                 ? count_text(plan.vision_tokens) + " vision (" +
                                       counted(count_text(input.num_frames), "frame") +
                                       frame_text(input) + ") + "
                                 : "";
  lines.add("tokens", count_text(plan.video_tokens),
            vision + count_text(input.prompt_tokens) + " prompt + " +
                count_text(input.output_tokens) + " output" +
                (input.num_beams > 1 ? ", " + count_text(input.num_beams) + " beams" : ""));
  lines.add("pages", count_text(plan.pages_per_video));
  lines.add("at a time", count_text(plan.num_concurrent),
            "of max_num_seqs " + count_text(input.max_num_seqs));
}

void write_speed(const Plan& plan, Lines& lines) {
  const PlanInput& input = plan.input;
  lines.heading("speed, at most");
  lines.add("bandwidth", format_si(input.rates.bytes_per_s) + "B/s", input.rates.source);
  lines.add(
      "arithmetic", format_si(input.rates.flops_per_s) + "FLOP/s",
      "balance " + format_number(input.rates.flops_per_s / input.rates.bytes_per_s) + " FLOP/byte");
  const auto add_step = [&](const char* name, const PlannedStep& step, double rate) {
    lines.add(name, format_number(rate) + " tok/s",
              format_number(step.cost.intensity()) + " FLOP/byte, a step of " +
                  format_number(1e3 * step.seconds) + " ms, bound by " +
                  (step.is_bound_by_bandwidth ? "bandwidth" : "arithmetic"));
  };
  add_step("prefill", plan.prefill, plan.prefill_tokens_per_s);
  add_step("decode", plan.decode, plan.decode_tokens_per_s);
  if (plan.vision_flops > 0) {
    lines.add("vision", format_number(1 / plan.vision_s) + " /s",
              "videos; " + format_si(plan.vision_flops) + "FLOP each");
  }
  lines.add("videos", format_number(plan.videos_per_s) + " /s",
            "vision, prefill and decode one after the other");
  lines.add("limit", std::string(limit_name(plan.limit)), plan.limit_reason);
}

void write_step_json(JsonWriter& json, const char* name, const PlannedStep& step, double rate) {
  json.begin_object(name)
      .add("flops", step.cost.flops)
      .add("bytes", step.cost.bytes)
      .add("flop_per_byte", step.cost.intensity())
      .add("step_s", step.seconds)
      .add("bound_by", step.is_bound_by_bandwidth ? "bandwidth" : "compute")
      .add("tokens_per_s", rate)
      .end_object();
}

void write_bytes_json(const Plan& plan, JsonWriter& json) {
  const PlanInput& input = plan.input;
  json.begin_object("bytes_by_layout");
  for (const FormatBytes& format : plan.weight_bytes_by_format) {
    json.add(weights::describe(format.format), format.bytes);
  }
  json.end_object().begin_object("kv_bytes_per_token");
  for (const KvBytes& kv : plan.kv_bytes_by_dtype) {
    json.add(kv_dtype_name(kv.dtype), kv.token_bytes);
  }
  json.end_object();
  json.begin_object("bytes")
      .add("usable", plan.usable_bytes)
      .add("weights", plan.weight_bytes)
      .add("adapters", input.adapters.size_bytes)
      .add("draft_weights", plan.draft_weight_bytes)
      .add("self_draft_pages", plan.guess_page_bytes)
      .add("activations", plan.scratch_bytes)
      .add("logits", plan.logits_bytes)
      .add("graphs", plan.graph_bytes)
      .add("vision_activations", plan.vision_bytes)
      .add("fixed", input.fixed_bytes)
      .add("kv_pages", plan.pool_bytes)
      .add("queues", input.queue_bytes)
      .add("host_pages", input.host_pages_bytes)
      .add("total", plan.total_bytes)
      .end_object();
}

}  // namespace

std::string to_text(const Plan& plan) {
  Lines lines;
  write_model(plan, lines);
  write_memory(plan, lines);
  write_video(plan, lines);
  if (plan.fits) write_speed(plan, lines);
  if (!plan.warnings.empty()) {
    lines.heading(plan.fits ? "warnings" : "this does not fit");
    for (const std::string& warning : plan.warnings) lines.sentence(warning);
  }
  if (!plan.input.obstacles.empty()) {
    lines.heading("run would not start here");
    for (const std::string& obstacle : plan.input.obstacles) lines.sentence(printable(obstacle));
  }
  return lines.text();
}

std::string to_json(const Plan& plan) {
  const PlanInput& input = plan.input;
  JsonWriter json;
  json.begin_object();
  json.add("preset", input.preset)
      .add("model", input.model.name)
      .add("device", input.device_name)
      .add("memory_bytes", input.memory_bytes)
      .add("can_run", plan.can_run())
      .add("fits", plan.fits)
      .add("parameters", plan.parameters.total())
      .add("weights", weights::describe(input.weights))
      .add("kv_dtype", kv_dtype_name(input.kv_dtype));
  write_bytes_json(plan, json);
  json.add("page_bytes", plan.page_bytes)
      .add("num_pages", plan.num_pages)
      .add("pages_per_video", plan.pages_per_video)
      .add("max_num_seqs", input.max_num_seqs)
      .add("max_num_batched_tokens", input.max_num_batched_tokens)
      .add("concurrent_videos", plan.num_concurrent);
  if (depends_on_frame_size(input)) {
    json.begin_object("frame_size")
        .add("width", input.frame.width_px)
        .add("height", input.frame.height_px)
        .end_object();
  }
  json.begin_object("tokens_per_video")
      .add("vision", plan.vision_tokens)
      .add("prompt", input.prompt_tokens)
      .add("output", input.output_tokens)
      .add("total", plan.video_tokens)
      .end_object();
  json.begin_object("rates")
      .add("bytes_per_s", input.rates.bytes_per_s)
      .add("flops_per_s", input.rates.flops_per_s)
      .add("source", input.rates.source)
      .end_object();
  if (plan.fits) {
    write_step_json(json, "prefill", plan.prefill, plan.prefill_tokens_per_s);
    write_step_json(json, "decode", plan.decode, plan.decode_tokens_per_s);
    json.add("vision_flops_per_video", plan.vision_flops).add("videos_per_s", plan.videos_per_s);
  }
  json.add("limit", limit_name(plan.limit)).add("limit_reason", plan.limit_reason);
  json.begin_list("warnings");
  for (const std::string& warning : plan.warnings) json.add_item(warning);
  json.end_list();
  json.begin_list("obstacles");
  for (const std::string& obstacle : input.obstacles) json.add_item(obstacle);
  json.end_list();
  json.end_object();
  return json.text() + "\n";
}

}  // namespace caption::plan
