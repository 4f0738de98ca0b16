#include "kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/paged_cache.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::kv_write;
using caption::kernels::paged_attention;
using caption::kernels::PagedContext;
using namespace caption::testing;

namespace {

std::vector<Tensor> outputs(const PagedModel& model) {
  std::vector<Tensor> out;
  for (const std::int64_t length : model.lengths) {
    out.emplace_back(DType::kF32, caption::Shape{length, model.heads, model.head_dim});
  }
  return out;
}

// Computes all prompts in one step.
std::vector<Tensor> run_whole(Stream& stream, const PagedModel& model, DType dtype,
                              std::int64_t page_tokens) {
  PagedCache cache(model, dtype, page_tokens);
  std::vector<Tensor> out = outputs(model);
  cache.step(stream, model.lengths, out);
  return out;
}

// Computes in chunks whose lengths differ between steps and sequences, including 0 and 1.
std::vector<Tensor> run_chunked(Stream& stream, const PagedModel& model, DType dtype,
                                std::int64_t page_tokens) {
  PagedCache cache(model, dtype, page_tokens);
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

// Indexed by sequence: the exact attention over the keys as stored, and a tier's tolerance.
struct Exact {
  std::vector<std::vector<double>> y, tolerance;
};

Exact exact_outputs(const PagedModel& model, DType dtype, Rounding rounding) {
  Exact exact;
  for (std::size_t s = 0; s < model.lengths.size(); ++s) {
    const std::vector<double> q = query_values(model.q[s], rounding);
    const std::vector<double> k = values(converted(model.k[s], dtype));
    const std::vector<double> v = values(converted(model.v[s], dtype));
    exact.y.emplace_back();
    exact.tolerance.emplace_back();
    for (std::int64_t i = 0; i < model.lengths[s]; ++i) {
      for (std::int64_t h = 0; h < model.heads; ++h) {
        std::vector<const double*> keys, keys_values;
        for (std::int64_t j = 0; j <= i; ++j) {
          const std::int64_t at =
              (j * model.kv_heads + h / (model.heads / model.kv_heads)) * model.head_dim;
          keys.push_back(k.data() + at);
          keys_values.push_back(v.data() + at);
        }
        attend_exactly(q.data() + (i * model.heads + h) * model.head_dim, keys, keys_values,
                       model.head_dim, static_cast<double>(model.scale()), exact.y.back(),
                       exact.tolerance.back(), rounding);
      }
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

TEST_SUITE_BEGIN("kernels/paged_attention");

TEST_CASE("agrees with a double-precision loop over the keys as stored") {
  struct Case {
    std::int64_t heads, kv_heads, head_dim;
    std::vector<std::int64_t> lengths;
    DType dtype;
    std::int64_t page_tokens;
  };
  const Case kCases[] = {{1, 1, 1, {1}, DType::kF32, 16},
                         {4, 2, 24, {17, 1, 130}, DType::kBF16, 16},
                         {16, 8, 128, {40}, DType::kF32, 16},
                         {6, 2, 65, {33, 5}, DType::kF16, 7},
                         {20, 1, 16, {50}, DType::kBF16, 64}};
  for (const Case& c : kCases) {
    CAPTURE(c.heads);
    CAPTURE(c.head_dim);
    const PagedModel model(c.heads, c.kv_heads, c.head_dim, c.lengths);
    const Exact exact[] = {exact_outputs(model, c.dtype, Rounding::kF32),
                           exact_outputs(model, c.dtype, Rounding::kBF16)};
    for_each_stream([&](Stream& stream) {
      const Exact& want = exact[static_cast<int>(rounding_of(stream, c.dtype))];
      const std::vector<Tensor> got = run_whole(stream, model, c.dtype, c.page_tokens);
      for (std::size_t s = 0; s < got.size(); ++s) {
        check_close(got[s].as<float>(), want.y[s], want.tolerance[s]);
      }
    });
  }
}

TEST_CASE("whole prompts, chunks, page sizes and threads all give the same bits") {
  // Lengths around a tile (16), a block of keys (128) and two blocks.
  const PagedModel model(4, 2, 40, {1, 16, 129, 300});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(dtype));
      CAPTURE(static_cast<int>(tier));
      ThreadPool one(1);
      Stream alone(one, tier);
      ThreadPool three(3);
      Stream together(three, tier);
      const std::vector<Tensor> whole = run_whole(alone, model, dtype, 16);
      CHECK(count_different(whole, run_whole(together, model, dtype, 16)) == 0);
      CHECK(count_different(whole, run_chunked(together, model, dtype, 16)) == 0);
      CHECK(count_different(whole, run_chunked(alone, model, dtype, 5)) == 0);
      CHECK(count_different(whole, run_whole(alone, model, dtype, 512)) == 0);
    }
  }
}

TEST_CASE("a sequence has the bits it has alone, whoever shares the step") {
  const PagedModel crowd(4, 2, 40, {90, 7, 33});
  const PagedModel single(4, 2, 40, {90});  // the same seeds give the same sequence
  for_each_stream([&](Stream& stream) {
    for (const DType dtype : {DType::kBF16, DType::kI8}) {
      const std::vector<Tensor> among = run_chunked(stream, crowd, dtype, 16);
      const std::vector<Tensor> alone = run_whole(stream, single, dtype, 16);
      CHECK(same_bits(among[0], alone[0]));
    }
  });
}

TEST_CASE("over pages is the same, bit for bit, as dense attention over the same keys") {
  constexpr std::int64_t kLength = 200;
  const PagedModel model(3, 3, 64, {kLength});
  for_each_stream([&](Stream& stream) {
    const std::vector<Tensor> paged = run_whole(stream, model, DType::kF32, 16);
    Tensor dense(DType::kF32, {kLength, 3, 64});
    caption::kernels::attention(stream,
                                {.q = model.q[0].view(),
                                 .k = model.k[0].view(),
                                 .v = model.v[0].view(),
                                 .seq_len = kLength,
                                 .scale = model.scale()},
                                dense.view());
    // In both operations the last query sees every key.
    constexpr std::int64_t kRow = 3 * 64;
    CHECK(std::equal(dense.as<float>() + (kLength - 1) * kRow, dense.as<float>() + kLength * kRow,
                     paged[0].as<float>() + (kLength - 1) * kRow));
  });
}

TEST_CASE("scores far beyond exp's range still give probabilities") {
  PagedModel model(2, 1, 8, {140});
  for (std::int64_t i = 0; i < model.q[0].num_elements(); ++i) model.q[0].as<float>()[i] *= 1000;
  for_each_stream([&](Stream& stream) {
    const std::vector<Tensor> got = run_whole(stream, model, DType::kF32, 16);
    float largest = 0;
    for (std::int64_t i = 0; i < got[0].num_elements(); ++i) {
      REQUIRE(std::isfinite(got[0].as<float>()[i]));
      largest = std::max(largest, std::abs(got[0].as<float>()[i]));
    }
    CHECK(largest <= 1.0F + 1e-5F);  // y is a mean of values in [-1, 1)
  });
}

TEST_CASE("indices that lead out of the pages are refused before anything is read") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor q = random_f32({2, 2, 4}, 1);
  const Tensor kv = random_f32({2, 1, 4}, 2);
  Tensor pages = Tensor::zeros(DType::kF32, {3, 4, 1, 4});
  Tensor y(DType::kF32, {2, 2, 4});
  struct Case {
    const char* name;
    std::vector<std::int32_t> cu, lens, table;
    const char* message;
  };
  const Case kCases[] = {
      {"page too large", {0, 2}, {6}, {0, 3}, "page 3 is not one of 3"},
      {"page unset", {0, 2}, {6}, {0, -1}, "page -1 is not one of 3"},
      {"context too long", {0, 2}, {9}, {0, 1}, "a context of 9 tokens needs more pages"},
      {"context too short", {0, 2}, {1}, {0, 1}, "a context of 1 tokens is shorter"},
      {"rows missing", {0, 1}, {5}, {0, 1}, "cu_seqlens runs from 0 to 1; wanted 0 to 2"}};
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor cu = indices(c.cu);
    const Tensor lens = indices(c.lens);
    const Tensor table = indices(c.table);
    std::string message;
    try {
      paged_attention(stream, q.view(),
                      {.k_pages = pages.view(),
                       .v_pages = pages.view(),
                       .cu_seqlens = cu.view(),
                       .context_lens = lens.view(),
                       .block_tables = table.view().reshape({1, 2})},
                      1, y.view());
    } catch (const Error& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find(c.message) != std::string::npos);
  }
  for (const std::int32_t slot : {-1, 12}) {
    const Tensor slots = indices({0, slot});
    CHECK_THROWS_AS(kv_write(stream, kv.view(), kv.view(), slots.view(),
                             {.k = pages.view(), .v = pages.view()}),
                    Error);
  }
}

