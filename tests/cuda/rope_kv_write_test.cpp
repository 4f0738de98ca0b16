#include "kernels/rope_kv_write.h"

#include <cmath>
#include <vector>

#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/cuda/testing.h"

using caption::ConstView;
using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::View;
using namespace caption::kernels;
using namespace caption::testing;

namespace {

constexpr std::int64_t kTokens = 3;
constexpr std::int64_t kPages = 3;
constexpr std::int64_t kPageTokens = 4;
constexpr float kEps = 1e-6F;
constexpr DType kPageTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};

struct Case {
  std::int64_t heads, kv_heads, head_dim;
  bool has_norms;
  std::int64_t stride = 0;  // elements between rows of q, k and v
};
// Heads of one lane's numbers, of a part of a warp's, of all of them and of twice as many; the
// vectors are not a multiple of a block's 4 warps. An odd stride permits no loads of 16 bytes.
constexpr Case kCases[] = {{1, 1, 2, true},       {3, 1, 24, false}, {6, 2, 64, true, 399},
                           {4, 4, 80, true, 512}, {5, 5, 128, true}, {7, 1, 128, false, 1001},
                           {2, 1, 256, true}};

struct Operands {
  explicit Operands(const Case& c)
      : q(random_f32({kTokens, c.heads, c.head_dim}, 1)),
        k(random_f32({kTokens, c.kv_heads, c.head_dim}, 2)),
        v(random_f32(k.shape(), 3)),
        table(random_f32({kTokens, c.head_dim}, 4)),
        slots(indices({9, 0, 6})),
        q_norm(random_of(DType::kBF16, {c.head_dim}, 5)),
        k_norm(random_of(DType::kF32, {c.head_dim}, 6)) {}
  Tensor q, k, v, table, slots, q_norm, k_norm;
};

// The operands and pages in emulated memory.
struct OnDevice {
  OnDevice(const Operands& host, const Case& c, DType dtype)
      : has_norms(c.has_norms),
        is_int8(dtype == DType::kI8),
        q(host.q, c.stride),
        k(host.k, c.stride),
        v(host.v, c.stride),
        table(host.table),
        slots(host.slots),
        q_norm(host.q_norm),
        k_norm(host.k_norm),
        k_pages(Tensor::zeros(dtype, {kPages, kPageTokens, c.kv_heads, c.head_dim})),
        v_pages(Tensor::zeros(dtype, k_pages.view().shape())),
        k_scales(Tensor::zeros(DType::kBF16, {kPages, kPageTokens, c.kv_heads})),
        v_scales(Tensor::zeros(DType::kBF16, k_scales.view().shape())) {}

  KvLayer pages() const {
    KvLayer layer{.k = k_pages.view(), .v = v_pages.view()};
    if (is_int8) {
      layer.k_scales = k_scales.view();
      layer.v_scales = v_scales.view();
    }
    return layer;
  }
  void run_fused(Stream& stream) const {
    ProjectedHeads heads{.q = q.view(), .k = k.view(), .v = v.view(), .eps = kEps};
    if (has_norms) {
      heads.q_norm = q_norm.view();
      heads.k_norm = k_norm.view();
    }
    rope_kv_write(stream, heads, table.view(), slots.view(), pages());
  }
  void run_one_by_one(Stream& stream) const {
    if (has_norms) {
      rms_norm(stream, q.view(), q_norm.view(), kEps, q.view());
      rms_norm(stream, k.view(), k_norm.view(), kEps, k.view());
    }
    rope(stream, table.view(), q.view());
    rope(stream, table.view(), k.view());
    kv_write(stream, k.view(), v.view(), slots.view(), pages());
  }

  bool has_norms;
  bool is_int8;
  DeviceTensor q, k, v, table, slots, q_norm, k_norm, k_pages, v_pages, k_scales, v_scales;
};

void check_same(const OnDevice& got, const OnDevice& want) {
  CHECK(same_bits(got.q.to_host(), want.q.to_host()));
  CHECK(same_bits(got.k_pages.to_host(), want.k_pages.to_host()));
  CHECK(same_bits(got.v_pages.to_host(), want.v_pages.to_host()));
  CHECK(same_bits(got.k_scales.to_host(), want.k_scales.to_host()));
  CHECK(same_bits(got.v_scales.to_host(), want.v_scales.to_host()));
}

// The numbers of a head, normed, are off by the sum's roundings (norm_test.cpp) and five more on
// either side; a rotation adds two products of them with numbers of the table, which are below 1.
// With t the numbers of the head after the norm, |t| is at most root(head_dim) times the greatest
// weight, which is below 1.
double rotation_tolerance(const Case& c) {
  const auto dim = static_cast<double>(c.head_dim);
  return (dim / 16 + dim / 128 + 48) * kUnit * 2 * (c.has_norms ? std::sqrt(dim) : 1);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/rope_kv_write");

TEST_CASE("one launch has the bits of norms, rotations and the write of pages, one by one") {
  for (const Case& c : kCases) {
    const Operands operands(c);
    for (const DType dtype : kPageTypes) {
      CAPTURE(c.head_dim);
      CAPTURE(c.heads);
      CAPTURE(std::string(caption::dtype_name(dtype)));
      const OnDevice want(operands, c, dtype);
      run_emulated(0, [&](Stream& stream) { want.run_one_by_one(stream); });
      for (const std::uint64_t seed : kSeeds) {
        const OnDevice got(operands, c, dtype);
        const auto report = run_emulated(seed, [&](Stream& stream) { got.run_fused(stream); });
        CHECK(report.launches == 1);
        check_same(got, want);
      }
    }
  }
}

TEST_CASE("heads and pages agree with the CPU's") {
  for (const Case& c : kCases) {
    CAPTURE(c.head_dim);
    CAPTURE(c.heads);
    const Operands operands(c);
    Tensor q = operands.q.clone();
    Tensor k = operands.k.clone();
    Tensor k_pages = Tensor::zeros(DType::kF32, {kPages, kPageTokens, c.kv_heads, c.head_dim});
    Tensor v_pages = Tensor::zeros(DType::kF32, k_pages.shape());
    run_on_cpu([&](Stream& stream) {
      ProjectedHeads heads{.q = q.view(), .k = k.view(), .v = operands.v.view(), .eps = kEps};
      if (c.has_norms) {
        heads.q_norm = operands.q_norm.view();
        heads.k_norm = operands.k_norm.view();
      }
      rope_kv_write(stream, heads, operands.table.view(), operands.slots.view(),
                    {.k = k_pages.view(), .v = v_pages.view()});
    });
    const OnDevice got(operands, c, DType::kF32);
    run_emulated(1, [&](Stream& stream) { got.run_fused(stream); });
    const auto tolerance = [&](std::int64_t) { return rotation_tolerance(c); };
    check_close(got.q.to_host().as<float>(), values(q), tolerances(q, tolerance));
    check_close(got.k_pages.to_host().as<float>(), values(k_pages), tolerances(k_pages, tolerance));
    CHECK(same_bits(got.v_pages.to_host(), v_pages));
  }
}

TEST_CASE("heads of 128 move no byte twice over, with a warp per head") {
  const Case c{8, 2, 128, true};
  for (const DType dtype : kPageTypes) {
    const OnDevice operands(Operands(c), c, dtype);
    const auto report =
        check_wastes_nothing([&](Stream& stream) { operands.run_fused(stream); }, 1);
    CHECK(report.blocks == 9);  // 3 tokens with 8 + 2 + 2 heads, four heads per block
  }
}

TEST_SUITE_END();
