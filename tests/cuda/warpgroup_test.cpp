// Dense layers by products of warpgroups (kernels/cuda/warpgroup_gemm.cu).
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/dense_layer.h"
#include "tests/cuda/dense_testing.h"

using caption::ConstView;
using caption::Context;
using caption::Device;
using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::cuda_emulator::Options;
using caption::cuda_emulator::TensorCoreSums;
using caption::kernels::LinearOutput;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cuda::DenseLayer;
using caption::kernels::cuda::Layout;
using caption::kernels::cuda::multiply_by_warpgroups;
using caption::kernels::cuda::multiply_many_rows;
using caption::kernels::cuda::SliceBlocks;
using caption::kernels::cuda::takes_warpgroups;
using caption::kernels::cuda::Tiles;
using caption::kernels::cuda::TilesForm;
using namespace caption::testing;

namespace {

// A block has 128 features of 192 rows, a stage 64 columns, a slice 1,024. No size is a multiple of
// these, but in the first case. Rows of x of bf16 and a stride of 8 elements are copied as they
// are.
struct Case {
  std::int64_t rows, features, columns;
  DType x;
  std::int64_t x_stride = 0;
};
constexpr Case kCases[] = {{192, 128, 64, DType::kBF16},      {1, 1, 1, DType::kF32},
                           {17, 35, 200, DType::kBF16},       {197, 150, 75, DType::kF32},
                           {130, 49, 333, DType::kBF16, 344}, {9, 131, 1102, DType::kBF16},
                           {70, 21, 2101, DType::kF16}};

enum class Kernel { kWarpgroups, kTiles };

void multiply(Stream& stream, const DenseLayer& layer, Kernel kernel) {
  if (kernel == Kernel::kWarpgroups) return multiply_by_warpgroups(stream, layer);
  multiply_many_rows(stream, layer, SliceBlocks::kNone);
}

Tensor product_by(Kernel kernel, const DeviceTensor& x, const DeviceWeight& weight,
                  const Options& options) {
  const std::int64_t features = weight.get().num_features();
  const DeviceTensor y(DType::kF32, {x.view().dim(0), features}, features + 1);
  const LinearPart part{weight.get(), {}, y.view()};
  run_with(options, [&](Stream& stream) {
    multiply(stream, {.x = x.view(), .parts = {&part, 1}}, kernel);
  });
  return y.to_host();
}

// x of two parts, one with a bias, of gate and up, and of a part that is added.
std::vector<Tensor> multiply_parts_by(Kernel kernel, std::uint64_t seed) {
  constexpr std::int64_t kRows = 201;
  constexpr std::int64_t kColumns = 90;
  const DeviceTensor x(random_f32({kRows, kColumns}, 5));
  const DeviceWeight a(random_of(DType::kBF16, {150, kColumns}, 1), Layout::kTiles);
  const DeviceWeight b(random_of(DType::kBF16, {19, kColumns}, 2), Layout::kTiles);
  const DeviceWeight c(random_of(DType::kBF16, {150, kColumns}, 3), Layout::kTiles);
  const DeviceTensor bias(random_f32({150}, 6));
  const DeviceTensor ys[] = {{DType::kF32, {kRows, 150}},
                             {DType::kF32, {kRows, 19}},
                             {DType::kBF16, {kRows, 150}},
                             DeviceTensor(random_f32({kRows, 19}, 9))};
  run_with({.seed = seed}, [&](Stream& stream) {
    const LinearPart parts[] = {{a.get(), bias.view(), ys[0].view()}, {b.get(), {}, ys[1].view()}};
    multiply(stream, {.x = x.view(), .parts = parts}, kernel);
    const LinearPart gate_and_up[] = {{a.get(), {}, ys[2].view()},
                                      {c.get(), bias.view(), ys[2].view()}};
    multiply(stream, {.x = x.view(), .parts = gate_and_up, .is_swiglu = true}, kernel);
    const LinearPart added{b.get(), {}, ys[3].view()};
    multiply(stream, {.x = x.view(), .parts = {&added, 1}, .output = LinearOutput::kAdd}, kernel);
  });
  std::vector<Tensor> results;
  for (const DeviceTensor& y : ys) results.push_back(y.to_host());
  return results;
}

// Whether a layer of parts with so many features is multiplied by warpgroups. Only extents are
// looked at: there is no memory.
bool takes(std::int64_t rows, const std::vector<std::int64_t>& features, bool is_swiglu,
           int capability) {
  std::deque<Weight> weights;
  std::vector<LinearPart> parts;
  for (const std::int64_t count : features) {
    weights.emplace_back(count, 64, Device::kCuda, std::make_unique<const TilesForm>(Tiles{}));
    parts.push_back(
        {weights.back(), {}, {nullptr, DType::kF32, {rows, count}, count, Device::kCuda}});
  }
  caption::ThreadPool pool(1);
  const Stream stream(Context{.device = Device::kCuda, .compute_capability = capability}, pool);
  return takes_warpgroups(stream,
                          {.x = ConstView(nullptr, DType::kBF16, {rows, 64}, 64, Device::kCuda),
                           .parts = parts,
                           .is_swiglu = is_swiglu});
}

}  // namespace

