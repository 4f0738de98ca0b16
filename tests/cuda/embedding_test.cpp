#include "kernels/embedding.h"

#include <vector>

#include "tests/cuda/dense_testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::embedding;
using caption::kernels::cuda::Layout;
using namespace caption::testing;

TEST_SUITE_BEGIN("cuda/embedding");

TEST_CASE("rows of a table are widened exactly, whatever its form") {
  for (const std::int64_t dim : {1, 33, 64, 1100}) {
    CAPTURE(dim);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Tensor table = random_of(dtype, {37, dim}, 41);
      const Tensor ids = indices({36, 0, 17, 17, 8});
      Tensor want(DType::kF32, {5, dim});
      run_on_cpu([&](Stream& stream) { embedding(stream, ids.view(), table.view(), want.view()); });
      const DeviceTensor device_ids(ids);
      for (const Layout layout : {Layout::kRows, Layout::kTiles}) {
        if (layout == Layout::kTiles && dtype == DType::kF32) continue;  // tiles have 16 bits
        const DeviceWeight weight(table, layout);
        const DeviceTensor y(DType::kF32, {5, dim}, dim + 4);
        run_emulated(1, [&](Stream& stream) {
          embedding(stream, device_ids.view(), weight.get(), y.view());
        });
        CHECK(same_bits(y.to_host(), want));
      }
    }
  }
}

TEST_CASE("rows move no byte twice over, four numbers at a time") {
  const DeviceTensor table(random_of(DType::kBF16, {9, 1024}, 42));
  const caption::kernels::Weight weight(
      9, 1024, caption::Device::kCuda,
      caption::kernels::impl::borrow_rows(caption::Cuda{}, table.view()));
  const DeviceTensor ids(indices({3, 8}));
  const DeviceTensor y(DType::kF32, {2, 1024});
  check_wastes_nothing([&](Stream& stream) { embedding(stream, ids.view(), weight, y.view()); }, 8);
}

TEST_SUITE_END();
