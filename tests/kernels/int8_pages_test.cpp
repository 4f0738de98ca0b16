// Pages of int8: the stored values, the result of attention, and the visibility of NaN and
// infinity.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/paged_attention.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/paged_cache.h"
#include "tests/kernels/testing.h"

using caption::BF16;
using caption::ConstView;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::kernels::kv_write;
using caption::kernels::KvLayer;
using caption::kernels::paged_attention;
using caption::kernels::PagedContext;
using namespace caption::testing;

namespace {

// One layer of pages of i8.
struct Int8Pages {
  Int8Pages(std::int64_t pages, std::int64_t page_tokens, std::int64_t kv_heads,
            std::int64_t head_dim)
      : k(Tensor::zeros(DType::kI8, {pages, page_tokens, kv_heads, head_dim})),
        v(Tensor::zeros(DType::kI8, k.shape())),
        k_scales(Tensor::zeros(DType::kBF16, {pages, page_tokens, kv_heads})),
        v_scales(Tensor::zeros(DType::kBF16, k_scales.shape())) {}

  KvLayer layer() {
    return {.k = k.view(), .v = v.view(), .k_scales = k_scales.view(), .v_scales = v_scales.view()};
  }
  Tensor k, v, k_scales, v_scales;
};

// Returns the values that a tensor of int8 with scales represents.
std::vector<double> dequantised(const Tensor& elements, const Tensor& scales) {
  const std::int64_t head_dim = elements.dim(elements.shape().rank() - 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements.num_elements(); ++i) {
    const BF16 scale = scales.as<BF16>()[i / head_dim];
    values.push_back(static_cast<double>(elements.as<std::int8_t>()[i]) *
                     static_cast<double>(to_float(scale)));
  }
  return values;
}

// Writes x as both K and V of tokens 0, 1, ... of one page.
Int8Pages written(Stream& stream, const Tensor& x) {
  Int8Pages pages(1, x.dim(0), x.dim(1), x.dim(2));
  std::vector<std::int32_t> slots;
  for (std::int32_t t = 0; t < x.dim(0); ++t) slots.push_back(t);
  kv_write(stream, x.view(), x.view(), indices(slots).view(), pages.layer());
  return pages;
}

Tensor tensor_of(const std::vector<float>& x) {
  Tensor tensor(DType::kF32, {1, 1, static_cast<std::int64_t>(x.size())});
  std::copy(x.begin(), x.end(), tensor.as<float>());
  return tensor;
}

// Returns y of a query of ones over keys of head_dim 4; the last key holds `odd` in K or in V.
float attend_over(Stream& stream, DType dtype, float odd, bool in_keys) {
  constexpr std::int64_t kKeys = 5;
  Tensor k = random_f32({kKeys, 1, 4}, 1);
  Tensor v = random_f32({kKeys, 1, 4}, 2);
  (in_keys ? k : v).as<float>()[4 * kKeys - 1] = odd;
  Int8Pages quantised(1, kKeys, 1, 4);
  Tensor k_pages = Tensor::zeros(DType::kF32, {1, kKeys, 1, 4});
  Tensor v_pages = Tensor::zeros(DType::kF32, {1, kKeys, 1, 4});
  const KvLayer pages =
      dtype == DType::kI8 ? quantised.layer() : KvLayer{.k = k_pages.view(), .v = v_pages.view()};
  kv_write(stream, k.view(), v.view(), indices({0, 1, 2, 3, 4}).view(), pages);
  Tensor q(DType::kF32, {1, 1, 4});
  std::fill_n(q.as<float>(), 4, 1.0F);
  Tensor y(DType::kF32, {1, 1, 4});
  const Tensor cu = indices({0, 1});
  const Tensor lens = indices({kKeys});
  const Tensor table = indices({0});
  paged_attention(stream, q.view(),
                  {.k_pages = pages.k,
                   .v_pages = pages.v,
                   .cu_seqlens = cu.view(),
                   .context_lens = lens.view(),
                   .block_tables = table.view().reshape({1, 1}),
                   .k_scales = pages.k_scales,
                   .v_scales = pages.v_scales},
                  1, y.view());
  return y.as<float>()[3];
}

// Attention of one sequence over its keys as stored in int8 and over the unrounded ones, and how
// far a tier may be from each. Bound of |y - y of the unrounded keys and values|:
//   |score error| <= e = scale * max_j sum|q| * k_scale[j] / 2, so a probability is off by at most
//   a factor exp(2 e), and a value by v_scale / 2.
struct Exact {
  std::vector<double> stored, stored_tolerance, unquantised, unquantised_tolerance;
};

Exact exact_outputs(const PagedModel& model, Rounding rounding) {
  ThreadPool one(1);
  Stream plain(one);
  const Int8Pages k_pages = written(plain, model.k[0]);
  const Int8Pages v_pages = written(plain, model.v[0]);
  const std::vector<double> k = dequantised(k_pages.k, k_pages.k_scales);
  const std::vector<double> v = dequantised(v_pages.k, v_pages.k_scales);
  const std::vector<double> q = query_values(model.q[0], rounding);
  const std::vector<double> exact_k = values(model.k[0]);
  const std::vector<double> exact_v = values(model.v[0]);
  const auto scale = static_cast<double>(model.scale());
  const std::int64_t head_dim = model.head_dim;
  Exact exact;
  std::vector<double> unused;
  for (std::int64_t i = 0; i < model.lengths[0]; ++i) {
    for (std::int64_t h = 0; h < model.heads; ++h) {
      const double* const query = q.data() + (i * model.heads + h) * head_dim;
      double q_sum = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) q_sum += std::abs(query[d]);
      std::vector<const double*> keys, key_values, exact_keys, exact_values;
      double score_error = 0;
      double value_error = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        const std::int64_t head = j * model.kv_heads + h / (model.heads / model.kv_heads);
        keys.push_back(k.data() + head * head_dim);
        key_values.push_back(v.data() + head * head_dim);
        exact_keys.push_back(exact_k.data() + head * head_dim);
        exact_values.push_back(exact_v.data() + head * head_dim);
        const auto k_scale = static_cast<double>(to_float(k_pages.k_scales.as<BF16>()[head]));
        const auto v_scale = static_cast<double>(to_float(v_pages.k_scales.as<BF16>()[head]));
        score_error = std::max(score_error, scale * q_sum * k_scale / 2);
        value_error = std::max(value_error, v_scale / 2);
      }
      attend_exactly(query, keys, key_values, head_dim, scale, exact.stored, exact.stored_tolerance,
                     rounding);
      attend_exactly(query, exact_keys, exact_values, head_dim, scale, exact.unquantised, unused);
      const double bound = std::expm1(2 * score_error) + value_error;  // |v| <= 1
      while (exact.unquantised_tolerance.size() < exact.stored.size()) {
        exact.unquantised_tolerance.push_back(
            bound + exact.stored_tolerance[exact.unquantised_tolerance.size()]);
      }
    }
  }
  return exact;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/int8_pages");

