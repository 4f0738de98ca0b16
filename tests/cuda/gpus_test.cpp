// Kernels are compiled for the GPUs on which dispatch chooses them (kernels/cuda/gpus.h); launch()
// refuses them elsewhere. Here dispatch chooses for every GPU, form of weights and dtype of keys.
#include "kernels/cuda/gpus.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/weight_forms.h"
#include "kernels/linear.h"
#include "kernels/norm_linear.h"
#include "kernels/swiglu.h"
#include "tests/gpu/operands.h"
#include "tests/support/cuda/emulator.h"

using caption::ConstView;
using caption::Context;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::View;
using caption::cuda_emulator::Emulation;
using caption::kernels::LinearPart;
using caption::kernels::PagedContext;
using caption::kernels::Weight;
using caption::kernels::cuda::CodeBlocks;
using caption::kernels::cuda::DenseLayer;
using caption::kernels::cuda::Gpus;
using caption::kernels::cuda::gpus_of;
using caption::kernels::cuda::kAllGpus;
using caption::kernels::cuda::kFromAmpere;
using caption::kernels::cuda::kGpusOfProducts;
using caption::kernels::cuda::kTuring;
using caption::kernels::cuda::SliceBlocks;
using caption::kernels::cuda::Splitting;
using namespace caption::testing;

namespace {

// Those for which nvcc compiles the kernels: scripts/cuda/toolkit.py.
constexpr int kCapabilities[] = {75, 80, 86, 89, 90};

template <class Work>
void run_on(int capability, Work work) {
  const Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda, .compute_capability = capability}, pool);
  work(stream);
  stream.synchronize();
  CHECK(emulation.report().describe_faults() == "");
  CHECK(emulation.report().launches > 0);
}

template <class Work>
void run_on_each_gpu(Work work, Gpus gpus = kAllGpus) {
  for (const int capability : kCapabilities) {
    if (!gpus.contains(capability)) continue;
    CAPTURE(capability);
    CHECK_NOTHROW(run_on(capability, work));
  }
}

struct Anywhere {};
struct Turing {
  static constexpr Gpus kGpus = kTuring;
};

struct Layer {
  Layer(Stream& stream, Form form, std::int64_t rows, std::int64_t columns)
      : weight(place(stream, form, 21, columns)),
        x(to_device(stream, numbers({rows, columns}, 1))),
        y(DType::kF32, {rows, 21}, stream.device()),
        part{weight, ConstView{}, y.view()} {}

  DenseLayer dense() const { return {.x = x.view(), .parts = {&part, 1}}; }

  Weight weight;
  Tensor x, y;
  LinearPart part;
};

void attend_pages(Stream& stream, DType dtype, std::int64_t head_dim, Splitting splitting) {
  constexpr std::int64_t kTokens = 300;
  const auto zeros = [&](DType of, const caption::Shape& shape) {
    return Tensor::zeros(of, shape, stream.device());
  };
  const Tensor k = zeros(dtype, {1, kTokens, 1, head_dim});
  const Tensor v = zeros(dtype, {1, kTokens, 1, head_dim});
  const Tensor k_scales = zeros(DType::kBF16, {1, kTokens, 1});
  const Tensor v_scales = zeros(DType::kBF16, {1, kTokens, 1});
  const Tensor cu_seqlens = to_device(stream, indices({0, 2}));
  const Tensor lens = to_device(stream, indices({kTokens}));
  const Tensor table = to_device(stream, indices({0}));
  const Tensor q = to_device(stream, numbers({2, 2, head_dim}, 4));
  Tensor y(DType::kF32, {2, 2, head_dim}, stream.device());
  const bool has_scales = dtype == DType::kI8;
  const PagedContext context{.k_pages = k.view(),
                             .v_pages = v.view(),
                             .cu_seqlens = cu_seqlens.view(),
                             .context_lens = lens.view(),
                             .block_tables = table.view().reshape({1, 1}),
                             .k_scales = has_scales ? k_scales.view() : ConstView(),
                             .v_scales = has_scales ? v_scales.view() : ConstView()};
  caption::kernels::cuda::attend(
      stream, caption::kernels::cuda::paged_operands(q.view(), context, 1, y.view()), splitting);
  stream.synchronize();
}

}  // namespace

