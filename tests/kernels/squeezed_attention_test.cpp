// Key clusters, and attention to the clusters that a query selects.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "kernels/key_clusters.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/one_layer.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::KeyClusters;
using namespace caption::testing;

namespace {

// Recomputes in double precision the clusters to which at least one query of the group gives a
// share of at least `threshold`. `margin` becomes the smallest relative distance of a share from
// the threshold.
std::vector<bool> select_exactly(Layer& layer, const Clusters& clusters, std::int64_t row,
                                 std::int64_t g, double threshold, double& margin) {
  const std::int64_t count = clusters.sizes.dim(1);
  const std::int64_t head_dim = layer.q.dim(2);
  const std::int64_t group = layer.q.dim(1) / layer.k.dim(1);
  std::vector<bool> selected(static_cast<std::size_t>(count), false);
  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
    std::vector<double> share;
    double total = 0;
    for (std::int64_t c = 0; c < count; ++c) {
      double score = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        score +=
            static_cast<double>(layer.q.as<float>()[(row * layer.q.dim(1) + h) * head_dim + d]) *
            static_cast<double>(clusters.centroids.as<float>()[(g * count + c) * head_dim + d]);
      }
      share.push_back(clusters.sizes.as<std::int32_t>()[g * count + c] *
                      std::exp(score * static_cast<double>(Batch::kScale)));
      total += share.back();
    }
    for (std::size_t c = 0; c < share.size(); ++c) {
      margin = std::min(margin, std::abs(share[c] / total / threshold - 1));
      if (share[c] / total >= threshold) selected[c] = true;
    }
  }
  return selected;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/squeezed_attention");

TEST_CASE("clusters partition the keys, hold their means, and find keys that point together") {
  constexpr std::int64_t kFirst = 4, kCount = 60, kClusters = 4, kHeadDim = 12;
  for (const DType dtype : kPageDTypes) {
    CAPTURE(dtype_name(dtype));
    for_each_stream([&](Stream& stream) {
      Layer layer(dtype, 70, 2, 2, kHeadDim);
      // Four directions in turn, of lengths 1 to 3, plus noise.
      for (std::int64_t t = kFirst; t < kFirst + kCount; ++t) {
        for (std::int64_t i = 0; i < 2 * kHeadDim; ++i) {
          float& x = layer.k.as<float>()[t * 2 * kHeadDim + i];
          x = 0.1F * x + (i % kHeadDim / 3 == t % 4 ? 1.0F + static_cast<float>(t % 3) : 0.0F);
        }
      }
      layer.write(stream);
      const Clusters clusters(stream, layer, kFirst, kCount, kClusters);
      for (std::int64_t g = 0; g < 2; ++g) {
        const std::int32_t* const of = clusters.cluster_of.as<std::int32_t>() + g * kCount;
        int parted = 0;
        for (std::int64_t j = 0; j < kCount; ++j) {
          REQUIRE(of[j] >= 0);
          REQUIRE(of[j] < kClusters);
          parted += of[j] != of[j % 4];
        }
        CHECK(parted == 0);
        std::vector<double> want(kClusters * kHeadDim, 0.0), tolerance(kClusters * kHeadDim, 0.0);
        std::vector<std::int32_t> sizes(kClusters, 0);
        for (std::int64_t j = 0; j < kCount; ++j) ++sizes[static_cast<std::size_t>(of[j])];
        for (std::int64_t j = 0; j < kCount; ++j) {
          const std::vector<double> key = layer.stored(true, kFirst + j, g);
          for (std::size_t d = 0; d < kHeadDim; ++d) {
            const std::size_t at = static_cast<std::size_t>(of[j]) * kHeadDim + d;
            want[at] += key[d] / sizes[static_cast<std::size_t>(of[j])];
            tolerance[at] += std::abs(key[d]) * 2 * kUnit;
          }
        }
        CHECK(std::equal(sizes.begin(), sizes.end(),
                         clusters.sizes.as<std::int32_t>() + g * kClusters));
        check_close(clusters.centroids.as<float>() + g * kClusters * kHeadDim, want, tolerance);
      }
    });
  }
}

TEST_CASE("the same keys give the same clusters on any number of threads") {
  for (const auto tier : TestedTiers()) {
    ThreadPool one(1), three(3);
    Stream alone(one, tier), together(three, tier);
    Layer layer(DType::kBF16, 130, 3, 3, 20);
    layer.write(alone);
    const Clusters a(alone, layer, 7, 110, 13);
    const Clusters b(together, layer, 7, 110, 13);
    CHECK(same_bits(a.centroids, b.centroids));
    CHECK(same_bits(a.sizes, b.sizes));
    CHECK(same_bits(a.cluster_of, b.cluster_of));
  }
}

TEST_CASE("with threshold 0 attention by clusters has the bits of full attention") {
  for (const DType dtype : kPageDTypes) {
    CAPTURE(dtype_name(dtype));
    for_each_stream([&](Stream& stream) {
      // With one key head there are 20 queries per token, more than a tile holds.
      for (const std::int64_t kv_heads : {4, 1}) {
        Layer layer(dtype, 300, 20, kv_heads, 16);
        layer.write(stream);
        Clusters clusters(stream, layer, 3, 280, 17);
        Batch batch(layer, 2, 300);
        const Tensor full = batch.attend(stream);
        const KeyClusters* const by_sequence[] = {&clusters.view, nullptr};
        batch.context.clusters = by_sequence;
        CHECK(same_bits(full, batch.attend(stream)));
        clusters.view.threshold = 0.2F;
        CHECK_FALSE(same_bits(full, batch.attend(stream)));
      }
    });
  }
}

