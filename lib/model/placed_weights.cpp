#include "model/internal/placed_weights.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "backend/cpu_tier.h"
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "kernels/convert.h"
#include "weights/quantise.h"

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

ConstView read_floating(weights::Source& source, const std::string& name, const Shape& shape) {
  const ConstView tensor = source.read(name, shape);
  const DType dtype = tensor.dtype();
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    throw Error(ErrorCode::kBadModel, source.name() + ": tensor " + name + " holds " +
                                          std::string(dtype_name(dtype)) +
                                          "; weights of f32, bf16 or f16 were expected");
  }
  return tensor;
}

kernels::PackedWeight pack_bf16(ConstView source) {
  ThreadPool pool = make_pool(source.num_elements());
  if (source.dtype() == DType::kBF16) return kernels::PackedWeight::pack_panels(pool, source);
  const Tensor rounded = round_to_bf16(source);
  return kernels::PackedWeight::pack_panels(pool, rounded.view());
}

kernels::PackedWeight pack_quantised(ConstView source, MatrixFormat format) {
  ThreadPool pool = make_pool(source.num_elements());
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return weights::quantise(source.rows(first, count), format);
  };
  return format == MatrixFormat::kInt8Row
             ? kernels::PackedWeight::pack_8a8(pool, source.dim(0), rows)
             : kernels::PackedWeight::pack_quantised(pool, source.dim(0), rows);
}

// Returns the first prefix under which the source has `name`.
const std::string& find_prefix(const weights::Source& source,
                               const std::vector<std::string>& prefixes, const std::string& name) {
  std::string tried;
  for (const std::string& prefix : prefixes) {
    if (source.has(prefix + name)) return prefix;
    tried += (tried.empty() ? "" : ", ") + prefix + name;
  }
  throw Error(ErrorCode::kBadModel,
              source.name() + ": tensor " + name + " is missing (looked for " + tried + ")");
}

}  // namespace

PlacedWeights::PlacedWeights(const Blueprint& blueprint,
                             std::vector<std::unique_ptr<weights::Source>> sources,
                             weights::WeightFormat format)
    : format_(format), sources_(std::move(sources)) {
  placed_.reserve(blueprint.parameters.size());
  const auto require_no_further_layer = [&](const weights::Source& source,
                                            const std::string& prefix) {
    const std::string layer = "layers." + std::to_string(blueprint.text->num_layers) + ".";
    if (!source.has(prefix + layer + "input_layernorm.weight")) return;
    throw Error(ErrorCode::kBadModel, source.name() + ": has tensors of " + prefix + layer +
                                          "*, but num_hidden_layers is " +
                                          std::to_string(blueprint.text->num_layers) +
                                          "; the configuration is another model's");
  };
  std::int32_t group = -1;
  std::string prefix;
  for (const Parameter& parameter : blueprint.parameters) {
    const ParameterGroup& owner = blueprint.groups[static_cast<std::size_t>(parameter.group)];
    weights::Source& source = *sources_.at(static_cast<std::size_t>(owner.source));
    if (std::exchange(group, parameter.group) != parameter.group) {
      prefix = find_prefix(source, owner.prefixes, parameter.name);
      if (owner.part == Part::kDecoder) require_no_further_layer(source, prefix);
    }
    place(parameter, source, prefix + parameter.name);
  }
}

void PlacedWeights::place(const Parameter& parameter, weights::Source& source,
                          const std::string& name) {
  const MatrixFormat held = weights::matrix_format(format_, parameter.role);
  const bool is_matrix = parameter.role != Role::kVector && parameter.role != Role::kEmbedding;
  const bool is_bf16 = held == MatrixFormat::kBF16;
  const bool is_packed = is_matrix && held != MatrixFormat::kStored &&
                         (!is_bf16 || kernels::prefers_panels(choose_cpu_tier()));
  Placed placed;
  if (is_packed) {
    const ConstView file = read_floating(source, name, parameter.shape);
    const ConstView rows = file.reshape({parameter.rows(), parameter.columns()});
    try {
      placed.matrix = is_bf16 ? pack_bf16(rows) : pack_quantised(rows, held);
    } catch (const Error& error) {
      throw Error(error.code(), source.name() + ": tensor " + name + ": " + error.what());
    }
    source.release(name);
    size_bytes_ += placed.matrix.size_bytes();
  } else {
    placed.plain = place_plain(parameter, source, name);
    if (parameter.role != Role::kVector) {
      placed.matrix = placed.plain.reshape({parameter.rows(), parameter.columns()});
    }
  }
  placed_.push_back(std::move(placed));
}

ConstView PlacedWeights::place_plain(const Parameter& parameter, weights::Source& source,
                                     const std::string& name) {
  ConstView tensor = read_floating(source, name, parameter.shape);
  if (format_ != weights::WeightFormat::kF32 && tensor.dtype() != DType::kBF16) {
    rounded_.push_back(round_to_bf16(tensor));
    tensor = std::as_const(rounded_.back()).view();
    source.release(name);
  }
  size_bytes_ +=
      tensor.num_elements() * static_cast<std::int64_t>(dtype_size_bytes(tensor.dtype()));
  return tensor;
}

}  // namespace caption::model
