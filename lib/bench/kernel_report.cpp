#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/figures.h"
#include "base/join.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "bench/internal/report_parts.h"
#include "bench/kernel_bench.h"

namespace caption::bench {
namespace {

std::string rate(double value, const char* unit) {
  return value > 0 ? format_si(value) + unit : "-";
}

std::string share(double value, double of) { return value > 0 ? format_percent(value / of) : "-"; }

using Cells = std::vector<std::string>;

Cells cells_of(const KernelBench& bench, const KernelRow& row) {
  return {row.operation,
          row.setting,
          std::to_string(row.tokens),
          format_bytes(static_cast<std::int64_t>(row.bytes)),
          rate(row.flops, ""),
          format_number(row.seconds * 1e6),
          rate(row.bytes_per_s(), "B/s"),
          share(row.bytes_per_s(), bench.read_bytes_per_s()),
          rate(row.flops_per_s(), "FLOP/s"),
          share(row.flops_per_s(), bench.peak(row.operands).flops_per_s)};
}

// Returns the line "peaks: bf16 340 GFLOP/s, f32 170 GFLOP/s" of the arithmetic of all rows.
std::string describe_peaks(const KernelBench& bench) {
  std::vector<std::string> peaks;
  for (const KernelRow& row : bench.rows) {
    const Peak peak = bench.peak(row.operands);
    std::string text = std::string(peak.arithmetic) + " " + format_si(peak.flops_per_s) + "FLOP/s";
    if (std::find(peaks.begin(), peaks.end(), text) == peaks.end())
      peaks.push_back(std::move(text));
  }
  return "peaks: " + join(peaks) + "\n";
}

}  // namespace

std::string to_table(const std::string& subject, const KernelBench& bench) {
  constexpr std::size_t kNumNames = 2;  // columns of text, aligned left; the others are numbers
  std::vector<Cells> lines = {{"operation", "setting", "tokens", "bytes", "FLOP", "us", "rate",
                               "of memory", "rate", "of peak"}};
  for (const KernelRow& row : bench.rows) lines.push_back(cells_of(bench, row));
  std::string text = subject + "\n" + describe_machine(bench.before, bench.after) +
                     describe_peaks(bench) + "\n" + aligned(lines, kNumNames);
  const bool is_beyond = std::any_of(
      bench.rows.begin(), bench.rows.end(),
      [&](const KernelRow& row) { return row.bytes_per_s() > bench.read_bytes_per_s(); });
  if (is_beyond) text += "\n" + describe_caches("operands");
  if (!bench.left_out.empty()) text += "\nnot measured: " + bench.left_out + "\n";
  return text;
}

std::string to_json(const std::string& subject, const KernelBench& bench) {
  JsonWriter json;
  json.begin_object().add("subject", subject);
  if (!bench.left_out.empty()) json.add("left_out", bench.left_out);
  write_roofline(json, "machine_before", bench.before);
  write_roofline(json, "machine_after", bench.after);
  json.begin_list("operations");
  for (const KernelRow& row : bench.rows) {
    json.begin_object()
        .add("operation", row.operation)
        .add("setting", row.setting)
        .add("tokens", row.tokens)
        .add("bytes", row.bytes)
        .add("flops", row.flops)
        .add("seconds", row.seconds)
        .add("bytes_per_s", row.bytes_per_s())
        .add("flops_per_s", row.flops_per_s())
        .add("share_of_bandwidth", row.bytes_per_s() / bench.read_bytes_per_s())
        .add("share_of_peak", row.flops_per_s() / bench.peak(row.operands).flops_per_s)
        .add("peak_flops_per_s", bench.peak(row.operands).flops_per_s)
        .end_object();
  }
  json.end_list().end_object();
  return json.text() + "\n";
}

}  // namespace caption::bench
