#include "bench/internal/report_parts.h"

#include "base/counted.h"
#include "base/figures.h"

namespace caption::bench {

std::string describe(const Roofline& roofline) {
  return format_si(roofline.read_bytes_per_s) + "B/s read, " + format_si(roofline.flops_per_s) +
         "FLOP/s " + std::string(roofline.arithmetic);
}

std::string describe_machine(const Roofline& before, const Roofline& after) {
  return "machine before: " + describe(before) + "; after: " + describe(after) + "; on " +
         counted(before.num_threads, "thread") + "\n";
}

void write_roofline(JsonWriter& json, const char* name, const Roofline& roofline) {
  json.begin_object(name)
      .add("read_bytes_per_s", roofline.read_bytes_per_s)
      .add("flops_per_s", roofline.flops_per_s)
      .add("f32_flops_per_s", roofline.f32_flops_per_s)
      .add("arithmetic", roofline.arithmetic)
      .add("threads", static_cast<std::int64_t>(roofline.num_threads))
      .end_object();
}

void write_summary(JsonWriter& json, const char* name, const Summary& summary) {
  json.begin_object(name)
      .add("mean", summary.mean)
      .add("p50", summary.p50)
      .add("p90", summary.p90)
      .add("p99", summary.p99)
      .end_object();
}

}  // namespace caption::bench
