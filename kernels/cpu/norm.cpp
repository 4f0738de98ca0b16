#include "kernels/norm.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_span.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

constexpr int kLanes = 16;

// sum of term(x[i]), in interleaved partial sums and a tree: the order depends on n alone.
template <class Term>
float sum_of_terms(const float* x, std::int64_t n, Term term) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(x[i + lane]);
  }
  for (int lane = 0; i < n; ++i, ++lane) lanes[lane] += term(x[i]);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

void rms_norm(Cpu, Stream& stream, ConstView x, ConstView weight, float eps, View y) {
  const auto in = cpu::row_span<const float>(x);
  const auto out = cpu::row_span<float>(y);
  const std::int64_t dim = in.dim;
  dispatch_float(weight.dtype(), [&](auto tag) {
    const auto* const w = weight.as<decltype(tag)>();
    cpu::parallel_for(stream, in.count, 2 * dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const float* const from = in[r];
        float* const to = out[r];
        const float squares = sum_of_terms(from, dim, [](float v) { return v * v; });
        const float factor = 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
        for (std::int64_t c = 0; c < dim; ++c) to[c] = from[c] * factor * to_float(w[c]);
      }
    });
  });
}

void layer_norm(Cpu, Stream& stream, ConstView x, ConstView weight, ConstView bias, float eps,
                View y) {
  const auto in = cpu::row_span<const float>(x);
  const auto out = cpu::row_span<float>(y);
  const std::int64_t dim = in.dim;
  dispatch_float(weight.dtype(), [&](auto weight_tag) {
    dispatch_float(bias.dtype(), [&](auto bias_tag) {
      const auto* const w = weight.as<decltype(weight_tag)>();
      const auto* const b = bias.as<decltype(bias_tag)>();
      cpu::parallel_for(stream, in.count, 3 * dim, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const float* const from = in[r];
          float* const to = out[r];
          const auto n = static_cast<float>(dim);
          const float mean = sum_of_terms(from, dim, [](float v) { return v; }) / n;
          const float variance =
              sum_of_terms(from, dim, [mean](float v) { return (v - mean) * (v - mean); }) / n;
          const float factor = 1.0f / std::sqrt(variance + eps);
          for (std::int64_t c = 0; c < dim; ++c) {
            to[c] = (from[c] - mean) * factor * to_float(w[c]) + to_float(b[c]);
          }
        }
      });
    });
  });
}

}  // namespace caption::kernels::impl
