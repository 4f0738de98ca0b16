// bench/profile_report.h: where each millisecond of a run's steps went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/profile.h"
#include "model/model_shape.h"

namespace caption::bench {

// What a matrix of a model is called: "gate, up" for two, one below the other, in one operation;
// "o; lm_head" where two have one size.
struct NamedMatrix {
  std::string name;
  model::LinearShape matrix;
};

// One for each size among those of a decoder's dense operations: q, k, v; o; gate, up; down;
// lm_head.
std::vector<NamedMatrix> named_matrices(const model::TextShape& shape);

struct OperationTime {
  std::string name;  // "linear_swiglu gate, up", "paged_attention"
  std::int64_t calls = 0;
  double seconds = 0;
};

// What no operation names: planning a step, building its batch, looking for ends of captions.
inline constexpr std::string_view kBetweenOperations = "scheduler, bookkeeping";

// The longest first; dense layers by the names of the model's matrices. What is left of
// `total_seconds` (inside Engine::step(), or of a tower) is kBetweenOperations.
std::vector<OperationTime> name_operations(const std::vector<Profile::Entry>& entries,
                                           const std::vector<NamedMatrix>& matrices,
                                           double total_seconds);

// A line for each: calls, milliseconds of one of `count` steps or frames, and the share of all.
std::string profile_table(const std::vector<OperationTime>& operations, std::int64_t count,
                          const std::string& unit = "ms/step");

}  // namespace caption::bench
