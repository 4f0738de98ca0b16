// Attention over a sliding window: what each row sees, and that nothing else is read.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/attention_mass.h"
#include "kernels/paged_attention.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/one_layer.h"
#include "tests/kernels/paged_cache.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::AttentionWatch;
using namespace caption::testing;

namespace {

std::vector<Tensor> outputs(const PagedModel& model) {
  std::vector<Tensor> out;
  for (const std::int64_t length : model.lengths) {
    out.emplace_back(DType::kF32, caption::Shape{length, model.heads, model.head_dim});
  }
  return out;
}

struct Pages {
  DType dtype = DType::kF32;
  std::int64_t page_tokens = 16;
  std::int64_t window = 0;
};

// Computes all prompts in one step.
std::vector<Tensor> run_whole(Stream& stream, const PagedModel& model, const Pages& pages) {
  PagedCache cache(model, pages.dtype, pages.page_tokens, pages.window);
  std::vector<Tensor> out = outputs(model);
  cache.step(stream, model.lengths, out);
  return out;
}

// Computes in chunks whose lengths differ between steps and sequences, including 0 and 1.
std::vector<Tensor> run_chunked(Stream& stream, const PagedModel& model, const Pages& pages) {
  PagedCache cache(model, pages.dtype, pages.page_tokens, pages.window);
  std::vector<Tensor> out = outputs(model);
  std::vector<std::int64_t> left = model.lengths;
  constexpr std::int64_t kChunks[] = {3, 1, 0, 17, 1, 40, 1, 2, 100};
  for (std::size_t step = 0; std::any_of(left.begin(), left.end(), [](auto n) { return n > 0; });
       ++step) {
    std::vector<std::int64_t> counts;
    for (std::size_t s = 0; s < left.size(); ++s) {
      counts.push_back(std::min(left[s], kChunks[(step + 2 * s) % std::size(kChunks)]));
      left[s] -= counts.back();
    }
    cache.step(stream, counts, out);
  }
  return out;
}

struct Exact {
  std::vector<double> y, tolerance;
};

// The exact attention of sequence `s` over the keys as stored, and a tier's tolerance.
Exact exact_outputs(const PagedModel& model, std::size_t s, const Pages& pages, Rounding rounding) {
  Exact exact;
  const std::vector<double> q = query_values(model.q[s], rounding);
  const std::vector<double> k = values(converted(model.k[s], pages.dtype));
  const std::vector<double> v = values(converted(model.v[s], pages.dtype));
  for (std::int64_t i = 0; i < model.lengths[s]; ++i) {
    for (std::int64_t h = 0; h < model.heads; ++h) {
      std::vector<const double*> keys, keys_values;
      for (std::int64_t j = std::max<std::int64_t>(i - pages.window + 1, 0); j <= i; ++j) {
        const std::int64_t at =
            (j * model.kv_heads + h / (model.heads / model.kv_heads)) * model.head_dim;
        keys.push_back(k.data() + at);
        keys_values.push_back(v.data() + at);
      }
      attend_exactly(q.data() + (i * model.heads + h) * model.head_dim, keys, keys_values,
                     model.head_dim, static_cast<double>(model.scale()), exact.y, exact.tolerance,
                     rounding);
    }
  }
  return exact;
}

int count_different(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  int different = 0;
  for (std::size_t s = 0; s < a.size(); ++s) different += !same_bits(a[s], b[s]);
  return different;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/window_attention");

TEST_CASE("a row sees the last keys of its window, and no other key is read") {
  struct Case {
    std::int64_t heads, kv_heads, head_dim;
    std::vector<std::int64_t> lengths;
    Pages pages;
  };
  const Case kCases[] = {{1, 1, 4, {9}, {DType::kF32, 16, 1}},
                         {4, 2, 24, {70, 1, 200}, {DType::kBF16, 16, 5}},
                         {2, 1, 64, {150}, {DType::kF32, 16, 128}},
                         {6, 2, 20, {140, 33}, {DType::kF16, 7, 64}},
                         {20, 1, 16, {300}, {DType::kBF16, 64, 67}}};
  for (const Case& c : kCases) {
    CAPTURE(c.pages.window);
    const PagedModel model(c.heads, c.kv_heads, c.head_dim, c.lengths);
    std::vector<Exact> exact[2];
    for (std::size_t s = 0; s < c.lengths.size(); ++s) {
      exact[0].push_back(exact_outputs(model, s, c.pages, Rounding::kF32));
      exact[1].push_back(exact_outputs(model, s, c.pages, Rounding::kBF16));
    }
    for_each_stream([&](Stream& stream) {
      const auto& want = exact[static_cast<int>(rounding_of(stream, c.pages.dtype))];
      for (const bool is_chunked : {false, true}) {
        const std::vector<Tensor> got =
            is_chunked ? run_chunked(stream, model, c.pages) : run_whole(stream, model, c.pages);
        for (std::size_t s = 0; s < got.size(); ++s) {
          check_close(got[s].as<float>(), want[s].y, want[s].tolerance);
        }
      }
    });
  }
}

TEST_CASE("whole prompts, chunks, page sizes and threads all give the same bits in a window") {
  const PagedModel model(4, 2, 40, {1, 16, 129, 300});
  for (const DType dtype : kPageDTypes) {
    for (const std::int64_t window : {1, 33, 64, 100, 131}) {
      for (const CpuTier tier : TestedTiers()) {
        CAPTURE(dtype_name(dtype));
        CAPTURE(window);
        CAPTURE(static_cast<int>(tier));
        ThreadPool one(1);
        Stream alone(one, tier);
        ThreadPool three(3);
        Stream together(three, tier);
        const std::vector<Tensor> whole = run_whole(alone, model, {dtype, 16, window});
        CHECK(count_different(whole, run_whole(together, model, {dtype, 512, window})) == 0);
        CHECK(count_different(whole, run_chunked(together, model, {dtype, 16, window})) == 0);
        CHECK(count_different(whole, run_chunked(alone, model, {dtype, 5, window})) == 0);
      }
    }
  }
}

TEST_CASE("a window as long as the sequence has the bits of none") {
  const PagedModel model(4, 2, 40, {5, 200});
  for_each_stream([&](Stream& stream) {
    for (const DType dtype : kPageDTypes) {
      const std::vector<Tensor> none = run_chunked(stream, model, {.dtype = dtype});
      CHECK(count_different(none, run_chunked(stream, model, {.dtype = dtype, .window = 200})) ==
            0);
      CHECK(count_different(none, run_chunked(stream, model, {.dtype = dtype, .window = 9000})) ==
            0);
      CHECK(count_different(none, run_chunked(stream, model, {.dtype = dtype, .window = 199})) ==
            1);
    }
  });
}

TEST_CASE("attention mass is that of the window, in any chunks") {
  constexpr std::int64_t kLength = 150, kRows = 40, kHeads = 6, kKvHeads = 2, kHeadDim = 17;
  constexpr std::int64_t kWindow = 45;
  for_each_stream([&](Stream& stream) {
    Layer layer(DType::kI8, kLength, kHeads, kKvHeads, kHeadDim);
    layer.write(stream);
    // Pages that no row sees leave the table.
    for (std::int64_t i = 0; (i + 1) * kPageTokens <= kLength - kRows - kWindow + 1; ++i) {
      layer.table[static_cast<std::size_t>(i)] = -1;
    }
    const auto watch = [&](Tensor& sums, std::int64_t rows, std::int64_t context_len) {
      Batch batch(layer, rows, context_len);
      batch.context.window = kWindow;
      const AttentionWatch watches[] = {{.num_rows = rows, .sums = sums.view()}};
      caption::kernels::attention_mass(stream, batch.q.view(), batch.context, Batch::kScale,
                                       watches);
    };
    Tensor whole = Tensor::zeros(DType::kF32, {kKvHeads, kLength});
    watch(whole, kRows, kLength);
    Tensor pieces = Tensor::zeros(DType::kF32, {kKvHeads, kLength});
    std::int64_t context_len = kLength - kRows;
    for (const std::int64_t rows : {1, 20, 3, 16}) watch(pieces, rows, context_len += rows);
    CHECK(same_bits(whole, pieces));
    const std::int64_t first = kLength - kRows - kWindow + 1;
    for (std::int64_t g = 0; g < kKvHeads; ++g) {
      const float* const mass = whole.as<float>() + g * kLength;
      CHECK(std::all_of(mass, mass + first, [](float x) { return x == 0; }));
      CHECK(std::all_of(mass + first, mass + kLength, [](float x) { return x > 0; }));
      double total = 0;
      for (std::int64_t j = 0; j < kLength; ++j) total += static_cast<double>(mass[j]);
      // Every probability is rounded, divided and added: at most 8 roundings of kWindow terms.
      constexpr double kTotal = kRows * kHeads / kKvHeads;
      CHECK(std::abs(total - kTotal) < kTotal * 8 * kWindow * kUnit);
    }
  });
}

TEST_CASE("attention mass of one row and head is its softmax over the window") {
  constexpr std::int64_t kLength = 140, kHeadDim = 8, kWindow = 20;
  for_each_stream([&](Stream& stream) {
    Layer layer(DType::kF32, kLength, 1, 1, kHeadDim);
    layer.write(stream);
    Batch batch(layer, 1, kLength);
    batch.context.window = kWindow;
    Tensor sums = Tensor::zeros(DType::kF32, {1, kLength});
    const AttentionWatch watches[] = {{.num_rows = 1, .sums = sums.view()}};
    caption::kernels::attention_mass(stream, batch.q.view(), batch.context, Batch::kScale, watches);
    const std::vector<double> q = values(layer.q);
    std::vector<double> want(kLength, 0.0), tolerance(kLength, 0.0);
    double total = 0;
    for (std::int64_t j = kLength - kWindow; j < kLength; ++j) {
      const std::vector<double> key = layer.stored(true, j, 0);
      double score = 0;
      for (std::size_t d = 0; d < kHeadDim; ++d) score += q[(kLength - 1) * kHeadDim + d] * key[d];
      want[static_cast<std::size_t>(j)] = std::exp(score * static_cast<double>(Batch::kScale));
      total += want[static_cast<std::size_t>(j)];
    }
    for (std::size_t j = 0; j < kLength; ++j) {
      want[j] /= total;
      tolerance[j] = want[j] * (2 * kHeadDim + kWindow + 24) * kUnit;
    }
    check_close(sums.as<float>(), want, tolerance);
  });
}

TEST_CASE("a window excludes key clusters, and pages inside it must be there") {
  ThreadPool pool(1);
  Stream stream(pool);
  Layer layer(DType::kF32, 40, 2, 1, 8);
  layer.write(stream);
  Clusters clusters(stream, layer, 4, 20, 3);
  Batch batch(layer, 2, 40);
  batch.context.window = -1;
  CHECK_THROWS_WITH_AS(batch.attend(stream), "paged_attention: window is -1", Error);
  batch.context.window = 30;
  CHECK_NOTHROW(batch.attend(stream));
  const caption::kernels::KeyClusters* const of_sequences[] = {&clusters.view, nullptr};
  batch.context.clusters = of_sequences;
  CHECK_THROWS_WITH_AS(batch.attend(stream),
                       "paged_attention: key clusters and a window cannot be combined", Error);
  // The first row is at position 38 and sees the keys from 9 on: page 1 of 5 tokens.
  layer.table[0] = -1;
  Batch released(layer, 2, 40);
  released.context.window = 30;
  CHECK_NOTHROW(released.attend(stream));
  layer.table[1] = -1;
  Batch missing(layer, 2, 40);
  missing.context.window = 30;
  CHECK_THROWS_WITH_AS(missing.attend(stream), doctest::Contains("page -1 is not one of"), Error);
}

TEST_SUITE_END();
