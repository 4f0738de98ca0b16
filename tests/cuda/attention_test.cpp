#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attend.h"
#include "tests/cuda/paged_batches.h"
#include "tests/kernels/attention_reference.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::View;
using caption::cuda_emulator::AccessKind;
using caption::cuda_emulator::Report;
using caption::kernels::attention;
using caption::kernels::AttentionInput;
using caption::kernels::cuda::attend;
using caption::kernels::cuda::dense_operands;
using caption::kernels::cuda::Splitting;
using namespace caption::testing;

namespace {

struct Case {
  std::int64_t frames, seq_len, kv_len, heads, kv_heads, head_dim;
  DType dtype = DType::kF32;
  std::int64_t stride = 0;  // row stride of k and v; 0: dense

  std::int64_t keys() const { return kv_len == 0 ? seq_len : kv_len; }
  float scale() const { return 3 / std::sqrt(static_cast<float>(head_dim)); }
};
constexpr Case kCases[] = {{1, 1, 0, 1, 1, 1},
                           {2, 17, 0, 3, 3, 24, DType::kBF16},
                           {3, 37, 0, 2, 1, 72, DType::kF16, 77},
                           {1, 5, 259, 4, 2, 64},
                           {2, 7, 33, 5, 1, 80, DType::kBF16, 84},
                           {1, 3, 600, 2, 2, 129, DType::kF16},
                           {2, 70, 0, 2, 2, 64, DType::kBF16},
                           {1, 67, 259, 2, 1, 72, DType::kF16, 80},
                           {2, 3, 65, 2, 2, 80, DType::kBF16, 176},
                           {1, 5, 17, 1, 1, 96, DType::kF16},
                           {2, 3, 65, 2, 1, 128, DType::kBF16},
                           // More splits than a thread loads ahead.
                           {1, 2, 7300, 1, 1, 32, DType::kBF16}};

struct Operands {
  explicit Operands(const Case& c)
      : q(random_f32({c.frames * c.seq_len, c.heads, c.head_dim}, 1)),
        k(random_of(c.dtype, {c.frames * c.keys(), c.kv_heads, c.head_dim}, 2)),
        v(random_of(c.dtype, k.shape(), 3)) {}
  Tensor q, k, v;
};

Tensor attended(const Case& c, const Operands& x, std::uint64_t seed, Splitting splitting,
                DType y_dtype = DType::kF32) {
  const std::int64_t row = c.heads * c.head_dim;
  const DeviceTensor q(x.q, row + 2);
  const DeviceTensor k(x.k, c.stride);
  const DeviceTensor v(x.v, c.stride);
  const DeviceTensor y(y_dtype, x.q.shape(), row + 1);
  run_emulated(seed, [&](Stream& stream) {
    const AttentionInput input{.q = q.view(),
                               .k = k.view(),
                               .v = v.view(),
                               .seq_len = c.seq_len,
                               .kv_len = c.kv_len,
                               .scale = c.scale()};
    if (splitting == Splitting::kAuto) {
      attention(stream, input, y.view());
    } else {
      attend(stream, dense_operands(input, y.view()), splitting);
    }
  });
  return y.to_host();
}

// What the emulator reports of attention with operands that are dense.
Report report_of(const Case& c, const Operands& x, Splitting splitting, DType y_dtype) {
  const DeviceTensor q(x.q), k(x.k), v(x.v);
  const DeviceTensor y(y_dtype, x.q.shape());
  return run_counted([&](Stream& stream) {
    const AttentionInput input{.q = q.view(),
                               .k = k.view(),
                               .v = v.view(),
                               .seq_len = c.seq_len,
                               .kv_len = c.kv_len,
                               .scale = c.scale()};
    attend(stream, dense_operands(input, y.view()), splitting);
  });
}

// The bytes that lanes access so many at a time.
std::size_t bytes_in_packs(const Report& report, AccessKind kind, std::size_t pack_bytes) {
  std::size_t bytes = 0;
  for (const auto& cost : report.costs) {
    if (cost.kind != kind || static_cast<std::size_t>(cost.size_bytes) != pack_bytes) continue;
    bytes += static_cast<std::size_t>(cost.lanes) * pack_bytes;
  }
  return bytes;
}

// Checks y against double precision.
void check_exact(const Case& c, const Operands& x, const Tensor& y) {
  const auto params = operands_of(c.stride % 8 == 0 ? c.dtype : DType::kF32, c.head_dim);
  const std::vector<double> q = queries_of_kernel(x.q, params);
  const std::vector<double> k = values(x.k);
  const std::vector<double> v = values(x.v);
  std::vector<double> want, tolerance;
  for (std::int64_t t = 0; t < c.frames * c.seq_len; ++t) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<const double*> keys, key_values;
      for (std::int64_t j = 0; j < c.keys(); ++j) {
        const std::int64_t at =
            ((t / c.seq_len * c.keys() + j) * c.kv_heads + h / (c.heads / c.kv_heads)) * c.head_dim;
        keys.push_back(k.data() + at);
        key_values.push_back(v.data() + at);
      }
      attend_as_kernel(q.data() + (t * c.heads + h) * c.head_dim, keys, key_values, params,
                       static_cast<double>(c.scale()), want, tolerance);
    }
  }
  check_close(y.as<float>(), want, tolerance);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention");

