// bench/internal/operations_json.h: writes a profile as JSON.
#pragma once

#include <vector>

#include "base/json_writer.h"
#include "bench/profile_report.h"

namespace caption::bench {

// Writes the list "operations".
void write_operations(JsonWriter& json, const std::vector<OperationTime>& operations);

}  // namespace caption::bench
