#include "model/internal/weight_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "kernels/convert.h"

namespace caption::model {
namespace {

Tensor round_to_bf16(ConstView tensor) {
  const int num_threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  // Threads pay off from a few megabytes on.
  ThreadPool pool(tensor.num_elements() < (1 << 20) ? 1 : num_threads);
  Stream stream(pool);
  Tensor rounded(DType::kBF16, tensor.shape());
  kernels::convert(stream, tensor, rounded.view());
  return rounded;
}

}  // namespace

WeightStore::WeightStore(weights::Checkpoint checkpoint, WeightType type)
    : checkpoint_(std::move(checkpoint)), type_(type) {}

ConstView WeightStore::require(const std::string& name, const Shape& shape) {
  ConstView tensor = checkpoint_.require(name, shape);
  const DType dtype = tensor.dtype();
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Error(ErrorCode::kBadModel, checkpoint_.path().string() + ": tensor " + name + " holds " +
                                          std::string(dtype_name(dtype)) +
                                          "; weights of f32, bf16 or f16 were expected");
  }
  if (type_ == WeightType::kBF16 && dtype != DType::kBF16) {
    rounded_.push_back(round_to_bf16(tensor));
    tensor = std::as_const(rounded_.back()).view();
  }
  used_bytes_ +=
      tensor.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(tensor.dtype()));
  return tensor;
}

LinearWeights WeightStore::require_linear(const std::string& stem, std::int64_t out,
                                          std::int64_t in, Bias bias) {
  LinearWeights linear;
  linear.weight = require(stem + ".weight", {out, in});
  if (bias == Bias::kRequired) linear.bias = require(stem + ".bias", {out});
  return linear;
}

std::string WeightStore::find_prefix(std::span<const std::string_view> prefixes,
                                     std::string_view anchor) const {
  std::string tried;
  for (const std::string_view prefix : prefixes) {
    const std::string name = std::string(prefix) + std::string(anchor);
    if (checkpoint_.find(name)) return std::string(prefix);
    tried += (tried.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorCode::kBadModel, checkpoint_.path().string() + ": tensor " +
                                        std::string(anchor) + " is missing (looked for " + tried +
                                        ")");
}

}  // namespace caption::model
