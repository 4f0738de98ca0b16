// Where the time of a layer of CLIP ViT-L/14-336 goes: each operation's milliseconds per frame and
// share, and the rate of the layer's matrix products alone. Run by hand:
//
//   vision_bench [FRAMES [THREADS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace {

using caption::ConstView;
using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::kernels::Weight;

constexpr std::int64_t kTokens = 577, kHidden = 1024, kInner = 4096, kHeads = 16, kHeadDim = 64;
constexpr int kLayers = 24;
constexpr int kRounds = 5;

struct Operation {
  std::string name;
  std::function<void()> run;
  double flops = 0;
  std::vector<double> seconds = {};
};

// Irregular numbers in [-1, 1].
Tensor filled(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  caption::dispatch_float(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.as<T>()[i] = caption::from_float<T>(static_cast<float>(i * 7919 % 257 - 128) / 128);
    }
  });
  return tensor;
}

Weight place(Stream& stream, const Tensor& weight) {
  return caption::kernels::place_bf16(stream, weight.view());
}

void run(std::int64_t frames, int threads) {
  caption::ThreadPool pool(threads);
  Stream stream(pool);
  const std::int64_t rows = frames * kTokens;
  const auto matrix = [](std::int64_t out, std::int64_t in) {
    return filled(DType::kBF16, {out, in});
  };
  const Tensor square = matrix(kHidden, kHidden), wide = matrix(kInner, kHidden),
               tall = matrix(kHidden, kInner);
  const Weight projection = place(stream, square), fc1 = place(stream, wide),
               fc2 = place(stream, tall);
  const Tensor bias = filled(DType::kF32, {kInner});
  const ConstView short_bias(bias.as<float>(), DType::kF32, {kHidden});
  Tensor x = filled(DType::kF32, {rows, kHidden}), normed(DType::kF32, x.shape()),
         q(DType::kF32, x.shape()), k(DType::kF32, x.shape()), v(DType::kF32, x.shape()),
         attended(DType::kF32, x.shape()), inner(DType::kF32, {rows, kInner});
  const auto by_head = [rows](const Tensor& tensor) {
    return tensor.view().reshape({rows, kHeads, kHeadDim});
  };
  const auto products = [rows](double columns, double depth) {
    return 2 * static_cast<double>(rows) * columns * depth;
  };
  using namespace caption::kernels;
  std::vector<Operation> operations = {
      {"norm", [&] { layer_norm(stream, x.view(), short_bias, short_bias, 1e-5F, normed.view()); }},
      {"q", [&] { linear(stream, normed.view(), projection, short_bias, q.view()); },
       products(kHidden, kHidden)},
      {"k", [&] { linear(stream, normed.view(), projection, short_bias, k.view()); },
       products(kHidden, kHidden)},
      {"v", [&] { linear(stream, normed.view(), projection, short_bias, v.view()); },
       products(kHidden, kHidden)},
      {"attention",
       [&] {
         attention(stream,
                   {.q = by_head(q),
                    .k = by_head(k),
                    .v = by_head(v),
                    .seq_len = kTokens,
                    .scale = 0.125F},
                   attended.view().reshape({rows, kHeads, kHeadDim}));
       },
       products(2 * kTokens, kHidden)},
      {"out", [&] { linear_add(stream, attended.view(), projection, short_bias, x.view()); },
       products(kHidden, kHidden)},
      {"norm", [&] { layer_norm(stream, x.view(), short_bias, short_bias, 1e-5F, normed.view()); }},
      {"fc1 and quick_gelu",
       [&] { linear_quick_gelu(stream, normed.view(), fc1, bias.view(), inner.view()); },
       products(kInner, kHidden)},
      {"fc2", [&] { linear_add(stream, inner.view(), fc2, short_bias, x.view()); },
       products(kInner, kHidden)}};
  for (int round = 0; round < kRounds; ++round) {
    std::copy_n(filled(DType::kF32, {kHidden}).as<float>(), kHidden, x.as<float>());
    for (Operation& operation : operations) {
      const auto start = std::chrono::steady_clock::now();
      operation.run();
      operation.seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  double total = 0, product_seconds = 0, flops = 0;
  for (Operation& operation : operations) {
    std::nth_element(operation.seconds.begin(), operation.seconds.begin() + kRounds / 2,
                     operation.seconds.end());
    const double seconds = operation.seconds[kRounds / 2];
    if (operation.name[0] == '(') continue;
    total += seconds;
    if (operation.flops == 0 || operation.name == "attention") continue;
    product_seconds += seconds;
    flops += operation.flops;
  }
  std::printf("%s, %d threads, %lld frames at once\n",
              std::string(caption::cpu_tier_name(stream.cpu_tier())).c_str(), threads,
              static_cast<long long>(frames));
  for (const Operation& operation : operations) {
    const double seconds = operation.seconds[kRounds / 2];
    std::printf("  %-20s %8.2f ms a frame  %5.1f %%", operation.name.c_str(),
                1e3 * seconds / static_cast<double>(frames), 100 * seconds / total);
    if (operation.flops > 0) std::printf("  %8.1f GFLOP/s", operation.flops / seconds / 1e9);
    std::printf("\n");
  }
  std::printf("%d layers: %.3f frames/s; matrix products alone, at %.1f GFLOP/s: %.3f\n", kLayers,
              static_cast<double>(frames) / total / kLayers, flops / product_seconds / 1e9,
              static_cast<double>(frames) / product_seconds / kLayers);
}

}  // namespace

int main(int argc, char** argv) {
  run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 8,
      argc > 2 ? std::max(1, std::atoi(argv[2])) : 2);
  return 0;
}