TEST_CASE("wrong shapes are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor q = random_f32({1, 3, 4}, 3);
  const Tensor pages = Tensor::zeros(DType::kF32, {3, 4, 2, 4});
  const Tensor other = Tensor::zeros(DType::kBF16, {3, 4, 2, 4});
  const Tensor cu = indices({0, 1});
  const Tensor lens = indices({1});
  const Tensor table = indices({0});
  Tensor y(DType::kF32, {1, 3, 4});
  PagedContext context{.k_pages = pages.view(),
                       .v_pages = pages.view(),
                       .cu_seqlens = cu.view(),
                       .context_lens = lens.view(),
                       .block_tables = table.view().reshape({1, 1})};
  CHECK_THROWS_WITH_AS(paged_attention(stream, q.view(), context, 1, y.view()),
                       "paged_attention: 3 query heads cannot share 2 key heads evenly", Error);
  context.v_pages = other.view();
  CHECK_THROWS_WITH_AS(
      paged_attention(stream, q.view(), context, 1, y.view()),
      "paged_attention: v_pages is bf16 [3, 4, 2, 4] on cpu; wanted f32 [3, 4, 2, 4]", Error);
  Tensor k_pages = Tensor::zeros(DType::kF32, {3, 4, 2, 5});
  CHECK_THROWS_WITH_AS(
      kv_write(stream, q.view(), q.view(), lens.view(), {.k = k_pages.view(), .v = k_pages.view()}),
      "kv_write: k_pages is f32 [3, 4, 2, 5] on cpu; wanted f32, bf16, f16 or i8 [3, 4, 3, 4]",
      Error);
}

TEST_SUITE_END();
