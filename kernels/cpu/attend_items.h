// kernels/cpu/attend_items.h: distribution of attention tiles over threads, one workspace per
// thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/parallel.h"

namespace caption::kernels::cpu {

// Calls work(item, workspace) for each item of [0, count). Threads take items one at a time because
// items differ much in cost. `operations` is the approximate work of one item. `workspaces` holds
// one workspace of workspace_bytes (attend_workspace_bytes(head_dim)) per thread of the stream's
// pool.
template <class Work>
void for_each_tile(Stream& stream, std::int64_t count, std::int64_t operations,
                   std::byte* workspaces, std::size_t workspace_bytes, const Work& work) {
  const std::int64_t worth = std::max<std::int64_t>(
      1, count * std::min(operations, kMinOperationsPerRange) / kMinOperationsPerRange);
  const std::int64_t workers = std::min<std::int64_t>({stream.pool().num_threads(), count, worth});
  std::atomic<std::int64_t> next = 0;
  const auto take_items = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t worker = begin; worker < end; ++worker) {
      std::byte* const workspace = workspaces + static_cast<std::size_t>(worker) * workspace_bytes;
      for (std::int64_t item = next++; item < count; item = next++) work(item, workspace);
    }
  };
  stream.pool().parallel_for(workers, 1, std::cref(take_items));
}

}  // namespace caption::kernels::cpu
