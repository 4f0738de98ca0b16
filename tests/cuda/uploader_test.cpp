// Memory on its way to an emulated GPU, whose queues run in drawn orders: a chunk that is filled
// again too early, or read before it has arrived, changes bytes.
#include "backend/uploader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/linear.h"
#include "kernels/weight.h"
#include "model/caption_model.h"
#include "tensor/copy.h"
#include "tests/cuda/testing.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/cuda/queues.h"
#include "weights/quantise.h"

using caption::ConstView;
using caption::Context;
using caption::copy;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::MatrixFormat;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::Uploader;
using caption::View;
using caption::testing::random_f32;
using caption::testing::same_bits;
namespace cuda_emulator = caption::cuda_emulator;
namespace kernels = caption::kernels;

namespace {

const Context kGpu{.device = Device::kCuda};
constexpr std::uint64_t kSeeds[] = {0, 1, 2, 3, 4, 5};

// Draws the order of the queues while it lives.
class DrawnOrder {
 public:
  explicit DrawnOrder(std::uint64_t seed) { cuda_emulator::seed_queues(seed); }
  ~DrawnOrder() { cuda_emulator::seed_queues(0); }
  DrawnOrder(const DrawnOrder&) = delete;
  DrawnOrder& operator=(const DrawnOrder&) = delete;
};

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(seed) * 13);
  }
  return bytes;
}

// What x [5, columns] times the weight gives.
Tensor product(Stream& stream, const kernels::Weight& weight) {
  const Tensor x = copy_to(stream, Device::kCuda, random_f32({5, weight.num_columns()}, 9).view());
  Tensor y(DType::kF32, {5, weight.num_features()}, Device::kCuda);
  kernels::linear(stream, x.view(), weight, {}, y.view());
  return copy_to(stream, Device::kCpu, y.view());
}

std::vector<kernels::Weight> place_all(Stream& stream, const Tensor& rows) {
  std::vector<kernels::Weight> weights;
  weights.push_back(kernels::place_bf16(stream, rows.view()));
  weights.push_back(kernels::place_stored(stream, rows.view()));
  for (const MatrixFormat format : {MatrixFormat::kInt8, MatrixFormat::kNf4}) {
    weights.push_back(kernels::place_quantised(
        stream, format, rows.dim(0), [&](std::int64_t first, std::int64_t count) {
          return caption::weights::quantise(rows.view().rows(first, count), format);
        }));
  }
  return weights;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/uploader");

TEST_CASE("pieces of any size arrive, where they stay and where work reads them") {
  constexpr std::size_t kChunk = 1024;
  for (const std::uint64_t seed : kSeeds) {
    CAPTURE(seed);
    const DrawnOrder order(seed);
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    Uploader uploader(stream, kChunk);
    CHECK(uploader.chunk_bytes() == kChunk);
    std::vector<std::vector<std::byte>> sent;
    std::vector<Tensor> stays;
    std::vector<Tensor> worked;  // copies that the stream makes of what arrived
    const std::int64_t waits = cuda_emulator::count_waits();
    std::size_t total = 0;
    for (int i = 0; i < 60; ++i) {
      const std::size_t size = i % 7 == 0 ? kChunk : static_cast<std::size_t>(1 + 37 * i % 300);
      total += std::max<std::size_t>((size + 255) / 256 * 256, 256);
      sent.push_back(pattern(size, i));
      const caption::Shape shape{static_cast<std::int64_t>(size)};
      Tensor& kept = (i % 2 == 0 ? stays : worked).emplace_back(DType::kU8, shape, Device::kCuda);
      std::memcpy(uploader.take(size), sent.back().data(), size);
      if (i % 2 == 0) {
        uploader.copy_to(static_cast<std::byte*>(kept.view().raw()));
      } else {
        copy(stream, ConstView(uploader.copy(), DType::kU8, shape, Device::kCuda), kept.view());
      }
    }
    // One wait for each chunk that is filled again, at most.
    CHECK(cuda_emulator::count_waits() - waits <= static_cast<std::int64_t>(2 * total / kChunk));
    uploader.finish();
    for (std::size_t i = 0; i < sent.size(); ++i) {
      CAPTURE(i);
      const Tensor& kept = (i % 2 == 0 ? stays : worked)[i / 2];
      const Tensor back = copy_to(stream, Device::kCpu, kept.view());
      CHECK(std::memcmp(back.view().raw(), sent[i].data(), sent[i].size()) == 0);
    }
    CHECK_THROWS_AS(uploader.take(kChunk + 1), Error);
  }
}

TEST_CASE("weights are the same with and without an uploader, and without a wait for each") {
  const Tensor rows = random_f32({150, 256}, 4);
  ThreadPool pool(2);
  std::vector<Tensor> expected;
  {
    Stream stream(kGpu, pool);
    for (const kernels::Weight& weight : place_all(stream, rows)) {
      expected.push_back(product(stream, weight));
    }
  }
  for (const std::uint64_t seed : kSeeds) {
    CAPTURE(seed);
    const DrawnOrder order(seed);
    Stream stream(kGpu, pool);
    Uploader uploader(stream, std::size_t{160} << 10);  // each matrix takes a chunk or two
    stream.set_uploader(&uploader);
    const std::int64_t waits = cuda_emulator::count_waits();
    std::vector<kernels::Weight> weights = place_all(stream, rows);
    CHECK(cuda_emulator::count_waits() - waits <= 4);
    uploader.finish();
    stream.set_uploader(nullptr);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(product(stream, weights[i]), expected[i]));
    }
  }
}

TEST_CASE("a model is opened without a wait for each of its parameters") {
  const std::filesystem::path folder =
      std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
  for (const auto format :
       {caption::weights::WeightFormat::kF32, caption::weights::WeightFormat::kBF16}) {
    const std::int64_t waits = cuda_emulator::count_waits();
    const auto model = caption::model::open_model(kGpu, folder, format);
    const std::int64_t num_waits = cuda_emulator::count_waits() - waits;
    MESSAGE(num_waits, " waits for ", model->weight_bytes(), " bytes");
    CHECK(num_waits <=
          4 + model->weight_bytes() / static_cast<std::int64_t>(Uploader::kChunkBytes));
  }
}

TEST_CASE("a GPU that is lost on the way ends the upload with an error, and leaves nothing") {
  const std::int64_t held = cuda_emulator::allocated_bytes();
  const Tensor rows = random_f32({40, 64}, 4);
  const auto upload = [&] {
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    Uploader uploader(stream, std::size_t{8} << 10);
    stream.set_uploader(&uploader);
    const std::vector<kernels::Weight> weights = place_all(stream, rows);
    uploader.finish();
  };
  cuda_emulator::lose_device_at(-1);
  upload();
  const std::int64_t num_calls = cuda_emulator::count_calls();
  for (std::int64_t call = 0; call < num_calls; ++call) {
    CAPTURE(call);
    cuda_emulator::lose_device_at(call);
    CHECK_THROWS_AS(upload(), Error);
    CHECK(cuda_emulator::allocated_bytes() == held);
  }
  cuda_emulator::lose_device_at(-1);
}

TEST_SUITE_END();