TEST_CASE("attention is exact over the chosen clusters and all outside of them") {
  constexpr std::int64_t kLength = 90, kFirst = 5, kCount = 70, kHeads = 4, kKvHeads = 2;
  constexpr std::int64_t kHeadDim = 24;
  constexpr float kThreshold = 0.09F;
  for (const DType dtype : kPageDTypes) {
    CAPTURE(dtype_name(dtype));
    for_each_stream([&](Stream& stream) {
      Layer layer(dtype, kLength, kHeads, kKvHeads, kHeadDim);
      layer.write(stream);
      Clusters clusters(stream, layer, kFirst, kCount, 10);
      clusters.view.threshold = kThreshold;
      Batch batch(layer, 3, kLength);
      const KeyClusters* const by_sequence[] = {&clusters.view, nullptr};
      batch.context.clusters = by_sequence;
      const Tensor got = batch.attend(stream);

      const Rounding rounding = rounding_of(stream, dtype);
      const std::vector<double> q = query_values(layer.q, rounding);
      std::vector<double> want, tolerance;
      double margin = 1;
      std::size_t num_chosen = 0;
      for (std::int64_t row = kLength - 3; row < kLength; ++row) {
        for (std::int64_t h = 0; h < kHeads; ++h) {
          const std::int64_t g = h / (kHeads / kKvHeads);
          const std::vector<bool> selected =
              select_exactly(layer, clusters, row, g, static_cast<double>(kThreshold), margin);
          std::vector<std::vector<double>> vectors;
          for (std::int64_t j = 0; j <= row; ++j) {
            const bool is_fixed = j >= kFirst && j < kFirst + kCount;
            if (is_fixed && !selected[static_cast<std::size_t>(
                                clusters.cluster_of.as<std::int32_t>()[g * kCount + j - kFirst])]) {
              continue;
            }
            num_chosen += is_fixed;
            vectors.push_back(layer.stored(true, j, g));
            vectors.push_back(layer.stored(false, j, g));
          }
          std::vector<const double*> keys, key_values;
          for (std::size_t j = 0; j < vectors.size(); j += 2) {
            keys.push_back(vectors[j].data());
            key_values.push_back(vectors[j + 1].data());
          }
          attend_exactly(q.data() + (row * kHeads + h) * kHeadDim, keys, key_values, kHeadDim,
                         static_cast<double>(Batch::kScale), want, tolerance, rounding);
        }
      }
      // No share is so near the threshold that rounding decides, and the selection is not trivial.
      REQUIRE(margin > 1e-4);
      CHECK(num_chosen > 0);
      CHECK(num_chosen < 3 * kHeads * kCount);
      check_close(got.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("a row has the bits it has alone, in rows of several and beside other sequences") {
  for_each_stream([&](Stream& stream) {
    Layer layer(DType::kI8, 200, 4, 2, 16);
    layer.write(stream);
    Clusters clusters(stream, layer, 10, 150, 12);
    clusters.view.threshold = 0.1F;
    const KeyClusters* const by_sequence[] = {&clusters.view, nullptr};
    Batch three(layer, 3, 200);
    three.context.clusters = by_sequence;
    const Tensor all = three.attend(stream);
    const std::int64_t size = 4 * 16;
    for (std::int64_t i = 0; i < 3; ++i) {
      Batch one(layer, 1, 198 + i);
      one.context.clusters = by_sequence;
      const Tensor alone = one.attend(stream);
      CHECK(std::equal(alone.as<float>(), alone.as<float>() + size, all.as<float>() + i * size));
    }
    // The sequence without clusters has full attention, as in a batch without clusters.
    const Tensor full = Batch(layer, 3, 200).attend(stream);
    CHECK(std::equal(full.as<float>() + 3 * size, full.as<float>() + 10 * size,
                     all.as<float>() + 3 * size));
  });
}

TEST_CASE("clusters that are not the context's are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  Layer layer(DType::kF32, 30, 2, 1, 8);
  layer.write(stream);
  Clusters clusters(stream, layer, 0, 29, 3);
  Batch batch(layer, 2, 30);
  const KeyClusters* by_sequence[] = {&clusters.view, nullptr};
  batch.context.clusters = by_sequence;
  CHECK_THROWS_WITH_AS(batch.attend(stream),
                       doctest::Contains("clusters of tokens up to 29 where the first query stands "
                                         "at 28"),
                       Error);
  batch.context.clusters = std::span(by_sequence, 1);
  CHECK_THROWS_WITH_AS(batch.attend(stream), "paged_attention: clusters of 1 sequences; wanted 2",
                       Error);
  CHECK_THROWS_WITH_AS(Clusters(stream, layer, 0, 4, 5),
                       doctest::Contains("5 clusters of 4 tokens"), Error);
}

TEST_SUITE_END();
