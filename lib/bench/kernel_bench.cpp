#include "bench/kernel_bench.h"

#include "base/error.h"
#include "bench/internal/kernel_cases.h"
#include "bench/internal/kernel_timer.h"

namespace caption::bench {

KernelBench bench_kernels(Stream& stream, const model::Blueprint& shape,
                          const KernelBenchOptions& options) {
  if (!shape.text.has_value() && !shape.vision.has_value()) {
    throw Error(ErrorCode::kUsage, "bench: " + shape.name + " has neither a decoder nor a tower");
  }
  CAPTION_CHECK(!options.tokens.empty() && options.num_rounds >= 1, "bench: nothing to time");
  KernelBench bench{.rows = {}, .before = measure_roofline(stream, options.roofline), .after = {}};
  KernelTimer timer(stream, options);
  if (shape.text.has_value()) bench_text(timer, *shape.text);
  if (shape.vision.has_value()) bench_vision(timer, *shape.vision);
  bench.rows = timer.take_rows();
  bench.after = measure_roofline(stream, options.roofline);
  return bench;
}

}  // namespace caption::bench
