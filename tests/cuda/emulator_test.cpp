#include "tests/support/cuda/emulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/cuda/faulty_kernels.h"
#include "tests/cuda/measured_kernels.h"
#include "tests/support/cuda/device_array.h"

using caption::Error;
using caption::cuda_emulator::Emulation;
using caption::cuda_emulator::Fault;
using caption::cuda_emulator::Report;
using namespace caption::testing;

namespace {

constexpr std::uint64_t kOrderSeeds[] = {0, 1, 2, 3, 4, 5, 6, 7};

Report report_of(void (*launch)(float* memory), std::uint64_t seed) {
  const DeviceArray<float> memory(std::vector<float>(256, 1.0F));
  const Emulation emulation({.seed = seed});
  launch(memory.begin());
  return emulation.report();
}

std::size_t count(const Report& report, Fault fault) {
  return static_cast<std::size_t>(
      std::count_if(report.faults.begin(), report.faults.end(),
                    [fault](const auto& found) { return found.fault == fault; }));
}

}  // namespace

TEST_SUITE_BEGIN("cuda/emulator");

TEST_CASE("a fault is found in every order of threads, and its absence too") {
  std::vector<KernelPair> pairs(kernel_pairs().begin(), kernel_pairs().end());
  pairs.insert(pairs.end(), product_pairs().begin(), product_pairs().end());
  for (const KernelPair& pair : pairs) {
    CAPTURE(std::string(pair.name));
    for (const std::uint64_t seed : kOrderSeeds) {
      CAPTURE(seed);
      const Report faulty = report_of(pair.launch_faulty, seed);
      INFO(faulty.describe_faults());
      CHECK(count(faulty, pair.fault) > 0);
      // A read that comes too early also finds what nobody has written yet.
      const bool is_race = pair.fault == Fault::kRace;
      const std::size_t companions = is_race ? count(faulty, Fault::kUninitialised) : 0;
      CHECK(count(faulty, pair.fault) + companions == faulty.faults.size());
      CHECK(report_of(pair.launch_right, seed).describe_faults() == "");
    }
  }
}

TEST_CASE("a fault names the thread, the byte and the line of the kernel") {
  const Report report = report_of(kernel_pairs().front().launch_faulty, 0);
  REQUIRE_FALSE(report.faults.empty());
  const std::string& text = report.faults.back().text;
  CAPTURE(text);
  CHECK(
      text.starts_with("race: thread 32 of block 0, 0, 0 reads 4 bytes of shared memory, byte "
                       "256 of 512; thread 0 wrote it, and nothing orders the two ("));
  // Without addr2line (binutils) the address stands there.
  const bool has_line = text.find("tests/cuda/faulty_kernels.cu:") != std::string::npos;
  const bool has_address = text.find("(code at 0x") != std::string::npos;
  CHECK(has_line != has_address);
}

TEST_CASE("after a fault that it cannot continue from, the next launch runs") {
  const DeviceArray<float> memory(std::vector<float>(256, 1.0F));
  const Emulation emulation;
  for (const KernelPair& pair : kernel_pairs()) {
    pair.launch_faulty(memory.begin());
    const std::size_t faults = emulation.report().faults.size();
    pair.launch_right(memory.begin());
    CHECK(emulation.report().faults.size() == faults);
  }
}

TEST_CASE("device memory that nobody has written is not read") {
  const DeviceArray<float> memory(256);
  CHECK_THROWS_AS(memory.elements(), Error);
  const Emulation emulation;
  launch_global_loads(memory.begin(), 4, 4);
  const Report report = emulation.report();
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults.front().fault == Fault::kUninitialised);
}

TEST_CASE("memory that was freed is in no allocation") {
  const float* freed = nullptr;
  {
    const DeviceArray<float> memory(std::vector<float>(256, 1.0F));
    freed = memory.begin();
  }
  const Emulation emulation;
  launch_global_loads(freed, 4, 4);
  const Report report = emulation.report();
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults.front().fault == Fault::kOutOfBounds);
}

TEST_CASE("a product goes through shared memory, ldmatrix and the tensor core to its place") {
  // Small integers, which every order of sums gives exactly, and all different along each axis.
  std::vector<std::uint16_t> a(16 * 16);
  std::vector<std::uint16_t> b(16 * 8);
  std::vector<float> c(16 * 8);
  std::vector<float> want(c.size());
  const auto a_of = [](int i, int k) { return static_cast<float>((3 * i + 5 * k) % 17 - 8); };
  const auto b_of = [](int k, int j) { return static_cast<float>((7 * k + 2 * j) % 13 - 6); };
  using caption::cuda_emulator::HalfType;
  for (const HalfType type : {HalfType::kBF16, HalfType::kF16}) {
    const auto narrow = [type](float x) {
      return type == HalfType::kBF16 ? caption::to_bf16(x).bits : caption::to_f16(x).bits;
    };
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) a[i * 16 + k] = narrow(a_of(i, k));
      for (int j = 0; j < 8; ++j) {
        b[i * 8 + j] = narrow(b_of(i, j));
        c[i * 8 + j] = want[i * 8 + j] = static_cast<float>(100 * i + j);
        for (int k = 0; k < 16; ++k) want[i * 8 + j] += a_of(i, k) * b_of(k, j);
      }
    }
    for (const std::uint64_t seed : kOrderSeeds) {
      const DeviceArray<std::uint16_t> device_a(a);
      const DeviceArray<std::uint16_t> device_b(b);
      const DeviceArray<float> device_c(c);
      const Emulation emulation({.seed = seed});
      launch_product(type, device_a.begin(), device_b.begin(), device_c.begin());
      CHECK(emulation.report().describe_faults() == "");
      CHECK(emulation.report().matrix_products == 1);
      CHECK(device_c.elements() == want);
    }
  }
}

TEST_SUITE_END();
