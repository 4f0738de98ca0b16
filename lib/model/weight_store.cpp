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

// Several threads are worthwhile from a few megabytes on.
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

std::optional<weights::QuantisedFormat> quantised_format(WeightType type, Part part) {
  using weights::QuantisedFormat;
  const bool is_quantised = type != WeightType::kF32 && type != WeightType::kBF16;
  if (!is_quantised || part == Part::kOther) return std::nullopt;
  if (type == WeightType::kW8A8) return QuantisedFormat::kInt8Row;
  if (part == Part::kLmHead) return QuantisedFormat::kInt8;
  switch (type) {
    case WeightType::kInt4: return QuantisedFormat::kInt4;
    case WeightType::kNf4: return QuantisedFormat::kNf4;
    default: return QuantisedFormat::kInt8;
  }
}

std::int64_t size_of(ConstView tensor) {
  return tensor.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(tensor.dtype()));
}

}  // namespace

WeightStore::WeightStore(weights::Checkpoint checkpoint, WeightType type)
    : checkpoint_(std::move(checkpoint)),
      type_(type),
      packs_(type != WeightType::kF32 && kernels::prefers_panels(choose_cpu_tier())) {}

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
  if (type_ != WeightType::kF32 && tensor.dtype() != DType::kBF16) {
    rounded_.push_back(round_to_bf16(tensor));
    tensor = std::as_const(rounded_.back()).view();
  }
  used_bytes_ += size_of(tensor);
  return tensor;
}

kernels::PackedWeight WeightStore::pack_bf16(ThreadPool& pool, ConstView source) const {
  if (source.dtype() == DType::kBF16) return kernels::PackedWeight::pack_panels(pool, source);
  const Tensor rounded = round_to_bf16(source);
  return kernels::PackedWeight::pack_panels(pool, rounded.view());
}

kernels::PackedWeight WeightStore::pack_quantised(ThreadPool& pool, const std::string& name,
                                                  ConstView source,
                                                  weights::QuantisedFormat format) const {
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return weights::quantise(source.rows(first, count), format);
  };
  try {
    return format == weights::QuantisedFormat::kInt8Row
               ? kernels::PackedWeight::pack_8a8(pool, source.dim(0), rows)
               : kernels::PackedWeight::pack_quantised(pool, source.dim(0), rows);
  } catch (const Error& error) {
    throw Error(error.code(),
                checkpoint_.path().string() + ": tensor " + name + ": " + error.what());
  }
}

kernels::PackedWeight WeightStore::require_matrix(const std::string& name, const Shape& shape,
                                                  Part part) {
  const Shape matrix = {shape[0], shape.num_elements() / shape[0]};
  const std::optional<weights::QuantisedFormat> format = quantised_format(type_, part);
  if (!packs_ && !format) return require(name, shape).reshape(matrix);
  const ConstView source = require_floating(name, shape);
  ThreadPool pool = make_pool(source.num_elements());
  kernels::PackedWeight packed = format
                                     ? pack_quantised(pool, name, source.reshape(matrix), *format)
                                     : pack_bf16(pool, source.reshape(matrix));
  packed_sources_.push_back(source);
  release_pages(
      {static_cast<const std::byte*>(source.raw()), static_cast<std::size_t>(size_of(source))});
  used_bytes_ += packed.size_bytes();
  return packed;
}

LinearWeights WeightStore::require_linear(const std::string& stem, std::int64_t out,
                                          std::int64_t in, Bias bias, Part part) {
  LinearWeights linear;
  // Under w8a8 the linear layers of tower and projector are quantised like the decoder's layers;
  // other matrices of kind kOther are not.
  const Part held_as =
      part == Part::kOther && type_ == WeightType::kW8A8 ? Part::kDecoderLayer : part;
  linear.weight = require_matrix(stem + ".weight", {out, in}, held_as);
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