TEST_CASE("agrees with a double-precision loop, and has the same bits in splits") {
  for (const Case& c : kCases) {
    CAPTURE(c.seq_len);
    CAPTURE(c.head_dim);
    const Operands x(c);
    const Tensor y = attended(c, x, 0, Splitting::kNone);
    check_exact(c, x, y);
    CHECK(same_bits(y, attended(c, x, 1, Splitting::kAll)));
    CHECK(same_bits(y, attended(c, x, 2, Splitting::kAuto)));
    check_rounded(attended(c, x, 3, Splitting::kNone, DType::kBF16), y);
    check_rounded(attended(c, x, 3, Splitting::kAll, DType::kF16), y);
  }
}

TEST_CASE("queries and outputs may begin at any element") {
  constexpr Case kCase{1, 3, 65, 2, 2, 80, DType::kBF16};
  const Operands x(kCase);
  constexpr std::int64_t kRow = kCase.heads * kCase.head_dim;
  constexpr std::int64_t kStride = kRow + 4;  // a multiple of 16 bytes of f32, and of 8 of bf16
  const DeviceTensor k(x.k), v(x.v);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    const Tensor want = attended(kCase, x, 0, Splitting::kNone, dtype);
    for (const std::int64_t first : {1, 2}) {
      CAPTURE(first);
      Tensor wide = Tensor::zeros(DType::kF32, {kCase.seq_len, kStride});
      for (std::int64_t t = 0; t < kCase.seq_len; ++t) {
        std::memcpy(wide.as<float>() + t * kStride + first, x.q.as<float>() + t * kRow,
                    static_cast<std::size_t>(kRow) * sizeof(float));
      }
      const DeviceTensor q(wide);
      for (const Splitting splitting : {Splitting::kNone, Splitting::kAll}) {
        const DeviceTensor y(Tensor::zeros(dtype, {kCase.seq_len, kStride}));
        run_emulated(4, [&](Stream& stream) {
          const AttentionInput input{.q = q.view().columns(first, kRow).reshape(x.q.shape()),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .seq_len = kCase.seq_len,
                                     .kv_len = kCase.kv_len,
                                     .scale = kCase.scale()};
          const View outputs = y.view().columns(first, kRow).reshape(x.q.shape());
          attend(stream, dense_operands(input, outputs), splitting);
        });
        const Tensor got = y.to_host();
        const auto row_bytes = static_cast<std::size_t>(kRow * dtype_size_bytes(dtype));
        for (std::int64_t t = 0; t < kCase.seq_len; ++t) {
          CHECK(std::memcmp(got.view().rows(t, 1).columns(first, kRow).raw(),
                            want.view().rows(t, 1).raw(), row_bytes) == 0);
        }
      }
    }
  }
}

