#include "kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attend.h"
#include "tests/cuda/paged_batches.h"
#include "tests/kernels/attention_reference.h"

using caption::ConstView;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::View;
using caption::kernels::KeyClusters;
using caption::kernels::paged_attention;
using caption::kernels::PagedContext;
using caption::kernels::cuda::attend;
using caption::kernels::cuda::paged_operands;
using caption::kernels::cuda::Splitting;
using namespace caption::testing;

namespace {

constexpr Splitting kSplittings[] = {Splitting::kNone, Splitting::kAll};

PagedAttention with(Splitting splitting) {
  return [splitting](Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) { attend(stream, paged_operands(q, context, scale, y), splitting); };
}

// The vectors of x as pages of the dtype hold them.
std::vector<double> stored(const Tensor& x, DType dtype) {
  if (dtype != DType::kI8) return values(converted(x, dtype));
  const std::int64_t tokens = x.dim(0);
  Tensor codes = Tensor::zeros(dtype, {1, tokens, x.dim(1), x.dim(2)});
  Tensor scales = Tensor::zeros(DType::kBF16, {1, tokens, x.dim(1)});
  std::vector<std::int32_t> slots;
  for (std::int32_t t = 0; t < tokens; ++t) slots.push_back(t);
  run_on_cpu([&](Stream& stream) {
    caption::kernels::kv_write(stream, x.view(), x.view(), indices(slots).view(),
                               {.k = codes.view(),
                                .v = codes.view(),
                                .k_scales = scales.view(),
                                .v_scales = scales.view()});
  });
  std::vector<double> wide = values(codes);
  const std::vector<double> of_vector = values(scales);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    wide[i] *= of_vector[i / static_cast<std::size_t>(x.dim(2))];
  }
  return wide;
}

struct Wanted {
  std::vector<double> y, tolerance;
};

// A sequence's rows from the first one on, in double precision.
Wanted wanted_rows(const PagedModel& model, std::size_t s, const PagedOptions& options,
                   std::int64_t first_row) {
  const auto params = operands_of(options.dtype, model.head_dim);
  const std::vector<double> q = queries_of_kernel(model.q[s], params);
  const std::vector<double> k = stored(model.k[s], options.dtype);
  const std::vector<double> v = stored(model.v[s], options.dtype);
  Wanted want;
  for (std::int64_t i = first_row; i < model.lengths[s]; ++i) {
    const std::int64_t first =
        options.window == 0 ? 0 : std::max<std::int64_t>(0, i + 1 - options.window);
    for (std::int64_t h = 0; h < model.heads; ++h) {
      std::vector<const double*> keys, key_values;
      for (std::int64_t j = first; j <= i; ++j) {
        const std::int64_t at =
            (j * model.kv_heads + h / (model.heads / model.kv_heads)) * model.head_dim;
        keys.push_back(k.data() + at);
        key_values.push_back(v.data() + at);
      }
      attend_as_kernel(q.data() + (i * model.heads + h) * model.head_dim, keys, key_values, params,
                       static_cast<double>(model.scale()), want.y, want.tolerance);
    }
  }
  return want;
}

// Checks a sequence's outputs against double precision.
void check_sequence(const PagedModel& model, std::size_t s, const PagedOptions& options,
                    const Tensor& got) {
  const Wanted want = wanted_rows(model, s, options, 0);
  check_close(got.as<float>(), want.y, want.tolerance);
}

// The outputs of the last rows of the only sequence.
constexpr std::int64_t kLastRows = 3;
std::vector<float> last_rows(const PagedModel& model, const PagedOptions& options,
                             Splitting splitting) {
  PagedBatches batches(model, options, with(splitting));
  batches.skip({model.lengths[0] - kLastRows});
  batches.step({kLastRows});
  const std::vector<Tensor> all = std::move(batches).rows();
  const std::int64_t row = model.heads * model.head_dim;
  const float* const end = all[0].as<float>() + model.lengths[0] * row;
  return std::vector<float>(end - kLastRows * row, end);
}

