// Weights placed on the emulated GPU from matrices of the host.
#include "kernels/weight.h"

#include <map>
#include <mutex>
#include <string>

#include "backend/uploader.h"
#include "kernels/activation_dtype.h"
#include "kernels/cuda/code_form.h"
#include "kernels/embedding.h"
#include "tests/cuda/dense_testing.h"
#include "tests/kernels/random_codes.h"
#include "tests/support/cuda/emulated_runtime.h"

using caption::Context;
using caption::Cuda;
using caption::DType;
using caption::MatrixFormat;
using caption::Stream;
using caption::Tensor;
using caption::kernels::Weight;
namespace impl = caption::kernels::impl;
using namespace caption::testing;

namespace {

const Context kGpu{.device = caption::Device::kCuda};

// Every row of a weight as f32, by embedding().
Tensor numbers_of(Stream& stream, const Weight& weight) {
  std::vector<std::int32_t> all;
  for (std::int32_t n = 0; n < weight.num_features(); ++n) all.push_back(n);
  const DeviceTensor ids(indices(all));
  const DeviceTensor y(DType::kF32, {weight.num_features(), weight.num_columns()});
  caption::kernels::embedding(stream, ids.view(), weight, y.view());
  stream.synchronize();
  return y.to_host();
}

}  // namespace

TEST_SUITE_BEGIN("cuda/weight");

TEST_CASE("where tensor cores lack bf16, matrices are rounded to f16") {
  const Tensor rows = random_of(DType::kBF16, {21, 40}, 52);
  for (const int capability : {75, 80, 90}) {
    CAPTURE(capability);
    const caption::cuda_emulator::Emulation emulation;
    caption::ThreadPool pool(1);
    Stream stream({.device = caption::Device::kCuda, .compute_capability = capability}, pool);
    const Weight weight = impl::place_bf16(Cuda{}, stream, rows.view());
    CHECK(weight.form().describe() == (capability < 80 ? "f16 tiles" : "bf16 tiles"));
    CHECK(same_bits(numbers_of(stream, weight), converted(rows, DType::kF32)));
  }
}

TEST_CASE("a placed matrix has its numbers, as they are or rounded to bf16") {
  for (const std::uint64_t seed : kSeeds) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Tensor wide = random_of(dtype, {21, 40}, 51);
      for (const std::int64_t columns : {40, 37}) {  // dense and strided
        const caption::ConstView rows = wide.view().columns(0, columns);
        Tensor dense(DType::kF32, {21, columns});
        run_on_cpu([&](Stream& stream) { caption::kernels::convert(stream, rows, dense.view()); });
        run_emulated(seed, [&](Stream& stream) {
          const Weight stored = impl::place_stored(Cuda{}, stream, rows);
          CHECK(same_bits(numbers_of(stream, stored), dense));
          CHECK_FALSE(stored.rounds_input());
          CHECK_FALSE(stored.is_borrowed());
          CHECK(stored.size_bytes() ==
                impl::placed_bytes(Cuda{}, kGpu, 21, columns, MatrixFormat::kStored, dtype));
          const Weight rounded = impl::place_bf16(Cuda{}, stream, rows);
          CHECK(same_bits(numbers_of(stream, rounded),
                          converted(converted(dense, DType::kBF16), DType::kF32)));
          CHECK(rounded.rounds_input());
          CHECK_FALSE(rounded.is_borrowed());
          CHECK(rounded.size_bytes() ==
                impl::placed_bytes(Cuda{}, kGpu, 21, columns, MatrixFormat::kBF16, dtype));
          CHECK(impl::rounds_input(Cuda{}, kGpu, MatrixFormat::kBF16));
          CHECK_FALSE(impl::rounds_input(Cuda{}, kGpu, MatrixFormat::kStored));
        });
      }
    }
  }
}

TEST_CASE("a matrix is packed, or copied as it is, piece by piece, each of whole tiles") {
  const Tensor rows = random_f32({33, 33001}, 52);  // 16 rows are above 2 MiB
  const auto report = run_emulated(2, [&](Stream& stream) {
    const Weight weight = impl::place_bf16(Cuda{}, stream, rows.view());
    CHECK(same_bits(numbers_of(stream, weight),
                    converted(converted(rows, DType::kBF16), DType::kF32)));
  });
  CHECK(report.launches == 3 + 1);  // three pieces are packed, and rows are looked up
  run_emulated(2, [&](Stream& stream) {
    const Weight weight = impl::place_stored(Cuda{}, stream, rows.view());
    CHECK(same_bits(numbers_of(stream, weight), rows));
  });
}