TEST_SUITE_BEGIN("cuda/warpgroups");

TEST_CASE("products of warpgroups have the bits of a warp's, in every arithmetic and order") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    const DeviceWeight weight(random_of(DType::kBF16, {c.features, c.columns}, 1), Layout::kTiles);
    const DeviceTensor x(random_of(c.x, {c.rows, c.columns}, 2), c.x_stride);
    for (const TensorCoreSums sums : kArithmetics) {
      const Tensor want = product_by(Kernel::kTiles, x, weight, {.sums = sums});
      const std::uint64_t last_seed = sums == TensorCoreSums::kHopper ? 2 : 0;
      for (std::uint64_t seed = 0; seed <= last_seed; ++seed) {
        const Options options{.seed = seed, .sums = sums};
        CHECK(same_bits(product_by(Kernel::kWarpgroups, x, weight, options), want));
      }
    }
  }
}

TEST_CASE("parts, epilogues and SwiGLU of warpgroups have the bits of those of tiles") {
  const std::vector<Tensor> want = multiply_parts_by(Kernel::kTiles, 0);
  for (const std::uint64_t seed : kSeeds) {
    const std::vector<Tensor> got = multiply_parts_by(Kernel::kWarpgroups, seed);
    for (std::size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(got[i], want[i]));
    }
  }
}

TEST_CASE("by warpgroups, neither weights nor x are moved twice over, nor banks met twice") {
  const DeviceWeight weight(random_of(DType::kBF16, {128, 128}, 14), Layout::kTiles);
  const DeviceTensor x(random_of(DType::kBF16, {192, 128}, 15));
  const DeviceTensor y(DType::kF32, {192, 128});
  const LinearPart part{weight.get(), {}, y.view()};
  check_wastes_nothing(
      [&](Stream& stream) {
        multiply_by_warpgroups(stream, {.x = x.view(), .parts = {&part, 1}});
      },
      4);
}

TEST_CASE("dispatch takes warpgroups on Hopper, where two thirds of the multiprocessors are busy") {
  for (const int capability : {0, 75, 80, 86, 89, 100, 120}) {
    CHECK_FALSE(takes(4608, {4096}, false, capability));
  }
  CHECK(takes(4608, {4096}, false, 90));
  CHECK(takes(129, {132 * 128}, false, 90));
  CHECK_FALSE(takes(128, {132 * 128}, false, 90));  // which one block of tiles has, too
  // 128 features of 192 rows are a block; 88 of 132 multiprocessors have one.
  CHECK(takes(192, {88 * 128}, false, 90));
  CHECK_FALSE(takes(192, {87 * 128}, false, 90));
  CHECK(takes(193, {44 * 128}, false, 90));
  CHECK_FALSE(takes(192, {133 * 128}, false, 90));  // a second round of one block
  CHECK(takes(192, {176 * 128}, false, 90));
  CHECK(takes(1152, {4096, 1024, 1024}, false, 90));
  CHECK(takes(192, {88 * 64, 88 * 64}, true, 90));
  CHECK_FALSE(takes(192, {87 * 64, 87 * 64}, true, 90));
}

TEST_SUITE_END();
