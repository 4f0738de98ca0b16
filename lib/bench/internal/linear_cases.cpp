#include <algorithm>
#include <array>
#include <utility>

#include "bench/internal/kernel_cases.h"
#include "kernels/linear.h"
#include "kernels/weight.h"
#include "weights/quantise.h"

namespace caption::bench {
namespace {

using kernels::Weight;

struct WeightFormat {
  const char* name;
  MatrixFormat format;
};

constexpr std::array kWeightFormats = {
    WeightFormat{"bf16", MatrixFormat::kBF16},    WeightFormat{"int8", MatrixFormat::kInt8},
    WeightFormat{"w8a8", MatrixFormat::kInt8Row}, WeightFormat{"int4", MatrixFormat::kInt4},
    WeightFormat{"w4a8", MatrixFormat::kInt4A8},  WeightFormat{"nf4", MatrixFormat::kNf4},
};

Weight place(Stream& stream, MatrixFormat format, ConstView rows) {
  if (format == MatrixFormat::kBF16) return kernels::place_bf16(stream, rows);
  return kernels::place_quantised(stream, format, rows.dim(0),
                                  [&](std::int64_t first, std::int64_t count) {
                                    return weights::quantise(rows.rows(first, count), format);
                                  });
}

// A weight in enough copies to exceed the caches. A weight borrows its rows, so each copy needs
// rows.
struct Copies {
  std::vector<Tensor> rows;
  std::vector<Weight> weights;

  const Weight& at(std::int64_t turn) const {
    return weights[static_cast<std::size_t>(turn % std::ssize(weights))];
  }
};

Copies make_copies(const KernelTimer& timer, const WeightFormat& format, const Tensor& rows) {
  Copies copies;
  copies.weights.push_back(place(timer.stream(), format.format, rows.view()));
  const std::int64_t count = timer.num_copies(copies.weights.front().size_bytes());
  const bool is_borrowed = copies.weights.front().is_borrowed();
  while (std::ssize(copies.weights) < count) {
    if (is_borrowed) copies.rows.push_back(rows.clone());
    const ConstView source = is_borrowed ? std::as_const(copies.rows.back()).view() : rows.view();
    copies.weights.push_back(place(timer.stream(), format.format, source));
  }
  return copies;
}

}  // namespace

void bench_linear(KernelTimer& timer, const std::string& name, const model::LinearSpec& matrix,
                  const std::vector<std::int64_t>& tokens) {
  const Tensor rows = random_tensor(DType::kBF16, {matrix.out, matrix.in});
  const std::int64_t most_tokens = *std::max_element(tokens.begin(), tokens.end());
  const Tensor x = random_tensor(DType::kF32, {most_tokens, matrix.in});
  Tensor y(DType::kF32, {most_tokens, matrix.out});
  for (const WeightFormat& format : kWeightFormats) {
    const Copies copies = make_copies(timer, format, rows);
    for (const std::int64_t m : tokens) {
      KernelRow row{.operation = "linear " + name, .setting = format.name, .tokens = m};
      row.operands = operands_of(format.format);
      row.bytes = static_cast<double>(copies.weights.front().size_bytes() +
                                      4 * m * (matrix.in + matrix.out));
      row.flops = 2 * static_cast<double>(m * matrix.num_weights());
      timer.add(std::move(row), [&](std::int64_t turn) {
        kernels::linear(timer.stream(), x.view().rows(0, m), copies.at(turn), ConstView{},
                        y.view().rows(0, m));
      });
    }
  }
}

void bench_swiglu(KernelTimer& timer, const model::LinearSpec& matrix,
                  const std::vector<std::int64_t>& tokens) {
  const Tensor rows = random_tensor(DType::kBF16, {matrix.out, matrix.in});
  const std::int64_t most_tokens = *std::max_element(tokens.begin(), tokens.end());
  const Tensor x = random_tensor(DType::kF32, {most_tokens, matrix.in});
  Tensor y(DType::kF32, {most_tokens, matrix.out});
  for (const WeightFormat& format : kWeightFormats) {
    const Copies gate = make_copies(timer, format, rows);
    const Copies up = make_copies(timer, format, rows);
    for (const std::int64_t m : tokens) {
      KernelRow row{.operation = "linear_swiglu gate, up", .setting = format.name, .tokens = m};
      row.operands = operands_of(format.format);
      row.bytes = static_cast<double>(2 * gate.weights.front().size_bytes() +
                                      4 * m * (matrix.in + matrix.out));
      row.flops = 4 * static_cast<double>(m * matrix.num_weights());
      timer.add(std::move(row), [&](std::int64_t turn) {
        kernels::linear_swiglu(timer.stream(), x.view().rows(0, m), {gate.at(turn)}, {up.at(turn)},
                               y.view().rows(0, m));
      });
    }
  }
}

}  // namespace caption::bench