TEST_CASE("keys and values may begin at any element") {
  struct Begin {
    std::int64_t k, v;
  };
  // In rows whose stride is a multiple of 16 bytes; the wanted outputs are of rows of odd strides,
  // of which each element is loaded alone.
  constexpr Case kBegun[] = {{1, 3, 37, 2, 2, 24},
                             {1, 3, 37, 2, 2, 66},
                             {1, 3, 37, 2, 2, 24, DType::kBF16},
                             {1, 3, 37, 2, 2, 64, DType::kF16}};
  for (const Case& c : kBegun) {
    const std::int64_t row = c.kv_heads * c.head_dim;
    Case odd = c;
    odd.stride = row + 1;
    const Operands x(c);
    const Tensor want = attended(odd, x, 0, Splitting::kNone);
    const DeviceTensor q(x.q);
    for (const Begin begin : {Begin{1, 0}, {0, 1}, {2, 0}, {0, 2}, {4, 0}, {0, 4}}) {
      CAPTURE(c.head_dim);
      CAPTURE(begin.k);
      CAPTURE(begin.v);
      const auto placed = [&](const Tensor& rows, std::int64_t first) {
        Tensor wide = Tensor::zeros(c.dtype, {c.kv_len, (row + 7) / 8 * 8 + 8});
        const auto bytes = static_cast<std::size_t>(row) * dtype_size_bytes(c.dtype);
        for (std::int64_t t = 0; t < c.kv_len; ++t) {
          std::memcpy(wide.view().rows(t, 1).columns(first, row).raw(),
                      rows.view().rows(t, 1).raw(), bytes);
        }
        return wide;
      };
      const DeviceTensor k(placed(x.k, begin.k));
      const DeviceTensor v(placed(x.v, begin.v));
      const DeviceTensor y(DType::kF32, x.q.shape());
      run_emulated(1, [&](Stream& stream) {
        const AttentionInput input{.q = q.view(),
                                   .k = k.view().columns(begin.k, row).reshape(x.k.shape()),
                                   .v = v.view().columns(begin.v, row).reshape(x.v.shape()),
                                   .seq_len = c.seq_len,
                                   .kv_len = c.kv_len,
                                   .scale = c.scale()};
        attend(stream, dense_operands(input, y.view()), Splitting::kNone);
      });
      CHECK(same_bits(y.to_host(), want));
    }
  }
}

TEST_CASE("tensor cores attend to 32 to 128 dimensions in whole packs of 16 bytes") {
  alignas(16) static constexpr unsigned char kMemory[32] = {};
  const auto is_on_tensor_cores = [](DType dtype, int head_dim, int kv_stride = 0, int k_offset = 0,
                                     int v_offset = 0) {
    caption::kernels::cuda::AttendParams params;
    params.kv_dtype = dtype;
    params.head_dim = head_dim;
    params.kv_stride = kv_stride == 0 ? head_dim : kv_stride;
    params.k = kMemory + k_offset;
    params.v = kMemory + v_offset;
    return caption::kernels::cuda::attends_tiles(params);
  };
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int dim : {32, 40, 72, 128}) CHECK(is_on_tensor_cores(dtype, dim));
    for (const int dim : {24, 36, 136}) CHECK_FALSE(is_on_tensor_cores(dtype, dim));
    CHECK(is_on_tensor_cores(dtype, 64, 72));
    CHECK_FALSE(is_on_tensor_cores(dtype, 64, 68));
    CHECK(is_on_tensor_cores(dtype, 64, 64, 16, 16));
    CHECK_FALSE(is_on_tensor_cores(dtype, 64, 64, 8, 0));
    CHECK_FALSE(is_on_tensor_cores(dtype, 64, 64, 0, 8));
  }
  for (const int dim : {32, 48, 128}) CHECK(is_on_tensor_cores(DType::kI8, dim));
  for (const int dim : {16, 40, 144}) CHECK_FALSE(is_on_tensor_cores(DType::kI8, dim));
  CHECK_FALSE(is_on_tensor_cores(DType::kI8, 64, 72));
  CHECK_FALSE(is_on_tensor_cores(DType::kF32, 64));
}

