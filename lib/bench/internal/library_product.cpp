#include "bench/internal/library_product.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "bench/internal/kernel_timer.h"
#include "bench/statistics.h"
#include "tensor/copy.h"
#include "tensor/tensor.h"

namespace caption::bench {
namespace {

// Above the L2 of every card.
constexpr std::int64_t kCopiesBytes = 128LL << 20;
constexpr int kMostCopies = 64;
constexpr std::int64_t kBlockElements = 1LL << 20;
// A round is to be long beside the microseconds of a launch.
constexpr double kRoundSeconds = 1e-3;
constexpr int kMostCalls = 256;

// Equal blocks of random numbers.
Tensor random_rows(Stream& stream, DType dtype, std::int64_t rows, std::int64_t columns) {
  const std::int64_t block_rows = std::clamp<std::int64_t>(kBlockElements / columns, 1, rows);
  const Tensor block = random_tensor(dtype, {block_rows, columns});
  Tensor made(dtype, {rows, columns}, stream.device());
  for (std::int64_t row = 0; row < rows; row += block_rows) {
    const std::int64_t count = std::min(block_rows, rows - row);
    copy(stream, block.view().rows(0, count), made.view().rows(row, count));
  }
  stream.synchronize();
  return made;
}

class TimedProduct {
 public:
  TimedProduct(Stream& stream, const CublasLt& library, const CublasLtShape& shape)
      : stream_(&stream), product_(library.plan(shape)) {
    const DType dtype = shape.is_bf16 ? DType::kBF16 : DType::kF16;
    x_ = random_rows(stream, dtype, shape.rows, shape.columns);
    const std::int64_t bytes = shape.features * shape.columns * 2;
    const std::int64_t copies =
        std::clamp<std::int64_t>((kCopiesBytes + bytes - 1) / bytes, 1, kMostCopies);
    for (std::int64_t i = 0; i < copies; ++i) {
      weights_.push_back(random_rows(stream, dtype, shape.features, shape.columns));
    }
    y_ = Tensor::zeros(DType::kF32, {shape.rows, shape.features}, stream.device());
  }

  double median_seconds(int num_rounds) {
    int best = 0;
    double best_seconds = 0;
    for (int algorithm = 0; algorithm < product_.num_algorithms(); ++algorithm) {
      seconds_of(algorithm, 1);  // the library may load its kernel
      const double seconds = seconds_of(algorithm, 1);
      if (algorithm > 0 && seconds >= best_seconds) continue;
      best = algorithm;
      best_seconds = seconds;
    }
    const int calls = static_cast<int>(
        std::clamp(kRoundSeconds / std::max(best_seconds, 1e-9), 1.0, double{kMostCalls}));
    std::vector<double> seconds;
    for (int round = 0; round < num_rounds; ++round) seconds.push_back(seconds_of(best, calls));
    return median(std::move(seconds));
  }

 private:
  // Seconds of one of so many calls.
  double seconds_of(int algorithm, int calls) {
    const Event begin = stream_->record();
    for (int i = 0; i < calls; ++i) {
      next_ = (next_ + 1) % weights_.size();
      product_.multiply(*stream_, algorithm, std::as_const(x_).view().raw(),
                        std::as_const(weights_[next_]).view().raw(),
                        static_cast<float*>(y_.view().raw()));
    }
    const Event end = stream_->record();
    return std::chrono::duration<double>(end.since(begin)).count() / calls;
  }

  Stream* stream_;
  CublasLt::Product product_;
  Tensor x_;
  std::vector<Tensor> weights_;
  std::size_t next_ = 0;
  Tensor y_;
};

}  // namespace

double time_library_product(Stream& stream, const CublasLt& library, const CublasLtShape& shape,
                            int num_rounds) {
  return TimedProduct(stream, library, shape).median_seconds(num_rounds);
}

}  // namespace caption::bench
