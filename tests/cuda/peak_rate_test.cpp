#include "kernels/peak_rate.h"

#include "tests/cuda/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::kPeakThreads;
using caption::kernels::PeakArithmetic;
using caption::kernels::run_multiply_adds;
using namespace caption::testing;

TEST_SUITE_BEGIN("cuda/peak_rate");

TEST_CASE(
    "the operations that it returns are those that the blocks execute, and nothing is written") {
  constexpr std::int64_t kBlocks = 2;
  constexpr double kFlopsOfProduct = 4096;  // m16n8k16
  Tensor untouched(DType::kF32, {kPeakThreads});
  for (std::int64_t i = 0; i < kPeakThreads; ++i) untouched.as<float>()[i] = 7;
  const DeviceTensor sums(untouched);
  double flops = 0;
  const auto report = run_emulated(1, [&](Stream& stream) {
    flops = run_multiply_adds(stream, PeakArithmetic::k16Bits, kBlocks, sums.view());
  });
  CHECK(flops == kFlopsOfProduct * static_cast<double>(report.matrix_products));
  // Products of 8 bits have twice the depth.
  const auto integers = run_emulated(1, [&](Stream& stream) {
    CHECK(run_multiply_adds(stream, PeakArithmetic::kInt8, kBlocks, sums.view()) == 2 * flops);
  });
  CHECK(integers.launches == 1);
  run_emulated(1, [&](Stream& stream) {
    CHECK(run_multiply_adds(stream, PeakArithmetic::kF32, kBlocks, sums.view()) > 0);
  });
  // Turing multiplies f16.
  const caption::cuda_emulator::Emulation emulation({.seed = 1});
  caption::ThreadPool pool(1);
  Stream turing(caption::Context{.device = caption::Device::kCuda, .compute_capability = 75}, pool);
  CHECK(run_multiply_adds(turing, PeakArithmetic::k16Bits, kBlocks, sums.view()) == flops);
  turing.synchronize();
  CHECK(emulation.report().describe_faults() == "");
  CHECK(same_bits(sums.to_host(), untouched));
}

TEST_CASE("a grid that no launch can have, and the CPU, are refused") {
  const DeviceTensor sums(DType::kF32, {kPeakThreads});
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  for (const std::int64_t blocks : {std::int64_t{0}, std::int64_t{1} << 31}) {
    CHECK_THROWS_AS(run_multiply_adds(stream, PeakArithmetic::kF32, blocks, sums.view()),
                    caption::Error);
  }
  Stream on_cpu(pool);
  Tensor host(DType::kF32, {kPeakThreads});
  CHECK_THROWS_AS(run_multiply_adds(on_cpu, PeakArithmetic::kF32, 1, host.view()), caption::Error);
}

TEST_SUITE_END();
