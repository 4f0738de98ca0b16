// Attention with bf16 keys, which the tiers that multiply bf16 compute in panels of queries and
// blocks of keys; all tiers must pass.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::attention;
using namespace caption::testing;

namespace {

struct Case {
  std::int64_t frames, seq_len, kv_len, heads, kv_heads, head_dim;
  float spread = 1;  // spread of the scores: 1 is flat, with 30 one key dominates

  float scale() const { return spread / std::sqrt(static_cast<float>(head_dim)); }
};

struct Operands {
  explicit Operands(const Case& c)
      : q(random_f32({c.frames * c.seq_len, c.heads, c.head_dim}, 1)),
        k(random_of(DType::kBF16, {c.frames * c.kv_len, c.kv_heads, c.head_dim}, 2)),
        v(random_of(DType::kBF16, {c.frames * c.kv_len, c.kv_heads, c.head_dim}, 3)) {}

  Tensor q, k, v;
};

Tensor attend(Stream& stream, const Case& c, const Operands& x) {
  Tensor y(DType::kF32, x.q.shape());
  attention(stream,
            {.q = x.q.view(),
             .k = x.k.view(),
             .v = x.v.view(),
             .seq_len = c.seq_len,
             .kv_len = c.kv_len,
             .scale = c.scale()},
            y.view());
  return y;
}

void check_exactly(const Case& c, const Operands& x) {
  const std::vector<double> ks = values(x.k);
  const std::vector<double> vs = values(x.v);
  for_each_stream([&](Stream& stream) {
    const Rounding rounding = rounding_of(stream, DType::kBF16);
    const std::vector<double> qs = query_values(x.q, rounding);
    std::vector<double> want, tolerance;
    for (std::int64_t row = 0; row < c.frames * c.seq_len; ++row) {
      for (std::int64_t head = 0; head < c.heads; ++head) {
        std::vector<const double*> keys, keys_values;
        for (std::int64_t j = 0; j < c.kv_len; ++j) {
          const std::int64_t key = (row / c.seq_len * c.kv_len + j) * c.kv_heads;
          const std::int64_t at = (key + head / (c.heads / c.kv_heads)) * c.head_dim;
          keys.push_back(ks.data() + at);
          keys_values.push_back(vs.data() + at);
        }
        attend_exactly(qs.data() + (row * c.heads + head) * c.head_dim, keys, keys_values,
                       c.head_dim, static_cast<double>(c.scale()), want, tolerance, rounding);
      }
    }
    check_close(attend(stream, c, x).as<float>(), want, tolerance);
  });
}

}  // namespace

TEST_SUITE_BEGIN("kernels/panel_attention");

TEST_CASE("all sizes around those of panels, blocks and tiles agree with double precision") {
  constexpr Case kCases[] = {
      {1, 1, 1, 1, 1, 1},    {2, 31, 33, 1, 1, 2},     {1, 32, 32, 2, 2, 15},
      {1, 33, 31, 2, 1, 16}, {2, 2, 64, 4, 2, 17},     {1, 5, 127, 1, 1, 31},
      {1, 3, 128, 2, 1, 33}, {1, 65, 129, 1, 1, 64},   {1, 4, 160, 2, 2, 72, 8},
      {3, 17, 16, 1, 1, 80}, {1, 6, 257, 1, 1, 80, 4}, {1, 2, 385, 1, 1, 128, 30},
      {1, 34, 3, 2, 2, 255}, {1, 1, 130, 3, 1, 256, 2}};
  for (const Case& c : kCases) {
    CAPTURE(c.seq_len);
    CAPTURE(c.kv_len);
    CAPTURE(c.head_dim);
    check_exactly(c, Operands(c));
  }
}

TEST_CASE("scores that rise or fall by hundreds from key to key agree with double precision") {
  constexpr Case kCase{
      .frames = 1, .seq_len = 33, .kv_len = 300, .heads = 1, .kv_heads = 1, .head_dim = 4};
  for (const float step : {0.02F, 0.5F, 3.0F, -0.5F, -3.0F}) {
    CAPTURE(step);
    Operands x(kCase);
    // Queries of both signs: where the scores of one rise, those of another fall.
    for (std::int64_t j = 0; j < kCase.kv_len; ++j) {
      for (std::int64_t d = 0; d < kCase.head_dim; ++d) {
        x.k.as<caption::BF16>()[j * kCase.head_dim + d] =
            caption::from_float<caption::BF16>(static_cast<float>(j) * step);
      }
    }
    check_exactly(kCase, x);
  }
}

