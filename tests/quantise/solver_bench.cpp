// Measures the solvers of calibrated quantisation on random matrices; not run by ctest.
//
//   caption_solver_bench [N [K [INPUTS [THREADS]]]]
//
// Prints the wall and processor time of each part, of three runs the one with the least processor
// time. scripts/peers/calibration.py measures GPTQModel and AutoAWQ on the same shapes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "quantise/awq_search.h"
#include "quantise/gptq_solver.h"

namespace {

using namespace caption;
using namespace caption::quantise;

constexpr int kRounds = 3;

double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void measure(const char* name, const std::function<void()>& work) {
  double least = 0;
  double wall = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double before = processor_s();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double used = processor_s() - before;
    if (i > 0 && used >= least) continue;
    least = used;
    wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::printf("%-22s %8.2f s wall %8.2f s processor\n", name, wall, least);
}

Tensor draw(std::int64_t rows, std::int64_t columns, float scale, unsigned seed) {
  Tensor matrix(DType::kF32, {rows, columns});
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    matrix.as<float>()[i] = normal(engine) * (i % columns % 37 == 5 ? 20.0F : 1.0F);
  }
  return matrix;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t fallback) {
    return argc > i ? std::max(std::atoll(argv[i]), 1LL) : static_cast<long long>(fallback);
  };
  const std::int64_t rows = argument(1, 4096);
  const std::int64_t columns = argument(2, 4096);
  const std::int64_t num_inputs = argument(3, 8192);
  ThreadPool pool(static_cast<int>(argument(4, 2)));
  Stream stream(pool);
  const Tensor weight = draw(rows, columns, 0.05F, 1);
  const Tensor inputs = draw(num_inputs, columns, 1, 2);
  const GptqOptions options;
  InputMoments moments(columns);
  std::unique_ptr<GptqHessian> hessian;
  measure("moments", [&] {
    moments = InputMoments(columns);
    moments.add(stream, inputs.view());
  });
  measure("gptq: factor",
          [&] { hessian = std::make_unique<GptqHessian>(stream, moments, options); });
  measure("gptq: codes", [&] { solve_gptq(stream, weight.view(), *hessian); });
  hessian = std::make_unique<GptqHessian>(stream, moments,
                                          GptqOptions{.symmetric = false, .clips = true});
  measure("awq: codes", [&] { solve_gptq(stream, weight.view(), *hessian); });
  InputMagnitudes magnitudes(columns);
  magnitudes.add(inputs.view());
  const std::vector<float> means = magnitudes.means();
  const std::vector<ConstView> weights = {weight.view()};
  const ModuleLoss loss = linear_loss(stream, weight.view(), moments);
  measure("awq: scales", [&] { search_scales(pool, weights, means, loss, {}); });
  return 0;
}
