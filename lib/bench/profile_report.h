// bench/profile_report.h: time of a run's steps by operation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/profile.h"
#include "model/blueprint.h"

namespace caption::bench {

// Display name of a decoder matrix: "gate, up" for two that one operation computes together, and
// "o; lm_head" for two of the same size, which a profile cannot tell apart.
struct NamedMatrix {
  std::string name;
  model::LinearSpec matrix;
};

// Returns one entry for each size among a decoder's dense operations: q, k, v; o; gate, up; down;
// lm_head.
std::vector<NamedMatrix> named_matrices(const model::DecoderSpec& shape);

struct OperationTime {
  std::string name;  // "linear_swiglu gate, up", "paged_attention"
  std::int64_t calls = 0;
  double seconds = 0;
  model::LinearSpec matrix = {};  // a dense layer's matrix; out is 0 for other operations
};

// Name of the time outside operations: planning, building batches, checking for the end of
// captions.
inline constexpr std::string_view kBetweenOperations = "scheduler, bookkeeping";

// Sorts by time, longest first, and names dense layers by the model's matrices. The rest of
// `total_seconds` (time inside Engine::step() or a tower) is listed as kBetweenOperations.
std::vector<OperationTime> name_operations(const std::vector<Profile::Entry>& entries,
                                           const std::vector<NamedMatrix>& matrices,
                                           double total_seconds);

// One line per operation: calls, milliseconds per step or frame (`count` of them), share of the
// total.
std::string profile_table(const std::vector<OperationTime>& operations, std::int64_t count,
                          const std::string& unit = "ms/step");

}  // namespace caption::bench