bool have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int count_different(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  int different = 0;
  for (std::size_t s = 0; s < a.size(); ++s) different += !same_bits(a[s], b[s]);
  return different;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/paged_attention");

TEST_CASE("agrees with a double-precision loop over the keys as stored") {
  struct Case {
    std::int64_t heads, kv_heads, head_dim;
    std::vector<std::int64_t> lengths;
    PagedOptions options;
  };
  const Case kCases[] = {
      {1, 1, 1, {1}, {}},
      {3, 3, 24, {17, 1, 0, 33}, {.dtype = DType::kBF16, .page_tokens = 7}},
      {2, 1, 64, {257}, {.dtype = DType::kF32, .page_tokens = 16}},
      {6, 2, 65, {31, 5}, {.dtype = DType::kF16, .page_tokens = 1}},
      {20, 1, 16, {37}, {.dtype = DType::kBF16, .page_tokens = 64}},
      {8, 2, 80, {32, 3}, {.dtype = DType::kI8, .page_tokens = 5}},
      {10, 2, 130, {40}, {.dtype = DType::kI8, .page_tokens = 16}},
      {2, 1, 256, {70}, {.dtype = DType::kF32, .page_tokens = 16, .window = 9}},
      {3, 1, 64, {65, 1, 0, 23}, {.dtype = DType::kBF16, .page_tokens = 7}},
      {2, 1, 128, {70}, {.dtype = DType::kF16, .page_tokens = 16}},
      {4, 1, 128, {3, 66}, {.dtype = DType::kBF16, .page_tokens = 16}},
      {8, 1, 80, {32, 3}, {.dtype = DType::kF16, .page_tokens = 16}},
      {14, 2, 112, {37}, {.dtype = DType::kI8, .page_tokens = 16}},
      {2, 1, 128, {290}, {.dtype = DType::kI8, .page_tokens = 16}},
      {20, 1, 32, {9}, {.dtype = DType::kBF16, .page_tokens = 64}},
      {1, 1, 72, {270}, {.dtype = DType::kBF16, .page_tokens = 16, .window = 70}},
      {2, 2, 20, {300, 64}, {.dtype = DType::kF32, .page_tokens = 16, .window = 33}},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.heads);
    CAPTURE(c.head_dim);
    const PagedModel model(c.heads, c.kv_heads, c.head_dim, c.lengths);
    for (const Splitting splitting : kSplittings) {
      PagedOptions options = c.options;
      options.emulation.seed = splitting == Splitting::kAll ? 1 : 2;
      if (options.dtype == DType::kF16) options.compute_capability = 75;
      const std::vector<Tensor> got = PagedBatches(model, options, with(splitting)).whole();
      for (std::size_t s = 0; s < got.size(); ++s) check_sequence(model, s, options, got[s]);
    }
  }
}

TEST_CASE("whole prompts, chunks, decodes, page sizes and splittings give the same bits") {
  // Lengths around a step (32) and a split (256).
  const PagedModel model(3, 1, 20, {1, 32, 255, 290});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    const std::vector<Tensor> whole =
        PagedBatches(model, {.dtype = dtype}, with(Splitting::kNone)).whole();
    CHECK(count_different(whole, PagedBatches(model, {.dtype = dtype, .page_tokens = 512},
                                              with(Splitting::kAll))
                                     .whole()) == 0);
    CHECK(count_different(
              whole, PagedBatches(model, {.dtype = dtype, .page_tokens = 5}, with(Splitting::kAuto))
                         .chunked()) == 0);
  }
  const std::vector<Tensor> whole = PagedBatches(model, {}, with(Splitting::kNone)).whole();
  CHECK(count_different(whole, PagedBatches(model, {}, with(Splitting::kAll)).decoded()) == 0);
}

TEST_CASE("tensor cores give a query the same bits in prompts, chunks, decodes and splittings") {
  using caption::cuda_emulator::TensorCoreSums;
  // Lengths around a step (64) and a split (256).
  const PagedModel model(3, 1, 32, {1, 65, 255, 290});
  const PagedModel wide(2, 1, 64, {70, 17});
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    for (const TensorCoreSums sums : {TensorCoreSums::kAmpere, TensorCoreSums::kHopper}) {
      const PagedOptions options{.dtype = dtype, .emulation = {.seed = 5, .sums = sums}};
      PagedOptions other = options;
      other.page_tokens = 5;
      other.emulation.seed = 6;
      // Splits have one buffer there.
      if (dtype == DType::kF16) other.compute_capability = 75;
      const std::vector<Tensor> whole =
          PagedBatches(model, options, with(Splitting::kNone)).whole();
      CHECK(count_different(whole, PagedBatches(model, other, with(Splitting::kAll)).whole()) == 0);
      CHECK(count_different(whole, PagedBatches(model, other, with(Splitting::kAuto)).chunked()) ==
            0);
      CHECK(count_different(PagedBatches(wide, options, with(Splitting::kNone)).whole(),
                            PagedBatches(wide, other, with(Splitting::kAll)).decoded()) == 0);
    }
  }
}

TEST_CASE("rows around the first long split and of many splits have the same bits in splits") {
  // The last rows see their first long split, 16 and 17 splits, of which lanes load 16 ahead, or 32
  // and 33, of which they have the states at once.
  for (const std::int64_t length : {1026, 7170, 15362}) {
    CAPTURE(length);
    const PagedModel model(3, 1, 48, {length});
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      CAPTURE(std::string(caption::dtype_name(dtype)));
      const PagedOptions options{.dtype = dtype, .emulation = {.seed = 7}};
      CHECK(have_same_bits(last_rows(model, options, Splitting::kNone),
                           last_rows(model, options, Splitting::kAll)));
    }
  }
}

TEST_CASE("rows that see several long splits agree with double precision, with a window, too") {
  const PagedModel model(2, 1, 64, {1900});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    for (const std::int64_t window : {0, 800}) {
      CAPTURE(window);
      const PagedOptions options{.dtype = dtype, .window = window};
      const std::vector<float> got = last_rows(model, options, Splitting::kAll);
      CHECK(have_same_bits(got, last_rows(model, options, Splitting::kNone)));
      const Wanted want = wanted_rows(model, 0, options, 1900 - kLastRows);
      check_close(got.data(), want.y, want.tolerance);
    }
  }
}