TEST_CASE("every element is within half a scale of what was written, the largest uses the range") {
  for (const std::int64_t head_dim : {1, 3, 16, 63, 128}) {
    CAPTURE(head_dim);
    // Strided rows, as in a fused projection.
    const Tensor wide = random_f32({9, 5 * head_dim}, 11);
    const ConstView x(wide.as<float>() + head_dim, DType::kF32, {9, 2, head_dim}, 5 * head_dim,
                      Device::kCpu);
    for_each_stream([&](Stream& stream) {
      Int8Pages pages(3, 4, 2, head_dim);
      const std::vector<std::int32_t> slots = {7, 0, 11, 3, 4, 10, 1, 2, 9};
      kv_write(stream, x, x, indices(slots).view(), pages.layer());
      CHECK(same_bits(pages.k, pages.v));
      CHECK(same_bits(pages.k_scales, pages.v_scales));
      const std::vector<double> got = dequantised(pages.k, pages.k_scales);
      int far = 0;
      int unused = 0;
      for (std::int64_t t = 0; t < 9; ++t) {
        for (std::int64_t h = 0; h < 2; ++h) {
          const std::int64_t head = slots[static_cast<std::size_t>(t)] * 2 + h;
          const auto scale = static_cast<double>(to_float(pages.k_scales.as<BF16>()[head]));
          int largest = 0;
          for (std::int64_t d = 0; d < head_dim; ++d) {
            const std::int64_t i = head * head_dim + d;
            const auto want =
                static_cast<double>(x.as<float>()[t * 5 * head_dim + h * head_dim + d]);
            // x / scale is itself rounded before it is rounded to an integer.
            const double bound = scale / 2 * (1 + 256 * kUnit);
            far += std::abs(got[static_cast<std::size_t>(i)] - want) > bound;
            largest = std::max(largest, std::abs(static_cast<int>(pages.k.as<std::int8_t>()[i])));
          }
          // Rounding the scale up increases it by less than one part in 2^7.
          unused += largest < 126 || largest > 127;
        }
      }
      CHECK(far == 0);
      CHECK(unused == 0);
    });
  }
}

TEST_CASE("multiples of a scale come back exactly, whatever its power of two") {
  for (const float scale : {1.0F, 0.25F, 1.5F, 0x1.fep-60F, 0x1p-120F, 0x1p100F}) {
    CAPTURE(scale);
    std::vector<float> x;
    for (int n = -127; n <= 127; ++n) x.push_back(static_cast<float>(n) * scale);
    ThreadPool pool(1);
    Stream stream(pool);
    const Int8Pages pages = written(stream, tensor_of(x));
    CHECK(to_float(pages.k_scales.as<BF16>()[0]) == scale);
    const std::vector<double> got = dequantised(pages.k, pages.k_scales);
    CHECK(std::equal(x.begin(), x.end(), got.begin(),
                     [](float a, double b) { return static_cast<double>(a) == b; }));
  }
}

