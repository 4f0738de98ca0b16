// bench/internal/report_parts.h: parts common to several reports: the machine's rates and
// summaries.
#pragma once

#include <string>

#include "base/json_writer.h"
#include "bench/roofline.h"
#include "bench/statistics.h"

namespace caption::bench {

// Returns text such as "32.1 GB/s read, 1.02 TFLOP/s bf16".
std::string describe(const Roofline& roofline);
// Returns the line "machine before: ...; after: ...; on 2 threads" with its newline, or that of a
// GPU.
std::string describe_machine(const Roofline& before, const Roofline& after);
void write_roofline(JsonWriter& json, const char* name, const Roofline& roofline);
void write_summary(JsonWriter& json, const char* name, const Summary& summary);

}  // namespace caption::bench
