// tests/kernels/attention_reference.h: attention of one query in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "tests/kernels/testing.h"

namespace caption::testing {

// How a tier computes with pages of a dtype: in f32, or with queries and probabilities rounded to
// bf16 (AVX512-BF16 with pages of bf16 and i8).
enum class Rounding { kF32, kBF16 };
inline Rounding rounding_of(const Stream& stream, DType pages) {
  using namespace kernels::cpu;
  const auto element = static_cast<std::size_t>(element_of(pages));
  return select_tier(stream.cpu_tier()).attention.pack[element].to_pairs ? Rounding::kBF16
                                                                         : Rounding::kF32;
}

// Returns the queries exactly as the tier multiplies them.
inline std::vector<double> query_values(const Tensor& q, Rounding rounding) {
  return rounding == Rounding::kBF16 ? values(converted(q, DType::kBF16)) : values(q);
}

// Keys between two rescalings of the sums by new maxima, and, if there are any, between two folds
// of separate sums.
struct Rescalings {
  std::int64_t step_keys = 128;
  std::int64_t split_keys = 0;

  double count(double num_keys) const {
    const double folds =
        split_keys == 0 ? 0 : std::ceil(num_keys / static_cast<double>(split_keys));
    return std::ceil(num_keys / static_cast<double>(step_keys)) + folds;
  }
};

// q, k[j], v[j] and y are [head_dim]; q is a row of query_values(). Appends y and its tolerance.
//
// The float error: a score has head_dim + 4 roundings of scale * sum|q||k|; exp() turns this into a
// relative error of each probability, which counts twice (numerator and denominator). exp() itself
// is within 4 units, each rescaling adds 4; a sum over keys
// has at most one rounding per key. Rounding a probability to bf16 adds a relative error of up to
// 2^-8 - 2^-16, once: the denominator is the sum of the unrounded probabilities. Where exp() is
// within 2^-18 only (kernels/cpu/attend_panels.cpp), its error counts twice: 2^-17 in all, so 2^-8
// bounds both.
inline void attend_exactly(const double* q, const std::vector<const double*>& k,
                           const std::vector<const double*>& v, std::int64_t head_dim, double scale,
                           std::vector<double>& y, std::vector<double>& tolerance,
                           Rounding rounding = Rounding::kF32, const Rescalings& rescalings = {}) {
  std::vector<double> scores;
  double score_error = 0;
  for (const double* key : k) {
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      sum += q[d] * key[d];
      magnitude += std::abs(q[d] * key[d]);
    }
    scores.push_back(sum * scale);
    score_error =
        std::max(score_error, (static_cast<double>(head_dim) + 4) * kUnit * magnitude * scale);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - max);
  const auto num_keys = static_cast<double>(k.size());
  const double share = 2 * score_error +
                       (1.2 * num_keys + 4 * rescalings.count(num_keys) + 16) * kUnit +
                       (rounding == Rounding::kBF16 ? 0x1p-8 : 0.0);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    double sum = 0;
    double magnitude = 0;
    for (std::size_t j = 0; j < k.size(); ++j) {
      sum += scores[j] / total * v[j][d];
      magnitude += scores[j] / total * std::abs(v[j][d]);
    }
    y.push_back(sum);
    tolerance.push_back(share * magnitude);
  }
}

}  // namespace caption::testing
