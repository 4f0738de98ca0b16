// kernels/cpu/attend_items.h: tiles of attention handed out to threads, each with a workspace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/parallel.h"

namespace caption::kernels::cpu {

// Calls work(item, workspace) for the items of [0, count), one after the other as threads become
// free: they cost very different amounts. `operations` is the work of one, roughly. `workspaces`
// has one of attend_workspace_bytes(head_dim) for each of the stream's threads.
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
