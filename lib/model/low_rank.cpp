#include "model/internal/low_rank.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/linear.h"
#include "tensor/dtype.h"

namespace caption::model {
namespace {

// Rows of the product B A that are held at a time while it is added.
constexpr std::int64_t kMergeRows = 256;

// s * matrix as f32.
Tensor scaled(ConstView matrix, float scale) {
  Tensor out(DType::kF32, matrix.shape());
  dispatch_float(matrix.dtype(), [&](auto tag) {
    const auto* const from = matrix.as<decltype(tag)>();
    std::transform(from, from + matrix.num_elements(), out.as<float>(),
                   [&](auto value) { return scale * to_float(value); });
  });
  return out;
}

Tensor transposed(ConstView matrix) {
  const std::int64_t rows = matrix.dim(0);
  const std::int64_t columns = matrix.dim(1);
  Tensor out(DType::kF32, {columns, rows});
  dispatch_float(matrix.dtype(), [&](auto tag) {
    const auto* const from = matrix.as<decltype(tag)>();
    float* const to = out.as<float>();
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) to[j * rows + i] = to_float(from[i * columns + j]);
    }
  });
  return out;
}

// merged += s * B A
void add_term(Stream& host, const LoraTerm& term, Tensor& merged) {
  const Tensor columns = transposed(term.a);  // [in, r]
  const kernels::Weight a(std::as_const(columns).view());
  const Tensor b = scaled(term.b, 1);
  const std::int64_t width = merged.dim(1);
  Tensor product(DType::kF32, {std::min(kMergeRows, merged.dim(0)), width});
  for (std::int64_t first = 0; first < merged.dim(0); first += kMergeRows) {
    const std::int64_t count = std::min(kMergeRows, merged.dim(0) - first);
    kernels::linear(host, b.view().rows(first, count), a, ConstView{},
                    product.view().rows(0, count));
    const float* const delta = product.as<float>();
    float* const to = merged.as<float>() + first * width;
    for (std::int64_t i = 0; i < count * width; ++i) to[i] += delta[i] * term.scale;
  }
}

}  // namespace

void AdapterTerms::add(Stream& stream, ParameterId parameter, const LoraTerm& term) {
  scaled_.push_back(scaled(term.b, term.scale));
  LowRank low_rank{.a = kernels::place_stored(stream, term.a),
                   .b = kernels::place_stored(stream, std::as_const(scaled_.back()).view())};
  if (!low_rank.b.is_borrowed()) scaled_.pop_back();
  max_rank_ = std::max(max_rank_, term.a.dim(0));
  size_bytes_ += low_rank.a.size_bytes() + low_rank.b.size_bytes();
  const bool is_new = terms_.emplace(parameter, std::move(low_rank)).second;
  CAPTION_CHECK(is_new, "an adapter with two terms for one parameter");
}

Tensor merge(Stream& stream, ConstView weight, std::span<const LoraTerm> terms) {
  Tensor merged(DType::kF32, weight.shape());
  Stream host(stream.pool(), stream.cpu_tier());
  kernels::convert(host, weight, merged.view());
  for (const LoraTerm& term : terms) add_term(host, term, merged);
  return merged;
}

void LowRankLayers::reserve(std::int64_t max_rows) {
  std::int64_t rank = 0;
  for (const std::vector<AdapterTerms>* const list : {&adapters_.always, &adapters_.chosen}) {
    for (const AdapterTerms& terms : *list) rank = std::max(rank, terms.max_rank());
  }
  if (rank > 0) inner_.view({max_rows, rank});
}

// Calls visit(term, first, count) for ranges of the rows, relative to rows.first.
template <class Visit>
void LowRankLayers::for_each_term(ParameterId weight, const Rows& rows, Visit visit) const {
  for (const AdapterTerms& terms : adapters_.always) {
    if (const LowRank* const term = terms.find(weight)) visit(*term, std::int64_t{0}, rows.count);
  }
  for (const AdaptedRows& adapted : rows.adapted) {
    const std::int64_t first = std::max<std::int64_t>(adapted.first_row, rows.first);
    const std::int64_t end = std::min<std::int64_t>(
        std::int64_t{adapted.first_row} + adapted.num_rows, rows.first + rows.count);
    if (first >= end) continue;
    const LowRank* const term =
        adapters_.chosen[static_cast<std::size_t>(adapted.adapter)].find(weight);
    if (term != nullptr) visit(*term, first - rows.first, end - first);
  }
}

bool LowRankLayers::change(ParameterId weight, const Rows& rows) const {
  bool is_found = false;
  for_each_term(weight, rows, [&](const LowRank&, std::int64_t, std::int64_t) { is_found = true; });
  return is_found;
}

void LowRankLayers::add(Stream& stream, ParameterId weight, const Rows& rows, ConstView x, View y) {
  for_each_term(weight, rows, [&](const LowRank& term, std::int64_t first, std::int64_t count) {
    const View inner = inner_.view({count, term.a.num_features()});
    kernels::linear(stream, x.rows(first, count), term.a, ConstView{}, inner);
    kernels::linear_add(stream, inner, term.b, ConstView{}, y.rows(first, count));
  });
}

}  // namespace caption::model
