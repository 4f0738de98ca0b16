// A dense layer of any size in kernels_bench, for comparison with matrix products of other
// libraries (scripts/peers). Every call uses the same weight, as their benchmarks do.
#include <iostream>
#include <string>
#include <utility>

#include "backend/stream.h"
#include "base/error.h"
#include "bench/kernel_bench.h"
#include "kernels/linear.h"
#include "tests/kernels/bench_rates.h"
#include "weights/quantise.h"

namespace caption::testing {
namespace {

kernels::Weight place(Stream& stream, const std::string& format, ConstView rows) {
  if (format == "bf16") return kernels::place_bf16(stream, rows);
  const auto quantised_as = [&](MatrixFormat quantised) {
    return kernels::place_quantised(stream, quantised, rows.dim(0),
                                    [=](std::int64_t first, std::int64_t count) {
                                      return weights::quantise(rows.rows(first, count), quantised);
                                    });
  };
  if (format == "w8a8") return quantised_as(MatrixFormat::kInt8Row);
  if (format == "int8") return quantised_as(MatrixFormat::kInt8);
  if (format == "int4") return quantised_as(MatrixFormat::kInt4);
  if (format == "w4a8") return quantised_as(MatrixFormat::kInt4A8);
  throw Error(ErrorCode::kUsage,
              "kernels_bench: format " + format + "; bf16, w8a8, int8, int4 or w4a8 is wanted");
}

}  // namespace

void bench_linear(ThreadPool& pool, const std::string& format, const LinearSize& size) {
  Stream stream(pool);
  const Tensor rows = filled(DType::kBF16, {size.n, size.k});
  const kernels::Weight weight = place(stream, format, rows.view());
  const Tensor x = filled(DType::kF32, {size.m, size.k});
  Tensor y(DType::kF32, {size.m, size.n});
  bench::KernelBench bench{.rows = {}, .before = bench::measure_roofline(stream), .after = {}};
  bench::KernelRow row{.operation = "linear", .setting = format, .tokens = size.m};
  row.bytes = static_cast<double>(weight.size_bytes() + x.size_bytes() + y.size_bytes());
  row.flops = 2 * static_cast<double>(size.m * size.k * size.n);
  row.seconds =
      seconds_per_call([&] { kernels::linear(stream, x.view(), weight, ConstView{}, y.view()); });
  bench.rows.push_back(std::move(row));
  bench.after = bench::measure_roofline(stream);
  std::cout << bench::to_json(format, bench);
}

}  // namespace caption::testing
