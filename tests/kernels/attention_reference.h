// tests/kernels/attention_reference.h: attention of one query in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/testing.h"

namespace caption::testing {

// q, k[j], v[j] and y are [head_dim]. Appends y and its tolerance.
//
// Float error: a score passes head_dim / 8 + 8 roundings of scale * sum|q||k|; through exp it
// becomes a relative error of every probability, twice (numerator and denominator). exp itself is
// good to 4 units, the rescaling by block maxima adds 4 per block of 128 keys; the sums over keys
// pass at most one rounding per key.
inline void attend_exactly(const double* q, const std::vector<const double*>& k,
                           const std::vector<const double*>& v, std::int64_t head_dim, double scale,
                           std::vector<double>& y, std::vector<double>& tolerance) {
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
        std::max(score_error, (static_cast<double>(head_dim) / 8 + 8) * kUnit * magnitude * scale);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - max);
  const auto num_keys = static_cast<double>(k.size());
  const double share =
      2 * score_error + (1.2 * num_keys + 4 * std::ceil(num_keys / 128) + 16) * kUnit;
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