TEST_CASE("where they are aligned, keys and values are loaded four elements at a time") {
  // Heads that tensor cores do not attend to.
  for (const Case& c : {Case{1, 1, 65, 2, 2, 64},
                        {1, 1, 65, 2, 2, 24, DType::kBF16},
                        {1, 1, 65, 2, 2, 24, DType::kF16}}) {
    CAPTURE(std::string(caption::dtype_name(c.dtype)));
    const Operands x(c);
    const auto report = report_of(c, x, Splitting::kNone, DType::kF32);
    CHECK(bytes_in_packs(report, AccessKind::kLoadGlobal, 4 * dtype_size_bytes(c.dtype)) ==
          x.k.size_bytes() + x.v.size_bytes());
  }
}

TEST_CASE("where they are aligned, tensor cores' queries are loaded and outputs stored in packs") {
  const Case c{1, 3, 65, 2, 2, 64, DType::kBF16};
  const Operands x(c);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(std::string(caption::dtype_name(dtype)));
    const std::size_t size = dtype_size_bytes(dtype);
    const std::size_t y_bytes = size * static_cast<std::size_t>(x.q.num_elements());
    const Report whole = report_of(c, x, Splitting::kNone, dtype);
    CHECK(bytes_in_packs(whole, AccessKind::kLoadGlobal, 16) ==
          x.q.size_bytes() + x.k.size_bytes() + x.v.size_bytes());
    CHECK(bytes_in_packs(whole, AccessKind::kStoreGlobal, 2 * size) == y_bytes);
    const Report splits = report_of(c, x, Splitting::kAll, dtype);
    if (dtype == DType::kF32) {
      CHECK(bytes_in_packs(splits, AccessKind::kStoreGlobal, 4 * size) == y_bytes);
    } else {  // 8 bytes of the splits' states are stored at a time, too
      CHECK(bytes_in_packs(splits, AccessKind::kStoreGlobal, size) == 0);
    }
  }
}

TEST_CASE("a query has the same bits over pages") {
  const PagedModel model(1, 1, 64, {270});
  const Case c{1, 270, 0, 1, 1, 64};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::vector<Tensor> paged =
        PagedBatches(
            model, {.dtype = dtype},
            [](Stream& stream, caption::ConstView q, const caption::kernels::PagedContext& context,
               float scale, caption::View y) {
              caption::kernels::paged_attention(stream, q, context, scale, y);
            })
            .whole();
    Operands x(c);
    x.q = model.q[0].clone();
    x.k = converted(model.k[0], dtype);
    x.v = converted(model.v[0], dtype);
    const Tensor dense = attended(c, x, 0, Splitting::kAuto);
    // In both operations the last query sees every key.
    CHECK(std::equal(dense.as<float>() + 269 * 64, dense.as<float>() + 270 * 64,
                     paged[0].as<float>() + 269 * 64));
  }
}

TEST_CASE("no rows are no launch, and rows of k and v must have one stride") {
  const DeviceTensor none(DType::kF32, {0, 2, 8});
  const DeviceTensor k(random_f32({3, 2, 8}, 1));
  const DeviceTensor v(random_f32({3, 2, 8}, 1), 20);
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  const DeviceTensor no_keys(DType::kF32, {0, 2, 8});
  attention(stream,
            {.q = none.view(), .k = no_keys.view(), .v = no_keys.view(), .seq_len = 3, .scale = 1},
            none.view());
  stream.synchronize();
  CHECK(emulation.report().launches == 0);
  CHECK_THROWS_WITH_AS(
      attention(stream, {.q = k.view(), .k = k.view(), .v = v.view(), .seq_len = 3, .scale = 1},
                k.view()),
      "attention: k and v have different row strides", Error);
}

TEST_SUITE_END();