TEST_CASE("a piece as large as a chunk of the stream's uploader goes through it") {
  constexpr std::int64_t kChunkBytes = 256;
  const auto allocations_for = [](std::int64_t columns) {
    const Tensor rows = random_of(DType::kBF16, {2, columns}, 53);
    const caption::cuda_emulator::Emulation emulation;
    caption::ThreadPool pool(1);
    Stream stream(kGpu, pool);
    caption::Uploader uploader(stream, kChunkBytes);
    stream.set_uploader(&uploader);
    const std::int64_t before = caption::cuda_emulator::count_allocations();
    const Weight weight = impl::place_stored(Cuda{}, stream, rows.view());
    const std::int64_t allocations = caption::cuda_emulator::count_allocations() - before;
    uploader.finish();
    CHECK(same_bits(numbers_of(stream, weight), converted(rows, DType::kF32)));
    return allocations;
  };
  CHECK(allocations_for(kChunkBytes / 4) == 1);     // only the weight has memory
  CHECK(allocations_for(kChunkBytes / 4 + 1) > 1);  // another uploader has chunks, too
}

TEST_CASE("threads that place codes read each 128 rows once, and a piece is packed at once") {
  const caption::QuantisedMatrix matrix = random_matrix(Kind::k8, 5 * 128, 16, 16);
  std::map<std::int64_t, int> reads;  // keyed by the first row
  std::mutex mutex;
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    const std::lock_guard lock(mutex);
    ++reads[first];
    return slice(matrix, first, count);
  };
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(2);
  Stream stream(kGpu, pool);
  const Weight weight =
      caption::kernels::place_quantised(stream, format_of(Kind::k8), matrix.num_rows(), rows);
  stream.synchronize();
  CHECK(emulation.report().launches == 2);  // one piece: its codes, and its scales
  reads.erase(0);                           // read before, too, to see the form of the codes
  CHECK(reads == std::map<std::int64_t, int>{{128, 1}, {256, 1}, {384, 1}, {512, 1}});
}

TEST_CASE("codes of 4 bits whose values are -8 to 7 need no table") {
  using caption::kernels::cuda::CodeKind;
  const auto kind_of = [](Kind kind) {
    const caption::QuantisedMatrix matrix = random_matrix(kind, 5, 32, 16);
    const auto rows = [&](std::int64_t first, std::int64_t count) {
      return slice(matrix, first, count);
    };
    CodeKind placed{};
    run_emulated(0, [&](Stream& stream) {
      const Weight weight =
          caption::kernels::place_quantised(stream, format_of(kind), matrix.num_rows(), rows);
      placed = caption::kernels::cuda::CodesForm::of(weight).codes().shape.kind;
    });
    return placed;
  };
  CHECK(kind_of(Kind::k4) == CodeKind::kInt4);
  CHECK(kind_of(Kind::kLut) == CodeKind::kTable4);
}

TEST_CASE("weights of one form are multiplied together, others are told apart") {
  const DeviceWeight rows(random_of(DType::kBF16, {5, 8}, 53),
                          caption::kernels::cuda::Layout::kRows);
  const DeviceWeight tiles(random_of(DType::kBF16, {5, 8}, 54),
                           caption::kernels::cuda::Layout::kTiles);
  const DeviceWeight halves(random_of(DType::kF16, {5, 8}, 55),
                            caption::kernels::cuda::Layout::kTiles);
  const auto form = [](const DeviceWeight& weight) -> const caption::kernels::WeightForm& {
    return weight.get().form();
  };
  CHECK(form(rows).is_like(form(rows)));
  CHECK(form(tiles).is_like(form(tiles)));
  CHECK_FALSE(form(tiles).is_like(form(halves)));
  CHECK_FALSE(form(tiles).is_like(form(rows)));
  CHECK_FALSE(form(rows).is_like(form(tiles)));
  CHECK(form(rows).is_borrowed());
  CHECK(form(rows).describe() == "bf16 rows");
  CHECK(form(halves).describe() == "f16 tiles");
  // Where a product rounds its input, the operation before may write the rounded numbers.
  CHECK(caption::kernels::activation_dtype(rows.get()) == DType::kF32);
  CHECK(caption::kernels::activation_dtype(tiles.get()) == DType::kBF16);
  CHECK(caption::kernels::activation_dtype(halves.get()) == DType::kF16);
}

TEST_SUITE_END();
