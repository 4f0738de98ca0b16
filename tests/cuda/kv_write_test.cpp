#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/paged_attention.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::kernels::kv_write;
using caption::kernels::KvLayer;
using namespace caption::testing;

namespace {

constexpr std::int64_t kPages = 3;
constexpr std::int64_t kPageTokens = 4;
constexpr DType kPageTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};

struct Case {
  std::int64_t kv_heads, head_dim, stride;
};
// Three tokens of these heads are not a multiple of a block's 4 warps, and one dimension of 32.
constexpr Case kCases[] = {{1, 64, 0}, {3, 40, 121}, {5, 128, 0}};

struct HostPages {
  HostPages(DType dtype, const Case& c)
      : k(Tensor::zeros(dtype, {kPages, kPageTokens, c.kv_heads, c.head_dim})),
        v(Tensor::zeros(dtype, k.shape())),
        k_scales(Tensor::zeros(DType::kBF16, {kPages, kPageTokens, c.kv_heads})),
        v_scales(Tensor::zeros(DType::kBF16, k_scales.shape())) {}
  Tensor k, v, k_scales, v_scales;
};

template <class Pages>
KvLayer layer_of(Pages& pages, DType dtype) {
  KvLayer layer{.k = pages.k.view(), .v = pages.v.view()};
  if (dtype == DType::kI8) {
    layer.k_scales = pages.k_scales.view();
    layer.v_scales = pages.v_scales.view();
  }
  return layer;
}

struct DevicePages {
  explicit DevicePages(const HostPages& host)
      : k(host.k), v(host.v), k_scales(host.k_scales), v_scales(host.v_scales) {}
  DeviceTensor k, v, k_scales, v_scales;
};

// Random vectors, one of zeros, one whose scale rounds to zero, and with is_odd one with an
// infinity and one with a NaN.
Tensor vectors(const Case& c, std::uint32_t seed, bool is_odd) {
  Tensor x = random_f32({3, c.kv_heads, c.head_dim}, seed);
  float* const first = x.as<float>();
  std::fill_n(first, c.head_dim, 0.0F);
  for (std::int64_t i = 0; i < c.head_dim; ++i) first[c.head_dim + i] *= 0x1p-140F;
  if (is_odd) {
    first[x.num_elements() - 1] = std::numeric_limits<float>::infinity();
    first[x.num_elements() - 1 - c.head_dim] = std::numeric_limits<float>::quiet_NaN();
  }
  return x;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/kv_write");

TEST_CASE("pages of every dtype have the bits that the CPU writes") {
  for (const Case& c : kCases) {
    for (const DType dtype : kPageTypes) {
      CAPTURE(c.head_dim);
      CAPTURE(std::string(caption::dtype_name(dtype)));
      // The payload of a NaN in 16 bits is not defined; pages of i8 hold none.
      const Tensor k = vectors(c, 1, dtype == DType::kI8);
      const Tensor v = vectors(c, 2, dtype == DType::kI8);
      const Tensor slots = indices({9, 0, 6});
      HostPages want(dtype, c);
      const HostPages before(dtype, c);
      run_on_cpu([&](Stream& stream) {
        kv_write(stream, k.view(), v.view(), slots.view(), layer_of(want, dtype));
      });
      const DeviceTensor device_k(k, c.stride);
      const DeviceTensor device_v(v);
      const DeviceTensor device_slots(slots);
      for (const std::uint64_t seed : kSeeds) {
        DevicePages pages(before);
        run_emulated(seed, [&](Stream& stream) {
          caption::kernels::impl::kv_write(caption::Cuda{}, stream, device_k.view(),
                                           device_v.view(), device_slots.view(),
                                           layer_of(pages, dtype));
        });
        CHECK(same_bits(pages.k.to_host(), want.k));
        CHECK(same_bits(pages.v.to_host(), want.v));
        CHECK(same_bits(pages.k_scales.to_host(), want.k_scales));
        CHECK(same_bits(pages.v_scales.to_host(), want.v_scales));
      }
    }
  }
}

TEST_CASE("writing heads of 128 moves no byte twice over, with a warp per token and head") {
  const Case c{4, 128, 0};
  for (const DType dtype : kPageTypes) {
    DevicePages pages(HostPages(dtype, c));
    const DeviceTensor k(vectors(c, 1, false));
    const DeviceTensor slots(indices({9, 0, 6}));
    const auto report = check_wastes_nothing(
        [&](Stream& stream) {
          caption::kernels::impl::kv_write(caption::Cuda{}, stream, k.view(), k.view(),
                                           slots.view(), layer_of(pages, dtype));
        },
        1);
    CHECK(report.blocks == 3);  // a block has four warps: three tokens with four heads
  }
}

TEST_SUITE_END();
