// bench/internal/kernel_timer.h: times calls and collects the results as rows.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "bench/kernel_bench.h"
#include "tensor/tensor.h"

namespace caption::bench {

// Not thread-safe.
class KernelTimer {
 public:
  KernelTimer(Stream& stream, const KernelBenchOptions& options)
      : stream_(stream), options_(options) {}

  Stream& stream() const { return stream_; }
  const KernelBenchOptions& options() const { return options_; }
  // Number of copies of an operand of this size that together exceed the caches.
  std::int64_t num_copies(std::int64_t bytes_each) const;
  // Times call(turn), turn = 0, 1, 2, ...; the callee picks the copy of the operands by `turn`.
  // Fills in row.seconds and stores the row.
  void add(KernelRow row, const std::function<void(std::int64_t turn)>& call);
  std::vector<KernelRow> take_rows() { return std::move(rows_); }

 private:
  Stream& stream_;
  const KernelBenchOptions& options_;
  std::vector<KernelRow> rows_;
};

// Numbers between -1 and 1 from a fixed seed.
Tensor random_tensor(DType dtype, const Shape& shape);

}  // namespace caption::bench
