// apps/caption-cli/bench_workloads.h: the synthetic workloads of `caption-cli bench`, and the
// engines that each of them compares.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/run_workload.h"
#include "bench/workload.h"
#include "bench_flags.h"
#include "engine/engine.h"

namespace caption::cli {

// The requests of flags.workload; without --requests three full batches of `largest_batch`.
bench::Workload make_workload(const BenchFlags& flags, std::int32_t largest_batch,
                              std::uint64_t seed);

// The variants that the workload compares, at each batch size of --sweep or at that of `options`.
std::vector<bench::Variant> make_variants(const BenchFlags& flags,
                                          const engine::EngineOptions& options);

}  // namespace caption::cli
