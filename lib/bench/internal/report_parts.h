// bench/internal/report_parts.h: parts common to several reports: the machine's rates and
// summaries.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "bench/roofline.h"
#include "bench/statistics.h"

namespace caption::bench {

// Returns text such as "32.1 GB/s read, 1.02 TFLOP/s bf16".
std::string describe(const Roofline& roofline);
// Returns the line "machine before: ...; after: ...; on 2 threads" with its newline, or that of a
// GPU.
std::string describe_machine(const Roofline& before, const Roofline& after);
// Returns the line that explains a share of the bandwidth above 100 %: `what` stays in the caches.
std::string describe_caches(const std::string& what);
void write_roofline(JsonWriter& json, const char* name, const Roofline& roofline);
void write_summary(JsonWriter& json, const char* name, const Summary& summary);
void write_interval(JsonWriter& json, const char* name, const MedianInterval& interval);

// Returns lines of cells, all of as many as the first, in columns: the first `num_names` are
// aligned left, the others right. There is a line at least.
std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t num_names);

}  // namespace caption::bench
