// Attention mass and compaction over one layer's pages.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "kernels/attention_mass.h"
#include "kernels/compact_kv.h"
#include "tests/kernels/one_layer.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::AttentionWatch;
using namespace caption::testing;

TEST_SUITE_BEGIN("kernels/compressed_attention");

TEST_CASE("attention mass is the sum of the rows' probabilities, in any chunks") {
  constexpr std::int64_t kLength = 150, kRows = 40, kHeads = 6, kKvHeads = 2, kHeadDim = 17;
  for (const DType dtype : kPageDTypes) {
    CAPTURE(dtype_name(dtype));
    for_each_stream([&](Stream& stream) {
      Layer layer(dtype, kLength, kHeads, kKvHeads, kHeadDim);
      layer.write(stream);
      const auto watch = [&](Tensor& sums, std::int64_t rows, std::int64_t context) {
        const Batch batch(layer, rows, context);
        const AttentionWatch watches[] = {{.num_rows = rows, .sums = sums.view()}};
        caption::kernels::attention_mass(stream, batch.q.view(), batch.context, Batch::kScale,
                                         watches);
      };
      Tensor whole = Tensor::zeros(DType::kF32, {kKvHeads, kLength});
      watch(whole, kRows, kLength);
      Tensor pieces = Tensor::zeros(DType::kF32, {kKvHeads, kLength});
      std::int64_t context = kLength - kRows;
      for (const std::int64_t rows : {1, 20, 3, 16}) watch(pieces, rows, context += rows);
      CHECK(same_bits(whole, pieces));

      std::vector<double> want(kKvHeads * kLength, 0.0), tolerance(kKvHeads * kLength, 0.0);
      for (std::int64_t i = kLength - kRows; i < kLength; ++i) {
        for (std::int64_t h = 0; h < kHeads; ++h) {
          const std::int64_t g = h / (kHeads / kKvHeads);
          // With unit vectors as values the result of attention is the probabilities.
          const std::vector<double> q = values(layer.q);
          std::vector<double> scores, errors;
          for (std::int64_t j = 0; j <= i; ++j) {
            const std::vector<double> key = layer.stored(true, j, g);
            double sum = 0, magnitude = 0;
            for (std::int64_t d = 0; d < kHeadDim; ++d) {
              const double term = q[static_cast<std::size_t>((i * kHeads + h) * kHeadDim + d)] *
                                  key[static_cast<std::size_t>(d)];
              sum += term;
              magnitude += std::abs(term);
            }
            scores.push_back(sum * static_cast<double>(Batch::kScale));
            errors.push_back(magnitude * (kHeadDim / 8.0 + 8) * kUnit);
          }
          double total = 0;
          for (const double s : scores) total += std::exp(s);
          const double error = *std::max_element(errors.begin(), errors.end());
          for (std::int64_t j = 0; j <= i; ++j) {
            const double p = std::exp(scores[static_cast<std::size_t>(j)]) / total;
            const auto at = static_cast<std::size_t>(g * kLength + j);
            want[at] += p;
            // The error as in attend_exactly(), plus a rounding of the sum for each of its terms.
            tolerance[at] += p * (2 * error + (1.2 * kLength + 24 + kRows * 3) * kUnit);
          }
        }
      }
      check_close(whole.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("a key that every row looks at has all of their mass, whatever else there is") {
  constexpr std::int64_t kLength = 150, kRows = 10, kHeads = 4, kHeadDim = 16, kKey = 37;
  for_each_stream([&](Stream& stream) {
    Layer layer(DType::kI8, kLength, kHeads, 1, kHeadDim);
    for (std::int64_t i = 0; i < kLength * kHeads * kHeadDim; ++i) {
      layer.q.as<float>()[i] = std::abs(layer.q.as<float>()[i]);
    }
    // The score is at least 16 * 0.7 * 16 * mean |q|: all other scores are so far below that their
    // probabilities vanish.
    std::fill_n(layer.k.as<float>() + kKey * kHeadDim, kHeadDim, 16.0F);
    layer.write(stream);
    const Batch batch(layer, kRows, kLength);
    Tensor sums = Tensor::zeros(DType::kF32, {1, kLength});
    const AttentionWatch watches[] = {{.num_rows = kRows, .sums = sums.view()}};
    caption::kernels::attention_mass(stream, batch.q.view(), batch.context, Batch::kScale, watches);
    const float* const mass = sums.as<float>();
    CHECK(std::max_element(mass, mass + kLength) == mass + kKey);
    CHECK(std::abs(mass[kKey] - kRows * kHeads) < 1e-3F * kRows * kHeads);
  });
}

TEST_CASE("compaction keeps what it is told to, bit for bit, and averages the rest in runs") {
  constexpr std::int64_t kLength = 23, kKvHeads = 2, kHeadDim = 9, kSummaries = 3;
  // 14 of 23 tokens are dropped, in runs of 5, 5 and 4.
  const std::vector<std::int32_t> kKept[kKvHeads] = {{0, 1, 2, 5, 9, 13, 20, 21, 22},
                                                     {3, 4, 6, 8, 10, 12, 14, 16, 18}};
  for (const DType dtype : kPageDTypes) {
    CAPTURE(dtype_name(dtype));
    for_each_stream([&](Stream& stream) {
      Layer layer(dtype, kLength, 2, kKvHeads, kHeadDim);
      layer.write(stream);
      std::vector<std::vector<double>> before[2][kKvHeads];
      for (const int half : {0, 1}) {
        for (std::int64_t g = 0; g < kKvHeads; ++g) {
          for (std::int64_t t = 0; t < kLength; ++t) {
            before[half][g].push_back(layer.stored(half == 0, t, g));
          }
        }
      }
      const Tensor other = layer.k_pages.clone();
      std::vector<std::int32_t> all = kKept[0];
      all.insert(all.end(), kKept[1].begin(), kKept[1].end());
      const Tensor kept = indices(all);
      const Tensor table = indices({layer.table.begin(), layer.table.begin() + layer.max_pages});
      caption::kernels::compact_kv(stream, {.pages = layer.pages(),
                                            .block_table = table.view(),
                                            .num_tokens = kLength,
                                            .kept = kept.view().reshape({kKvHeads, 9}),
                                            .num_summaries = kSummaries});
      // Pages 0 and 1 belong to another sequence.
      CHECK(std::equal(static_cast<const std::byte*>(other.view().raw()),
                       static_cast<const std::byte*>(other.view().rows(2, 1).raw()),
                       static_cast<const std::byte*>(layer.k_pages.view().raw())));
      // Half a step of the dtype around the mean; the step of i8 is its scale, at least max|x| /
      // 127.
      const double unit = dtype == DType::kF32   ? 8 * kUnit
                          : dtype == DType::kF16 ? 0x1p-10
                                                 : 0x1p-7;
      for (const int half : {0, 1}) {
        for (std::int64_t g = 0; g < kKvHeads; ++g) {
          const auto& old = before[half][g];
          std::set<std::int32_t> kept_set(kKept[g].begin(), kKept[g].end());
          std::vector<std::size_t> dropped;
          for (std::int32_t t = 0; t < kLength; ++t) {
            if (!kept_set.contains(t)) dropped.push_back(static_cast<std::size_t>(t));
          }
          for (std::size_t i = 0; i < 9; ++i) {
            CHECK(layer.stored(half == 0, static_cast<std::int64_t>(i), g) ==
                  old[static_cast<std::size_t>(kKept[g][i])]);
          }
          const std::size_t runs[] = {0, 5, 10, 14};
          int far = 0;
          for (std::size_t run = 0; run < 3; ++run) {
            const auto got = layer.stored(half == 0, static_cast<std::int64_t>(9 + run), g);
            for (std::size_t d = 0; d < kHeadDim; ++d) {
              double mean = 0;
              for (std::size_t i = runs[run]; i < runs[run + 1]; ++i) mean += old[dropped[i]][d];
              mean /= static_cast<double>(runs[run + 1] - runs[run]);
              far += std::abs(got[d] - mean) > unit;  // |x| <= 1
            }
          }
          CHECK(far == 0);
        }
      }
    });
  }
}

TEST_CASE("compaction refuses what it could not do") {
  ThreadPool pool(1);
  Stream stream(pool);
  Layer layer(DType::kF32, 8, 1, 1, 4);
  layer.write(stream);
  const Tensor before = layer.k_pages.clone();
  const Tensor table = indices({layer.table.begin(), layer.table.begin() + layer.max_pages});
  struct Case {
    const char* name;
    std::vector<std::int32_t> kept;
    std::int64_t num_tokens, num_summaries;
  };
  const Case kCases[] = {{"descending", {3, 1}, 8, 1},    {"twice", {3, 3}, 8, 1},
                         {"past the end", {3, 8}, 8, 1},  {"negative", {-1, 3}, 8, 1},
                         {"no summary", {3, 4}, 8, 0},    {"too many", {3, 4}, 8, 7},
                         {"more than pages", {3}, 99, 1}, {"more than tokens", {0, 1}, 1, 0}};
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor kept = indices(c.kept);
    CHECK_THROWS_AS(
        caption::kernels::compact_kv(
            stream, {.pages = layer.pages(),
                     .block_table = table.view(),
                     .num_tokens = c.num_tokens,
                     .kept = kept.view().reshape({1, static_cast<std::int64_t>(c.kept.size())}),
                     .num_summaries = c.num_summaries}),
        Error);
  }
  CHECK(same_bits(before, layer.k_pages));
}

TEST_SUITE_END();
