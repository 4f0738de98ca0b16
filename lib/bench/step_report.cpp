#include <algorithm>

#include <vector>

#include "base/figures.h"
#include "base/json_writer.h"
#include "bench/internal/report_parts.h"
#include "bench/step_bench.h"

namespace caption::bench {
namespace {

using Cells = std::vector<std::string>;
constexpr std::size_t kNumNames = 2;  // columns of text, aligned left; the others are numbers

std::string microseconds(double seconds) {
  return seconds > 0 ? format_number(seconds * 1e6) : "-";
}

std::string ratio_text(double ratio) { return ratio > 0 ? format_number(ratio) : "-"; }

Cells cells_of(const StepOperation& operation) {
  return {operation.operation,
          operation.kernel.empty() ? "-" : operation.kernel,
          std::to_string(operation.calls),
          microseconds(operation.seconds),
          microseconds(operation.predicted_s),
          ratio_text(operation.ratio()),
          microseconds(operation.library_s),
          ratio_text(operation.library_ratio()),
          operation.limit.empty() ? "-" : std::string(operation.limit)};
}

double new_tokens_per_s(const MeasuredStep& step) {
  const auto tokens = static_cast<double>(step.step.num_sequences * step.step.new_tokens);
  return step.seconds > 0 ? tokens / step.seconds : 0;
}

double share_of_bandwidth(const StepBench& bench, const MeasuredStep& step) {
  return step.dram_bytes / step.seconds / bench.read_bytes_per_s();
}

double share_of_peak(const StepBench& bench, const MeasuredStep& step) {
  return step.flops / step.seconds / bench.flops_per_s();
}

std::string describe_step(const StepBench& bench, const MeasuredStep& step) {
  std::string text = step.step.name + ": " + format_number(step.seconds * 1e3) + " ms, " +
                     format_number(new_tokens_per_s(step)) + " tok/s";
  if (step.predicted_s > 0) {
    text += "; predicted " + format_number(step.predicted_s * 1e3) + " ms, ratio " +
            ratio_text(step.ratio()) + "; " + format_percent(share_of_bandwidth(bench, step)) +
            " of the bandwidth, " + format_percent(share_of_peak(bench, step)) +
            " of the arithmetic";
  }
  return text + "\n";
}

void write_step(JsonWriter& json, const StepBench& bench, const MeasuredStep& step) {
  json.begin_object()
      .add("step", step.step.name)
      .add("sequences", step.step.num_sequences)
      .add("new_tokens", step.step.new_tokens)
      .add("context_tokens", step.step.context_tokens)
      .add("seconds", step.seconds)
      .add("new_tokens_per_s", new_tokens_per_s(step));
  if (step.predicted_s > 0) {
    json.add("predicted_s", step.predicted_s)
        .add("ratio", step.ratio())
        .add("share_of_bandwidth", share_of_bandwidth(bench, step))
        .add("share_of_peak", share_of_peak(bench, step));
  }
  json.begin_list("operations");
  for (const StepOperation& operation : step.operations) {
    json.begin_object()
        .add("operation", operation.operation)
        .add("calls", operation.calls)
        .add("seconds", operation.seconds);
    if (operation.predicted_s > 0) {
      json.add("predicted_s", operation.predicted_s)
          .add("ratio", operation.ratio())
          .add("kernel", operation.kernel)
          .add("limit", operation.limit);
    }
    if (operation.library_s > 0) {
      json.add("cublaslt_s", operation.library_s).add("cublaslt_ratio", operation.library_ratio());
    }
    json.end_object();
  }
  json.end_list().end_object();
}

}  // namespace

std::string to_table(const std::string& subject, const StepBench& bench) {
  std::string text = subject + "\n" + describe_machine(bench.before, bench.after);
  text += bench.card.empty() ? "no prediction: this GPU is none of the cards of --predict, or "
                               "weights or pages are not of 16 "
                               "bits\n"
                             : "predicted for " + bench.card + "\n";
  for (const MeasuredStep& step : bench.steps) {
    std::vector<Cells> lines = {
        {"operation", "kernel", "calls", "us", "predicted", "ratio", "cuBLASLt", "ratio", "limit"}};
    for (const StepOperation& operation : step.operations) lines.push_back(cells_of(operation));
    text += "\n" + describe_step(bench, step) + aligned(lines, kNumNames);
  }
  return text;
}

std::string to_json(const std::string& subject, const StepBench& bench) {
  JsonWriter json;
  json.begin_object().add("subject", subject).add("card", bench.card);
  write_roofline(json, "machine_before", bench.before);
  write_roofline(json, "machine_after", bench.after);
  json.begin_list("steps");
  for (const MeasuredStep& step : bench.steps) write_step(json, bench, step);
  json.end_list().end_object();
  return json.text() + "\n";
}

}  // namespace caption::bench
