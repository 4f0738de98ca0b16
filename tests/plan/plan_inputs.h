// tests/plan/plan_inputs.h: what the tests of plans share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "plan/known_models.h"
#include "plan/plan.h"

namespace caption::plan {

// A plan of a known model on a machine of 30 GB/s and 200 GFLOP/s.
inline PlanInput input_for(const char* name, std::int64_t memory_bytes = 16LL << 30) {
  PlanInput input;
  input.model = find_known_model(name).value();
  input.device_name = "a machine";
  input.memory_bytes = memory_bytes;
  input.rates = {.bytes_per_s = 30e9, .flops_per_s = 200e9, .source = "given"};
  return input;
}

inline bool has_warning(const Plan& plan, const char* part) {
  return std::any_of(plan.warnings.begin(), plan.warnings.end(), [&](const std::string& warning) {
    return warning.find(part) != std::string::npos;
  });
}

}  // namespace caption::plan
