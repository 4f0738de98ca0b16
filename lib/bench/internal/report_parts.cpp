#include "bench/internal/report_parts.h"

#include <algorithm>

#include "base/counted.h"
#include "base/figures.h"

namespace caption::bench {

std::string describe(const Roofline& roofline) {
  return format_si(roofline.read_bytes_per_s) + "B/s " + (roofline.is_gpu ? "copied" : "read") +
         ", " + format_si(roofline.flops_per_s) + "FLOP/s " + std::string(roofline.arithmetic);
}

std::string describe_machine(const Roofline& before, const Roofline& after) {
  std::string text = before.is_gpu ? "GPU" : "machine";
  text += " before: " + describe(before) + "; after: " + describe(after) + "; ";
  return text +
         (before.is_gpu ? format_si(before.upload_bytes_per_s) + "B/s from the host"
                        : "on " + counted(before.num_threads, "thread")) +
         "\n";
}

std::string describe_caches(const std::string& what) {
  return "more bytes a second than the memory gives: " + what + " stay in the caches\n";
}

void write_roofline(JsonWriter& json, const char* name, const Roofline& roofline) {
  json.begin_object(name)
      .add("read_bytes_per_s", roofline.read_bytes_per_s)
      .add("flops_per_s", roofline.flops_per_s)
      .add("f32_flops_per_s", roofline.f32_flops_per_s)
      .add("arithmetic", roofline.arithmetic);
  if (roofline.own_int8_flops_per_s > 0) {
    json.add("int8_flops_per_s", roofline.own_int8_flops_per_s);
  }
  if (roofline.own_int4_flops_per_s > 0) {
    json.add("int4_flops_per_s", roofline.own_int4_flops_per_s);
  }
  if (roofline.is_gpu) {
    json.add("upload_bytes_per_s", roofline.upload_bytes_per_s)
        .add("download_bytes_per_s", roofline.download_bytes_per_s);
  } else {
    json.add("threads", static_cast<std::int64_t>(roofline.num_threads));
  }
  json.end_object();
}

void write_summary(JsonWriter& json, const char* name, const Summary& summary) {
  json.begin_object(name)
      .add("count", summary.count)
      .add("mean", summary.mean)
      .add("p50", summary.p50)
      .add("p90", summary.p90)
      .add("p99", summary.p99)
      .end_object();
}

void write_interval(JsonWriter& json, const char* name, const MedianInterval& interval) {
  json.begin_object(name)
      .add("median", interval.median)
      .add("low", interval.low)
      .add("high", interval.high)
      .add("rounds", interval.count)
      .end_object();
}

std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t num_names) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += i == 0 ? "" : "  ";
      text += i < num_names ? pad_right(line[i], widths[i]) : pad_left(line[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace caption::bench