TEST_CASE("a query's result has the same bits alone and among others, with any threads") {
  constexpr Case kAll{.frames = 1,
                      .seq_len = 100,
                      .kv_len = 290,
                      .heads = 3,
                      .kv_heads = 3,
                      .head_dim = 40,
                      .spread = 9};
  const Operands x(kAll);
  for_each_stream([&](Stream& stream) {
    const Tensor all = attend(stream, kAll, x);
    for (const std::int64_t first : {0, 31, 32, 70, 99}) {
      const std::int64_t count = std::min<std::int64_t>(7, kAll.seq_len - first);
      Tensor some(DType::kF32, {count, kAll.heads, kAll.head_dim});
      attention(stream,
                {.q = x.q.view().rows(first, count),
                 .k = x.k.view(),
                 .v = x.v.view(),
                 .seq_len = count,
                 .kv_len = kAll.kv_len,
                 .scale = kAll.scale()},
                some.view());
      const float* const expected = all.as<float>() + first * kAll.heads * kAll.head_dim;
      CHECK(std::equal(some.as<float>(), some.as<float>() + some.num_elements(), expected));
    }
  });
  for (const caption::CpuTier tier : TestedTiers()) {
    ThreadPool one(1), five(5);
    Stream alone(one, tier), together(five, tier);
    CHECK(same_bits(attend(alone, kAll, x), attend(together, kAll, x)));
  }
}

TEST_CASE("columns beside the heads are neither read nor written") {
  constexpr std::int64_t kRows = 40, kHeadDim = 24, kWidth = 2 * kHeadDim;
  constexpr Case kCase{.frames = 1,
                       .seq_len = kRows,
                       .kv_len = kRows,
                       .heads = 2,
                       .kv_heads = 2,
                       .head_dim = kHeadDim};
  const Operands x(kCase);
  const auto widened = [&](const Tensor& from) {
    Tensor wide(from.dtype(), {kRows, 3 * kWidth});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    caption::dispatch_float(from.dtype(), [&](auto tag) {
      using T = decltype(tag);
      std::fill_n(wide.as<T>(), wide.num_elements(), caption::from_float<T>(nan));
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::copy_n(from.as<T>() + row * kWidth, kWidth, wide.as<T>() + row * 3 * kWidth + kWidth);
      }
    });
    return wide;
  };
  Tensor q = widened(x.q), k = widened(x.k), v = widened(x.v);
  const auto heads_of = [&](Tensor& wide) {
    return wide.view().columns(kWidth, kWidth).reshape({kRows, 2, kHeadDim});
  };
  for_each_stream([&](Stream& stream) {
    Tensor y(DType::kF32, {kRows, 3 * kWidth});
    std::fill_n(y.as<float>(), y.num_elements(), 7.0F);
    attention(stream,
              {.q = heads_of(q),
               .k = heads_of(k),
               .v = heads_of(v),
               .seq_len = kRows,
               .scale = kCase.scale()},
              heads_of(y));
    const Tensor dense = attend(stream, kCase, x);
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < y.num_elements(); ++i) {
      const std::int64_t column = i % (3 * kWidth) - kWidth;
      const bool inside = column >= 0 && column < kWidth;
      const float want = inside ? dense.as<float>()[i / (3 * kWidth) * kWidth + column] : 7.0F;
      different += y.as<float>()[i] != want;
    }
    CHECK(different == 0);
  });
}

TEST_CASE("a NaN or an infinity spoils the rows that see it, and no other") {
  constexpr Case kCase{
      .frames = 2, .seq_len = 35, .kv_len = 150, .heads = 1, .kv_heads = 1, .head_dim = 20};
  const Operands clean(kCase);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Operands query(kCase);
    query.q.as<float>()[33 * kCase.head_dim + 5] = bad;
    Operands key(kCase);
    key.k.as<caption::BF16>()[140 * kCase.head_dim + 5] = caption::from_float<caption::BF16>(bad);
    Operands value(kCase);
    value.v.as<caption::BF16>()[140 * kCase.head_dim + 5] = caption::from_float<caption::BF16>(bad);
    for_each_stream([&](Stream& stream) {
      const Tensor want = attend(stream, kCase, clean);
      const Tensor bad_query = attend(stream, kCase, query);
      const Tensor bad_key = attend(stream, kCase, key);
      const Tensor bad_value = attend(stream, kCase, value);
      for (std::int64_t i = 0; i < want.num_elements(); ++i) {
        const std::int64_t row = i / kCase.head_dim;
        const float same = want.as<float>()[i];
        const bool in_first_frame = row < kCase.seq_len;
        if (row != 33) REQUIRE(bad_query.as<float>()[i] == same);
        if (row == 33) REQUIRE(std::isnan(bad_query.as<float>()[i]));
        if (!in_first_frame) REQUIRE(bad_key.as<float>()[i] == same);
        if (in_first_frame && std::isnan(bad)) REQUIRE(std::isnan(bad_key.as<float>()[i]));
        const bool sees_value = in_first_frame && i % kCase.head_dim == 5;
        if (!sees_value) REQUIRE(bad_value.as<float>()[i] == same);
        if (sees_value) REQUIRE_FALSE(std::isfinite(bad_value.as<float>()[i]));
      }
    });
  }
}

TEST_CASE("no rows, no work") {
  const Case kCase{
      .frames = 0, .seq_len = 4, .kv_len = 4, .heads = 2, .kv_heads = 1, .head_dim = 16};
  const Operands none(kCase);
  for_each_stream([&](Stream& stream) { CHECK(attend(stream, kCase, none).num_elements() == 0); });
}

TEST_SUITE_END();