TEST_CASE("zeros have the scale 0; the ends of the range of f32 are no exception to the bound") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Int8Pages zeros = written(stream, tensor_of({0.0F, -0.0F, 0.0F}));
  CHECK(zeros.k_scales.as<BF16>()[0].bits == 0);
  CHECK(zeros.k.as<std::int8_t>()[1] == 0);
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float x : {kLargest, -kLargest, 0x1p-126F, 0x1p-143F, 0x1p-144F}) {
    CAPTURE(x);
    const Int8Pages pages = written(stream, tensor_of({x, x / 3}));
    const double scale = static_cast<double>(to_float(pages.k_scales.as<BF16>()[0]));
    const std::vector<double> got = dequantised(pages.k, pages.k_scales);
    if (std::abs(x) < 0x1p-143F) {
      CHECK(got == std::vector<double>{0, 0});
    } else {
      CHECK(std::abs(got[0] - static_cast<double>(x)) <= scale / 2 * (1 + 256 * kUnit));
      CHECK(std::abs(got[1] - static_cast<double>(x / 3)) <= scale / 2 * (1 + 256 * kUnit));
    }
  }
}

TEST_CASE("an infinity or a NaN makes NaN of what sees it, as in pages of f32") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for_each_stream([&](Stream& stream) {
    for (const float odd : {kNan, kInfinity, -kInfinity}) {
      CAPTURE(odd);
      CHECK_FALSE(std::isfinite(attend_over(stream, DType::kI8, odd, false)));
      CHECK_FALSE(std::isfinite(attend_over(stream, DType::kF32, odd, false)));
      CHECK(std::isnan(attend_over(stream, DType::kI8, odd, true)));
    }
    CHECK(std::isnan(attend_over(stream, DType::kF32, kNan, true)));
    CHECK(std::isfinite(attend_over(stream, DType::kI8, 1, true)));
  });
}

TEST_CASE("attention is as far from unquantised keys as half a scale explains, and no farther") {
  struct Case {
    std::int64_t heads, kv_heads, head_dim, length, page_tokens;
  };
  const Case kCases[] = {{1, 1, 1, 1, 16},    {4, 2, 24, 130, 16}, {6, 2, 65, 33, 7},
                         {8, 8, 64, 200, 16}, {14, 2, 129, 40, 3}, {20, 1, 16, 50, 64}};
  for (const Case& c : kCases) {
    CAPTURE(c.head_dim);
    const PagedModel model(c.heads, c.kv_heads, c.head_dim, {c.length});
    const Exact exact[] = {exact_outputs(model, Rounding::kF32),
                           exact_outputs(model, Rounding::kBF16)};
    for_each_stream([&](Stream& stream) {
      const Exact& want = exact[static_cast<int>(rounding_of(stream, DType::kI8))];
      PagedCache cache(model, DType::kI8, c.page_tokens);
      std::vector<Tensor> out;
      out.emplace_back(DType::kF32, caption::Shape{c.length, c.heads, c.head_dim});
      cache.step(stream, {c.length}, out);
      check_close(out[0].as<float>(), want.stored, want.stored_tolerance);
      check_close(out[0].as<float>(), want.unquantised, want.unquantised_tolerance);
    });
  }
}

TEST_CASE("pages of i8 without scales, and scales of other pages, are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({1, 2, 4}, 3);
  const Tensor slots = indices({0});
  Int8Pages pages(3, 4, 2, 4);
  Tensor floats = Tensor::zeros(DType::kF32, {3, 4, 2, 4});
  KvLayer layer = pages.layer();
  layer.k_scales = View();
  CHECK_THROWS_WITH_AS(kv_write(stream, x.view(), x.view(), slots.view(), layer),
                       "kv_write: k_scales is f32 [] on cpu; wanted bf16 [3, 4, 2]", Error);
  layer = pages.layer();
  Tensor short_scales = Tensor::zeros(DType::kBF16, {3, 4, 1});
  layer.v_scales = short_scales.view();
  CHECK_THROWS_WITH_AS(kv_write(stream, x.view(), x.view(), slots.view(), layer),
                       "kv_write: v_scales is bf16 [3, 4, 1] on cpu; wanted bf16 [3, 4, 2]", Error);
  layer = pages.layer();
  layer.k = floats.view();
  layer.v = floats.view();
  CHECK_THROWS_WITH_AS(kv_write(stream, x.view(), x.view(), slots.view(), layer),
                       "kv_write: only pages of i8 have scales", Error);
}

TEST_SUITE_END();