TEST_CASE("tensor cores give windows the same bits in chunks") {
  const PagedModel model(2, 1, 32, {290, 400});
  for (const std::int64_t window : {1, 63, 257}) {
    CAPTURE(window);
    const PagedOptions options{
        .dtype = DType::kF16, .page_tokens = 16, .window = window, .emulation = {.seed = 3}};
    PagedOptions turing = options;
    turing.compute_capability = 75;
    const std::vector<Tensor> whole = PagedBatches(model, options, with(Splitting::kNone)).whole();
    CHECK(count_different(whole, PagedBatches(model, options, with(Splitting::kNone)).chunked()) ==
          0);
    for (const PagedOptions& of_device : {options, turing}) {
      CHECK(count_different(whole,
                            PagedBatches(model, of_device, with(Splitting::kAll)).chunked()) == 0);
    }
  }
}

TEST_CASE("windows that begin within steps and splits give the same bits in chunks") {
  const PagedModel model(2, 1, 12, {290, 530});
  for (const std::int64_t window : {1, 31, 257}) {
    CAPTURE(window);
    const PagedOptions options{.page_tokens = 16, .window = window, .emulation = {.seed = 3}};
    const std::vector<Tensor> whole = PagedBatches(model, options, with(Splitting::kNone)).whole();
    for (const Splitting splitting : kSplittings) {
      CHECK(count_different(whole, PagedBatches(model, options, with(splitting)).chunked()) == 0);
    }
  }
}

TEST_CASE("a sequence has the bits it has alone, whoever shares the step") {
  // More sequences than a warp has lanes, of which some have no row.
  std::vector<std::int64_t> lengths{90, 0, 7, 33};
  for (std::int64_t i = 0; i < 36; ++i) lengths.push_back(i % 5);
  const PagedModel crowd(4, 2, 40, lengths);
  const PagedModel single(4, 2, 40, {90});  // the same seeds give the same sequence
  const std::vector<Tensor> alone = PagedBatches(single, {}, with(Splitting::kNone)).whole();
  for (const Splitting splitting : kSplittings) {
    const std::vector<Tensor> among = PagedBatches(crowd, {}, with(splitting)).chunked();
    CHECK(same_bits(among[0], alone[0]));
    for (std::size_t s = 0; s < lengths.size(); ++s) check_sequence(crowd, s, {}, among[s]);
  }
}

TEST_CASE("outputs of 16 bits are those of f32, rounded") {
  const PagedModel model(4, 2, 40, {70});
  const std::vector<Tensor> wide = PagedBatches(model, {}, with(Splitting::kNone)).whole();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const Splitting splitting : kSplittings) {
      check_rounded(PagedBatches(model, {.y_dtype = dtype}, with(splitting)).whole()[0], wide[0]);
    }
  }
}

TEST_CASE("scores far beyond exp's range still give probabilities") {
  PagedModel model(2, 1, 8, {140});
  for (std::int64_t i = 0; i < model.q[0].num_elements(); ++i) model.q[0].as<float>()[i] *= 1000;
  const std::vector<Tensor> got = PagedBatches(model, {}, with(Splitting::kAll)).whole();
  check_sequence(model, 0, {}, got[0]);
}

TEST_CASE("aligned heads of 64 move no byte twice over") {
  const PagedModel model(2, 1, 64, {260});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    for (const Splitting splitting : kSplittings) {
      std::string waste;
      PagedBatches(model, {.dtype = dtype, .waste = &waste}, with(splitting)).whole();
      CHECK(waste == "");
    }
  }
}

TEST_CASE("no rows are no launch, and compressed attention is refused") {
  const DeviceTensor q(DType::kF32, {0, 2, 8});
  const DeviceTensor pages(random_f32({1, 4, 1, 8}, 1));
  const DeviceTensor zero(indices({0}));
  const DeviceTensor cu(indices({0, 0}));
  PagedContext context{.k_pages = pages.view(),
                       .v_pages = pages.view(),
                       .cu_seqlens = cu.view(),
                       .context_lens = zero.view(),
                       .block_tables = zero.view().reshape({1, 1})};
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  paged_attention(stream, q.view(), context, 1, q.view());
  stream.synchronize();
  CHECK(emulation.report().launches == 0);
  const KeyClusters clusters;
  const KeyClusters* const none = nullptr;
  const KeyClusters* const one = &clusters;
  context.clusters = {&none, 1};
  CHECK_NOTHROW(paged_operands(q.view(), context, 1, q.view()));
  context.clusters = {&one, 1};
  CHECK_THROWS_WITH_AS(
      paged_operands(q.view(), context, 1, q.view()),
      "paged_attention: compressed attention runs on the CPU only; use --attention full", Error);
}

TEST_SUITE_END();
