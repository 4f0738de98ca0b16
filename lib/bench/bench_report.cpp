#include "bench/bench_report.h"

#include <algorithm>
#include <functional>

#include "base/counted.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "bench/internal/operations_json.h"
#include "bench/internal/report_parts.h"
#include "bench/profile_report.h"
#include "plan/kv_dtype_name.h"

namespace caption::bench {
namespace {

// Least time that the machine needs for the work of a run, divided by the time of the run.
double share_of_roofline(const Comparison& comparison, const Measurement& run) {
  const double least_s =
      run.cost.seconds(comparison.read_bytes_per_s(), comparison.peak().flops_per_s);
  return run.seconds > 0 ? least_s / run.seconds : 0;
}

double batch_occupancy(const VariantResult& result) {
  return result.measurement().stats.mean_batch / result.variant.options.max_num_seqs;
}

double page_occupancy(const Measurement& run) {
  return run.stats.mean_pages_used / static_cast<double>(run.stats.pages_total);
}

double bytes_per_s(const Measurement& run) { return run.cost.bytes / run.seconds; }
double flops_per_s(const Measurement& run) { return run.cost.flops / run.seconds; }

// Whether some variant exceeds the memory bandwidth, because the data read per step fits the
// caches; bandwidth is then no bound.
bool is_beyond_bandwidth(const Comparison& comparison) {
  return std::any_of(comparison.variants.begin(), comparison.variants.end(),
                     [&](const VariantResult& result) {
                       return bytes_per_s(result.measurement()) > comparison.read_bytes_per_s();
                     });
}

std::string describe_outputs(const Comparison& comparison) {
  std::size_t num_runs = 0;
  for (const VariantResult& result : comparison.variants) num_runs += result.runs.size();
  if (num_runs == 1) return "those of one run, compared with no other";
  return comparison.outputs_are_equal() ? "the same tokens in every run"
                                        : "NOT the same tokens in every run";
}

struct Row {
  const char* name;
  std::function<std::string(const VariantResult&)> text;
};

std::vector<Row> latency_rows() {
  using Result = const VariantResult&;
  const auto of = [](const char* name, Summary Measurement::*summary, double Summary::*figure) {
    return Row{name, [summary, figure](Result result) {
                 const Summary& values = result.measurement().*summary;
                 return values.count > 0 ? format_number(values.*figure) : std::string("-");
               }};
  };
  return {of("first token p50, ms", &Measurement::first_token_ms, &Summary::p50),
          of("first token p90", &Measurement::first_token_ms, &Summary::p90),
          of("first token p99", &Measurement::first_token_ms, &Summary::p99),
          of("next token p50, ms", &Measurement::next_token_ms, &Summary::p50),
          of("next token p99", &Measurement::next_token_ms, &Summary::p99),
          of("latency mean, ms", &Measurement::latency_ms, &Summary::mean),
          of("latency p50", &Measurement::latency_ms, &Summary::p50),
          of("latency p90", &Measurement::latency_ms, &Summary::p90),
          of("latency p99", &Measurement::latency_ms, &Summary::p99)};
}

std::vector<Row> engine_rows() {
  using Result = const VariantResult&;
  return {
      {"steps", [](Result r) { return std::to_string(r.measurement().stats.steps); }},
      {"batch occupancy", [](Result r) { return format_percent(batch_occupancy(r)); }},
      {"page occupancy", [](Result r) { return format_percent(page_occupancy(r.measurement())); }},
      {"page waste",
       [](Result r) { return format_percent(r.measurement().stats.mean_page_waste); }},
      {"prefix hits",
       [](Result r) { return format_percent(r.measurement().stats.prefix_hit_rate()); }},
      {"prompt tok computed",
       [](Result r) { return std::to_string(r.measurement().stats.prefill_tokens); }},
      {"preemptions", [](Result r) { return std::to_string(r.measurement().stats.preemptions); }},
      {"peak memory", [](Result r) { return format_bytes(r.measurement().peak_bytes); }},
      {"  weights and pages used",
       [](Result r) { return format_bytes(r.measurement().needed_bytes); }},
      {"  the rest", [](Result r) {
         const Measurement& run = r.measurement();
         return format_bytes(std::max<std::int64_t>(0, run.peak_bytes - run.needed_bytes));
       }}};
}

std::vector<Row> make_rows(const Comparison& comparison) {
  using Result = const VariantResult&;
  const double first = comparison.variants.front().measurement().output_tokens_per_s();
  std::vector<Row> rows = {
      {"output tok/s",
       [](Result r) { return format_number(r.measurement().output_tokens_per_s()); }},
      {"ratio to the first",
       [first](Result r) {
         return first > 0 ? format_number(r.measurement().output_tokens_per_s() / first) : "-";
       }},
      {"prompt tok/s",
       [](Result r) { return format_number(r.measurement().prompt_tokens_per_s()); }},
      {"requests/s", [](Result r) { return format_number(r.measurement().requests_per_s()); }},
      {"bandwidth", [](Result r) { return format_si(bytes_per_s(r.measurement())) + "B/s"; }},
      {"  of the machine's",
       [&](Result r) {
         return format_percent(bytes_per_s(r.measurement()) / comparison.read_bytes_per_s());
       }},
      {"arithmetic", [](Result r) { return format_si(flops_per_s(r.measurement())) + "FLOP/s"; }},
      {"  of the machine's",
       [&](Result r) {
         return format_percent(flops_per_s(r.measurement()) / comparison.peak().flops_per_s);
       }},
      {"share of roofline",
       [&](Result r) { return format_percent(share_of_roofline(comparison, r.measurement())); }}};
  for (auto& more : {latency_rows(), engine_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::string describe_workload(const Comparison& comparison) {
  const Measurement& run = comparison.variants.front().measurement();
  return "workload " + comparison.workload.name + ": " + counted(run.num_requests, "request") +
         " of together " + counted(run.prompt_tokens, "prompt token") + " and " +
         counted(run.output_tokens, "output token") + "; each figure from the median of " +
         counted(std::ssize(comparison.variants.front().runs), "interleaved run") + "\n";
}

std::int64_t num_cut_short(const Comparison& comparison) {
  std::int64_t sum = 0;
  for (const VariantResult& result : comparison.variants) {
    for (const Measurement& run : result.runs) sum += run.num_cut_short;
  }
  return sum;
}

void write_run(JsonWriter& json, const Comparison& comparison, const Measurement& run) {
  json.begin_object()
      .add("seconds", run.seconds)
      .add("requests", run.num_requests)
      .add("prompt_tokens", run.prompt_tokens)
      .add("output_tokens", run.output_tokens)
      .add("cut_short", run.num_cut_short)
      .add("output_tokens_per_s", run.output_tokens_per_s())
      .add("prompt_tokens_per_s", run.prompt_tokens_per_s())
      .add("requests_per_s", run.requests_per_s())
      .add("bytes_per_s", bytes_per_s(run))
      .add("flops_per_s", flops_per_s(run))
      .add("share_of_roofline", share_of_roofline(comparison, run))
      .add("peak_bytes", run.peak_bytes)
      .add("needed_bytes", run.needed_bytes)
      .add("output_hash", run.output_hash.hex());
  write_summary(json, "first_token_ms", run.first_token_ms);
  write_summary(json, "next_token_ms", run.next_token_ms);
  write_summary(json, "latency_ms", run.latency_ms);
  const engine::EngineStats& stats = run.stats;
  json.begin_object("engine")
      .add("steps", stats.steps)
      .add("mean_batch", stats.mean_batch)
      .add("pages_total", stats.pages_total)
      .add("pages_peak", stats.pages_peak)
      .add("page_bytes", stats.page_bytes)
      .add("mean_pages_used", stats.mean_pages_used)
      .add("mean_page_waste", stats.mean_page_waste)
      .add("prefill_tokens", stats.prefill_tokens)
      .add("decode_tokens", stats.decode_tokens)
      .add("preemptions", stats.preemptions)
      .add("recomputed_tokens", stats.recomputed_tokens)
      .add("prefix_hit_rate", stats.prefix_hit_rate())
      .end_object();
  write_operations(json, run.operations);
  json.end_object();
}

std::string describe_profiles(const Comparison& comparison) {
  std::string text;
  for (const VariantResult& result : comparison.variants) {
    const Measurement& run = result.measurement();
    if (run.operations.empty()) continue;
    text += "\ntime in steps, " + result.variant.name + "\n" +
            profile_table(run.operations, run.stats.steps);
  }
  return text;
}

void write_variant(JsonWriter& json, const Comparison& comparison, const VariantResult& result) {
  json.begin_object()
      .add("name", result.variant.name)
      .add("group", result.variant.group)
      .add("max_num_seqs", static_cast<std::int64_t>(result.variant.options.max_num_seqs))
      .add("max_num_batched_tokens",
           static_cast<std::int64_t>(result.variant.options.max_num_batched_tokens))
      .add("kv_dtype", plan::kv_dtype_name(result.variant.options.kv_dtype))
      .add("batch_occupancy", batch_occupancy(result))
      .add("median_run", static_cast<std::int64_t>(result.median_run));
  json.begin_list("runs");
  for (const Measurement& run : result.runs) write_run(json, comparison, run);
  json.end_list().end_object();
}

// The throughput that the machine's rates permit for the work of a group's runs.
Line bound_of(const Comparison& comparison, const std::string& group) {
  Line bound{.name = "bound of " + group + ": " + format_si(comparison.read_bytes_per_s()) +
                     "B/s, " + format_si(comparison.peak().flops_per_s) + "FLOP/s",
             .style = LineStyle::kBound,
             .points = {}};
  for (const VariantResult& result : comparison.variants) {
    if (result.variant.group != group) continue;
    const Measurement& run = result.measurement();
    bound.points.push_back({static_cast<double>(result.variant.options.max_num_seqs),
                            run.output_tokens_per_s() / share_of_roofline(comparison, run)});
  }
  return bound;
}

}  // namespace

std::string to_table(const Subject& subject, const Comparison& comparison) {
  std::string text = subject.model + "; " + subject.setting + "\n" + describe_workload(comparison) +
                     describe_machine(comparison.before, comparison.after) + "\n";
  const std::vector<Row> rows = make_rows(comparison);
  std::size_t name_width = 0;
  for (const Row& row : rows) name_width = std::max(name_width, std::string(row.name).size());
  std::vector<std::size_t> widths;
  std::string heading = pad_right("", name_width);
  for (const VariantResult& result : comparison.variants) {
    constexpr std::size_t kMinWidth = 11;
    widths.push_back(std::max(kMinWidth, result.variant.name.size()));
    heading += "  " + pad_left(result.variant.name, widths.back());
  }
  text += heading + "\n";
  for (const Row& row : rows) {
    text += pad_right(row.name, name_width);
    for (std::size_t i = 0; i < comparison.variants.size(); ++i) {
      text += "  " + pad_left(row.text(comparison.variants[i]), widths[i]);
    }
    text += "\n";
  }
  text += "\noutputs: " + describe_outputs(comparison) + "\n";
  const auto num_requests = std::ssize(comparison.workload.requests);
  constexpr std::ptrdiff_t kRequestsOfPercentiles = 100;
  if (num_requests > 1 && num_requests <= kRequestsOfPercentiles) {
    text += "p99 of " + counted(num_requests, "request") + " lies between the two slowest\n";
  }
  if (comparison.peak().arithmetic != comparison.before.arithmetic) {
    text +=
        "the machine's arithmetic for these weights: " + std::string(comparison.peak().arithmetic) +
        ", " + format_si(comparison.peak().flops_per_s) + "FLOP/s\n";
  }
  if (is_beyond_bandwidth(comparison)) {
    text += describe_caches("weights and pages");
  }
  if (const std::int64_t cut = num_cut_short(comparison); cut > 0) {
    text += counted(cut, "request") + " ended before " + std::string(plural(cut, "its", "their")) +
            " length\n";
  }
  return text + describe_profiles(comparison);
}

std::string to_json(const Subject& subject, const Comparison& comparison) {
  JsonWriter json;
  json.begin_object()
      .add("model", subject.model)
      .add("setting", subject.setting)
      .add("workload", comparison.workload.name)
      .add("requests", static_cast<std::int64_t>(comparison.workload.requests.size()))
      .add("outputs_are_equal", comparison.outputs_are_equal())
      .add("peak_flops_per_s", comparison.peak().flops_per_s)
      .add("peak_arithmetic", comparison.peak().arithmetic);
  write_roofline(json, "machine_before", comparison.before);
  write_roofline(json, "machine_after", comparison.after);
  json.begin_list("variants");
  for (const VariantResult& result : comparison.variants) {
    write_variant(json, comparison, result);
  }
  json.end_list().end_object();
  return json.text() + "\n";
}

LineChart throughput_chart(const Subject& subject, const Comparison& comparison) {
  LineChart chart{.title = "Throughput over batch size: " + subject.model,
                  .subtitle = comparison.workload.name + ", " + subject.setting,
                  .x_label = "max_num_seqs",
                  .y_label = "output tokens per second",
                  .lines = {}};
  for (const VariantResult& result : comparison.variants) {
    auto line = std::find_if(chart.lines.begin(), chart.lines.end(), [&](const Line& candidate) {
      return candidate.name == result.variant.group;
    });
    if (line == chart.lines.end()) {
      line = chart.lines.insert(line, {.name = result.variant.group, .points = {}});
    }
    line->points.push_back({static_cast<double>(result.variant.options.max_num_seqs),
                            result.measurement().output_tokens_per_s()});
  }
  if (is_beyond_bandwidth(comparison)) {
    chart.subtitle += "; weights stay in the caches";
  } else {
    chart.lines.push_back(bound_of(comparison, chart.lines.back().name));
  }
  for (Line& line : chart.lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const Point& a, const Point& b) { return a.x < b.x; });
  }
  return chart;
}

}  // namespace caption::bench