TEST_SUITE_BEGIN("cuda/gpus");

TEST_CASE("a layer of each form has kernels on every GPU, for any number of rows") {
  for (const NamedForm& form : kForms) {
    CAPTURE(form.name);
    for (const std::int64_t rows : {1, 9, 17, 33, 70}) {
      for (const std::int64_t columns : {40, 41}) {
        CAPTURE(rows);
        CAPTURE(columns);
        run_on_each_gpu(
            [&](Stream& stream) {
              const Layer gate(stream, form.form, rows, columns);
              const Layer up(stream, form.form, rows, columns);
              caption::kernels::linear(stream, gate.x.view(), gate.weight, {}, gate.part.y);
              caption::kernels::linear_swiglu(stream, gate.x.view(), {gate.weight, ConstView{}},
                                              {up.weight, ConstView{}}, up.part.y);
              stream.synchronize();
            },
            form.gpus);
      }
    }
  }
}

TEST_CASE("blocks of every kind have kernels on every GPU") {
  for (const NamedForm& form : kForms) {
    CAPTURE(form.name);
    if (form.form == Form::kRowsF32) continue;
    run_on_each_gpu(
        [&](Stream& stream) {
          for (const std::int64_t rows : {20, 70}) {
            const Layer layer(stream, form.form, rows, 40);
            if (form.form == Form::kTiles) {
              for (const SliceBlocks blocks : {SliceBlocks::kOwn, SliceBlocks::kNone}) {
                multiply_many_rows(stream, layer.dense(), blocks);
              }
            } else {
              for (const CodeBlocks blocks :
                   {CodeBlocks::kFewRows, CodeBlocks::kSmall, CodeBlocks::kLarge}) {
                multiply_codes(stream, layer.dense(), blocks);
              }
            }
            stream.synchronize();
          }
        },
        form.gpus);
  }
}

TEST_CASE("attention to keys of each dtype and dimension has kernels on every GPU") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    for (const std::int64_t head_dim : {20, 64, 80, 128, 192}) {
      CAPTURE(head_dim);
      run_on_each_gpu([&](Stream& stream) {
        for (const Splitting splitting : {Splitting::kNone, Splitting::kAll}) {
          attend_pages(stream, dtype, head_dim, splitting);
        }
      });
    }
  }
}

TEST_CASE("a kernel is refused on a GPU for which it is not compiled") {
  static_assert(kTuring.contains(75) && !kTuring.contains(80) && !kTuring.contains(0));
  static_assert(kFromAmpere.contains(80) && kFromAmpere.contains(120) && !kFromAmpere.contains(75));
  static_assert(kGpusOfProducts<caption::F16>.contains(75));
  static_assert(!kGpusOfProducts<caption::BF16>.contains(75));
  CHECK(gpus_of<Anywhere>().contains(75));
  CHECK(gpus_of<Anywhere>().contains(kAllGpus.end - 1));
  CHECK_FALSE(gpus_of<Turing>().contains(90));
  for (const auto& [made, used] : {std::pair{75, 80}, std::pair{80, 75}}) {
    CAPTURE(made);
    run_on(made, [used = used](Stream& stream) {
      const Layer layer(stream, Form::kTiles, 3, 40);
      Stream other(Context{.device = Device::kCuda, .compute_capability = used}, stream.pool());
      CHECK_THROWS_WITH_AS(
          caption::kernels::linear(other, layer.x.view(), layer.weight, {}, layer.part.y),
          doctest::Contains("a kernel is launched on a GPU for which it is not compiled"), Error);
      stream.synchronize();
    });
  }
}

TEST_SUITE_END();
