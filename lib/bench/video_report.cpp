#include "bench/video_report.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "bench/internal/report_parts.h"

namespace caption::bench {
namespace {

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double mean_bytes_per_s(const VideoReport& report) {
  return (report.before.read_bytes_per_s + report.after.read_bytes_per_s) / 2;
}

Peak peak_of(const VideoReport& report) {
  return mean_peak(report.before, report.after, report.operands);
}

double batch_occupancy(const VideoReport& report) {
  return report.median_run().stats.mean_batch / static_cast<double>(report.max_num_seqs);
}

double busy_share(const VideoRun& run, const StageBusy& stage) {
  return stage.busy_s / (run.seconds * static_cast<double>(stage.num_workers));
}

std::string line(const std::string& name, const std::string& value, const std::string& note = {}) {
  constexpr std::size_t kNameWidth = 22;
  constexpr std::size_t kValueWidth = 12;
  return pad_right(name, kNameWidth) + pad_left(value, kValueWidth) +
         (note.empty() ? "" : "  " + note) + "\n";
}

std::string summary_line(const char* name, const Summary& summary) {
  return line(name, format_number(summary.p50),
              "p50 of " + counted(summary.count, "caption") + "; p90 " +
                  format_number(summary.p90) + ", p99 " + format_number(summary.p99) + ", mean " +
                  format_number(summary.mean));
}

// Returns the lines that need captions; empty when there are none.
std::string caption_lines(const VideoRun& run) {
  if (run.num_captions == 0) return {};
  std::string text = line("clips/s", format_number(run.clips_per_s()), "captioned clips");
  if (run.num_captions > run.num_clips) {
    text += line("captions/s", format_number(run.captions_per_s()));
  }
  text += line("output tok/s", format_number(run.output_tokens_per_s()), "of all captions");
  text += line("prompt tok/s", format_number(run.prompt_tokens_per_s()),
               "of all captions, vision tokens included");
  text += summary_line("first token, ms", run.first_token_ms);
  text += summary_line("clip, ms", run.clip_ms);
  return text;
}

std::string engine_lines(const VideoReport& report) {
  const VideoRun& run = report.median_run();
  const engine::EngineStats& stats = run.stats;
  const double pages = static_cast<double>(std::max<std::int64_t>(stats.pages_total, 1));
  const double engine_s = static_cast<double>(stats.busy_us) / 1e6;
  std::string text;
  text += line("batch occupancy", format_percent(batch_occupancy(report)),
               counted(stats.steps, "step"));
  text += line("page occupancy", format_percent(stats.mean_pages_used / pages),
               format_percent(stats.mean_page_waste) + " of their slots empty");
  text += line("prefix hits", format_percent(stats.prefix_hit_rate()));
  if (engine_s > 0) {
    const double bandwidth = run.cost.bytes / engine_s;
    const double arithmetic = run.cost.flops / engine_s;
    text += line("engine's bandwidth", format_si(bandwidth) + "B/s",
                 format_percent(bandwidth / mean_bytes_per_s(report)) + " of the machine's");
    text += line("engine's arithmetic", format_si(arithmetic) + "FLOP/s",
                 format_percent(arithmetic / peak_of(report).flops_per_s) + " of the machine's");
    if (bandwidth > mean_bytes_per_s(report)) text += describe_caches("weights and pages");
  }
  return text;
}

void write_run(JsonWriter& json, const VideoRun& run) {
  json.begin_object()
      .add("seconds", run.seconds)
      .add("clips", run.num_clips)
      .add("captions", run.num_captions)
      .add("failed", run.num_failed)
      .add("clips_per_s", run.clips_per_s())
      .add("prompt_tokens_per_s", run.prompt_tokens_per_s())
      .add("output_tokens_per_s", run.output_tokens_per_s())
      .add("peak_bytes", run.peak_bytes)
      .add("mean_batch", run.stats.mean_batch)
      .add("steps", run.stats.steps)
      .add("mean_page_waste", run.stats.mean_page_waste)
      .add("prefix_hit_rate", run.stats.prefix_hit_rate())
      .add("engine_flops", run.cost.flops)
      .add("engine_bytes", run.cost.bytes);
  write_summary(json, "first_token_ms", run.first_token_ms);
  write_summary(json, "clip_ms", run.clip_ms);
  json.begin_object("busy");
  for (const StageBusy& stage : run.stages) json.add(stage.name, busy_share(run, stage));
  json.end_object().end_object();
}

}  // namespace

double VideoRun::clips_per_s() const { return per_second(num_clips, seconds); }
double VideoRun::captions_per_s() const { return per_second(num_captions, seconds); }
double VideoRun::output_tokens_per_s() const { return per_second(output_tokens, seconds); }
double VideoRun::prompt_tokens_per_s() const { return per_second(prompt_tokens, seconds); }

const VideoRun& VideoReport::median_run() const {
  CAPTION_CHECK(!runs.empty(), "a report without runs");
  std::vector<double> speeds;
  for (const VideoRun& run : runs) speeds.push_back(run.clips_per_s());
  return runs[median_index(speeds)];
}

std::string describe_clips(const VideoRun& run) {
  const std::string clips = counted(run.num_clips, "clip");
  if (run.num_captions <= run.num_clips) {
    return clips + " captioned, " + std::to_string(run.num_failed) + " failed";
  }
  return counted(run.num_captions, "caption") + " of " + clips + ", " +
         counted(run.num_failed, "clip") + " failed";
}

std::string to_table(const VideoReport& report) {
  const VideoRun& run = report.median_run();
  std::string text =
      report.subject.model + "; " + report.subject.setting + "\n" + describe_clips(run) + ", in " +
      format_number(run.seconds) + " s; the median of " + counted(std::ssize(report.runs), "run") +
      "\n" + (report.before.is_gpu ? "GPU: " : "machine: ") + format_si(mean_bytes_per_s(report)) +
      (report.before.is_gpu ? "B/s copied, " : "B/s read, ") +
      format_si(peak_of(report).flops_per_s) + "FLOP/s " + std::string(peak_of(report).arithmetic) +
      "\n\n";
  text += caption_lines(run);
  for (const StageBusy& stage : run.stages) {
    text += line(stage.name + " busy", format_percent(busy_share(run, stage)),
                 "of " + counted(stage.num_workers, "worker"));
  }
  text += engine_lines(report);
  text += line("peak memory", format_bytes(run.peak_bytes));
  for (const VideoScore& score : report.scores) {
    text += line(score.metric, format_number(score.value),
                 "[" + format_number(score.low) + ", " + format_number(score.high) + "]");
  }
  return text;
}

std::string to_json(const VideoReport& report) {
  JsonWriter json;
  json.begin_object()
      .add("model", report.subject.model)
      .add("setting", report.subject.setting)
      .add("max_num_seqs", report.max_num_seqs);
  write_roofline(json, "machine_before", report.before);
  write_roofline(json, "machine_after", report.after);
  json.begin_list("runs");
  for (const VideoRun& run : report.runs) write_run(json, run);
  json.end_list().begin_object("scores");
  for (const VideoScore& score : report.scores) {
    json.begin_object(score.metric)
        .add("value", score.value)
        .add("low", score.low)
        .add("high", score.high)
        .end_object();
  }
  json.end_object().end_object();
  return json.text() + "\n";
}

}  // namespace caption::bench
