#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::attention;
using namespace caption::testing;

TEST_SUITE_BEGIN("kernels/attention");

TEST_CASE("agrees with a double-precision loop") {
  struct Case {
    std::int64_t frames, seq_len, heads, head_dim;
    float spread;  // spread of the scores: 1 is flat, with 30 one key dominates
    DType dtype = DType::kF32;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 1},
                             {2, 3, 3, 7, 1},
                             {1, 17, 2, 64, 30},
                             {3, 128, 1, 16, 1},
                             {1, 129, 2, 72, 30},
                             {1, 577, 1, 64, 1},
                             {2, 5, 1, 256, 1},
                             {2, 3, 3, 7, 1, DType::kBF16},
                             {1, 129, 2, 72, 30, DType::kBF16},
                             {1, 577, 1, 64, 1, DType::kBF16},
                             {1, 17, 2, 64, 30, DType::kF16}};
  for (const Case& c : kCases) {
    CAPTURE(c.seq_len);
    CAPTURE(c.head_dim);
    const std::int64_t rows = c.frames * c.seq_len;
    const std::int64_t width = c.heads * c.head_dim;
    const Tensor q = random_f32({rows, c.heads, c.head_dim}, 1);
    const Tensor k = converted(random_f32({rows, c.heads, c.head_dim}, 2), c.dtype);
    const Tensor v = converted(random_f32({rows, c.heads, c.head_dim}, 3), c.dtype);
    const float scale = c.spread / std::sqrt(static_cast<float>(c.head_dim));
    const std::vector<double> ks = values(k);
    const std::vector<double> vs = values(v);
    for_each_stream([&](Stream& stream) {
      const Rounding rounding = rounding_of(stream, c.dtype);
      const std::vector<double> qs = query_values(q, rounding);
      std::vector<double> want, tolerance;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t head = 0; head < c.heads; ++head) {
          std::vector<const double*> keys, keys_values;
          for (std::int64_t j = 0; j < c.seq_len; ++j) {
            const std::int64_t at = (row / c.seq_len * c.seq_len + j) * width + head * c.head_dim;
            keys.push_back(ks.data() + at);
            keys_values.push_back(vs.data() + at);
          }
          attend_exactly(qs.data() + row * width + head * c.head_dim, keys, keys_values, c.head_dim,
                         static_cast<double>(scale), want, tolerance, rounding);
        }
      }
      Tensor y(DType::kF32, {rows, c.heads, c.head_dim});
      attention(stream,
                {.q = q.view(), .k = k.view(), .v = v.view(), .seq_len = c.seq_len, .scale = scale},
                y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("rows attend to other rows, and several heads to the keys of one") {
  struct Case {
    std::int64_t frames, seq_len, kv_len, heads, kv_heads, head_dim;
  };
  constexpr Case kCases[] = {
      {1, 7, 32, 3, 3, 8}, {3, 5, 141, 4, 2, 12}, {2, 20, 3, 4, 1, 96}, {1, 1, 1, 2, 1, 5}};
  for (const Case& c : kCases) {
    CAPTURE(c.kv_len);
    const Tensor q = random_f32({c.frames * c.seq_len, c.heads, c.head_dim}, 1);
    // K and V are columns of one projection.
    Tensor kv = random_f32({c.frames * c.kv_len, 2 * c.kv_heads * c.head_dim}, 2);
    const std::int64_t kv_dim = c.kv_heads * c.head_dim;
    const Shape key_heads = {c.frames * c.kv_len, c.kv_heads, c.head_dim};
    const float scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
    const std::vector<double> qs = values(q);
    const std::vector<double> kvs = values(kv);
    std::vector<double> want, tolerance;
    for (std::int64_t row = 0; row < q.dim(0); ++row) {
      for (std::int64_t head = 0; head < c.heads; ++head) {
        const std::int64_t group = head / (c.heads / c.kv_heads);
        std::vector<const double*> keys, keys_values;
        for (std::int64_t j = 0; j < c.kv_len; ++j) {
          const double* const key =
              kvs.data() + (row / c.seq_len * c.kv_len + j) * 2 * kv_dim + group * c.head_dim;
          keys.push_back(key);
          keys_values.push_back(key + kv_dim);
        }
        attend_exactly(qs.data() + (row * c.heads + head) * c.head_dim, keys, keys_values,
                       c.head_dim, static_cast<double>(scale), want, tolerance);
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, q.shape());
      attention(stream,
                {.q = q.view(),
                 .k = kv.view().columns(0, kv_dim).reshape(key_heads),
                 .v = kv.view().columns(kv_dim, kv_dim).reshape(key_heads),
                 .seq_len = c.seq_len,
                 .kv_len = c.kv_len,
                 .scale = scale},
                y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("a frame's result has the same bits alone and among others, with any threads") {
  constexpr std::int64_t kSeqLen = 150;
  const Tensor q = random_f32({3 * kSeqLen, 2, 24}, 4);
  const Tensor exact_k = random_f32({3 * kSeqLen, 2, 24}, 5);
  const Tensor exact_v = random_f32({3 * kSeqLen, 2, 24}, 6);
  for (const caption::CpuTier tier : TestedTiers())
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(static_cast<int>(tier));
      CAPTURE(static_cast<int>(dtype));
      const Tensor k = converted(exact_k, dtype);
      const Tensor v = converted(exact_v, dtype);
      ThreadPool three(3);
      Stream together(three, tier);
      Tensor whole(DType::kF32, {3 * kSeqLen, 2, 24});
      attention(together,
                {.q = q.view(), .k = k.view(), .v = v.view(), .seq_len = kSeqLen, .scale = 0.2F},
                whole.view());
      ThreadPool one(1);
      Stream alone(one, tier);
      Tensor frames(DType::kF32, {3 * kSeqLen, 2, 24});
      for (std::int64_t f = 0; f < 3; ++f) {
        attention(alone,
                  {.q = q.view().rows(f * kSeqLen, kSeqLen),
                   .k = k.view().rows(f * kSeqLen, kSeqLen),
                   .v = v.view().rows(f * kSeqLen, kSeqLen),
                   .seq_len = kSeqLen,
                   .scale = 0.2F},
                  frames.view().rows(f * kSeqLen, kSeqLen));
      }
      CHECK(same_bits(whole, frames));
    }
}

TEST_CASE("slices of one fused projection give the bits of dense operands") {
  constexpr std::int64_t kSeqLen = 9;
  Tensor qkv = random_f32({kSeqLen, 3 * 20}, 7);
  for_each_stream([&](Stream& stream) {
    Tensor parts[3];
    for (std::int64_t i = 0; i < 3; ++i) {
      parts[i] = Tensor(DType::kF32, {kSeqLen, 2, 10});
      caption::kernels::convert(stream, qkv.view().columns(20 * i, 20).reshape({kSeqLen, 2, 10}),
                                parts[i].view());
    }
    Tensor dense(DType::kF32, {kSeqLen, 2, 10});
    attention(stream,
              {.q = parts[0].view(),
               .k = parts[1].view(),
               .v = parts[2].view(),
               .seq_len = kSeqLen,
               .scale = 1},
              dense.view());
    Tensor strided(DType::kF32, {kSeqLen, 2, 10});
    const auto slice = [&](std::int64_t i) {
      return qkv.view().columns(20 * i, 20).reshape({kSeqLen, 2, 10});
    };
    attention(stream, {.q = slice(0), .k = slice(1), .v = slice(2), .seq_len = kSeqLen, .scale = 1},
              strided.view());
    CHECK(same_bits(dense, strided));
  });
}

TEST_CASE("wrong shapes are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor q = random_f32({6, 2, 4}, 8);
  const Tensor k = random_f32({6, 1, 4}, 9);
  Tensor y(DType::kF32, {6, 2, 4});
  CHECK_THROWS_WITH_AS(
      attention(stream, {.q = q.view(), .k = k.view(), .v = q.view(), .seq_len = 3, .scale = 1},
                y.view()),
      "attention: v is f32 [6, 2, 4] on cpu; wanted f32 [6, 1, 4]", Error);
  const Tensor rounded_v = converted(q, DType::kBF16);
  CHECK_THROWS_WITH_AS(
      attention(stream,
                {.q = q.view(), .k = q.view(), .v = rounded_v.view(), .seq_len = 3, .scale = 1},
                y.view()),
      "attention: v is bf16 [6, 2, 4] on cpu; wanted f32 [6, 2, 4]", Error);
  CHECK_THROWS_WITH_AS(
      attention(stream, {.q = q.view(), .k = q.view(), .v = q.view(), .seq_len = 4, .scale = 1},
                y.view()),
      "attention: 6 rows are not whole sequences of 4", Error);
  const Tensor long_head = random_f32({1, 1, 257}, 10);
  Tensor long_y(DType::kF32, {1, 1, 257});
  CHECK_THROWS_WITH_AS(attention(stream,
                                 {.q = long_head.view(),
                                  .k = long_head.view(),
                                  .v = long_head.view(),
                                  .seq_len = 1,
                                  .scale = 1},
                                 long_y.view()),
                       "attention: head_dim is 257; wanted 1 to 256", Error);
}

TEST_SUITE_END();
