#include "model/internal/weight_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "kernels/convert.h"

namespace caption::model {
namespace {

// Threads pay off from a few megabytes on.
ThreadPool make_pool(std::int64_t num_elements) {
  const int num_threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  return ThreadPool(num_elements < (1 << 20) ? 1 : num_threads);
}

Tensor round_to_bf16(ConstView tensor) {
  ThreadPool pool = make_pool(tensor.num_elements());
  Stream stream(pool);
  Tensor rounded(DType::kBF16, tensor.shape());
  kernels::convert(stream, tensor, rounded.view());
  return rounded;
}

std::int64_t size_of(ConstView tensor) {
  return tensor.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(tensor.dtype()));
}

}  // namespace

WeightStore::WeightStore(weights::Checkpoint checkpoint, WeightType type)
    : checkpoint_(std::move(checkpoint)),
      type_(type),
      packs_(type == WeightType::kBF16 && kernels::prefers_panels(choose_cpu_tier())) {}

ConstView WeightStore::require_floating(const std::string& name, const Shape& shape) const {
  const ConstView tensor = checkpoint_.require(name, shape);
  const DType dtype = tensor.dtype();
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Error(ErrorCode::kBadModel, checkpoint_.path().string() + ": tensor " + name + " holds " +
                                          std::string(dtype_name(dtype)) +
                                          "; weights of f32, bf16 or f16 were expected");
  }
  return tensor;
}

ConstView WeightStore::require(const std::string& name, const Shape& shape) {
  ConstView tensor = require_floating(name, shape);
  if (type_ == WeightType::kBF16 && tensor.dtype() != DType::kBF16) {
    rounded_.push_back(round_to_bf16(tensor));
    tensor = std::as_const(rounded_.back()).view();
  }
  used_bytes_ += size_of(tensor);
  return tensor;
}

kernels::PackedWeight WeightStore::require_matrix(const std::string& name, const Shape& shape) {
  const std::int64_t in = shape.num_elements() / shape[0];
  if (!packs_) return require(name, shape).reshape({shape[0], in});
  const ConstView source = require_floating(name, shape);
  Tensor rounded;
  if (source.dtype() != DType::kBF16) rounded = round_to_bf16(source);
  const ConstView rows = rounded.empty() ? source : std::as_const(rounded).view();
  ThreadPool pool = make_pool(rows.num_elements());
  kernels::PackedWeight packed =
      kernels::PackedWeight::pack_panels(pool, rows.reshape({shape[0], in}));
  packed_sources_.push_back(source);
  release_pages(
      {static_cast<const std::byte*>(source.raw()), static_cast<std::size_t>(size_of(source))});
  used_bytes_ += packed.size_bytes();
  return packed;
}

LinearWeights WeightStore::require_linear(const std::string& stem, std::int64_t out,
                                          std::int64_t in, Bias bias) {
  LinearWeights linear;
  linear.weight = require_matrix(stem + ".weight", {out, in});
  if (bias == Bias::kRequired) linear.bias = require(stem + ".bias", {out});
  return linear;
}

void WeightStore::release_packed_sources() const {
  for (const ConstView& source : packed_sources_) {
    release_pages(
        {static_cast<const std::byte*>(source.raw()), static_cast<std::size_t>(size_of(source))});
  }
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
