// bench/internal/kernel_timer.h: times calls and keeps the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "bench/kernel_bench.h"
#include "tensor/tensor.h"

namespace caption::bench {

// One thread at a time.
class KernelTimer {
 public:
  KernelTimer(Stream& stream, const KernelBenchOptions& options)
      : stream_(stream), options_(options) {}

  Stream& stream() const { return stream_; }
  const KernelBenchOptions& options() const { return options_; }
  // Copies of an operand of so many bytes that no cache holds together.
  std::int64_t num_copies(std::int64_t bytes_each) const;
  // call(turn) with turn = 0, 1, 2, ...: which copy is its own to choose. Fills in row.seconds.
  void add(KernelRow row, const std::function<void(std::int64_t turn)>& call);
  std::vector<KernelRow> take_rows() { return std::move(rows_); }

 private:
  Stream& stream_;
  const KernelBenchOptions& options_;
  std::vector<KernelRow> rows_;
};

// Numbers between -1 and 1, the same every time.
Tensor random_tensor(DType dtype, const Shape& shape);

void bench_text(KernelTimer& timer, const model::TextShape& shape);
void bench_vision(KernelTimer& timer, const model::VisionShape& shape);

// A dense layer in every layout, at each of `tokens`.
void bench_linear(KernelTimer& timer, const std::string& name, const model::LinearShape& matrix,
                  const std::vector<std::int64_t>& tokens);
// linear_swiglu, gate and up being of `matrix` each.
void bench_swiglu(KernelTimer& timer, const model::LinearShape& matrix,
                  const std::vector<std::int64_t>& tokens);

}  // namespace caption::bench
