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
  const bool has_tower = shape.vision.has_value() && takes_fixed_frames(*shape.vision);
  if (!shape.text.has_value() && !has_tower) {
    throw Error(ErrorCode::kUnavailable,
                "bench: " + shape.name +
                    ": operations are measured of towers of single frames of a fixed size; "
                    "--tower measures this one as a whole");
  }
  KernelBench bench{.rows = {}, .before = measure_roofline(stream, options.roofline), .after = {}};
  if (shape.vision.has_value() && !has_tower) {
    bench.left_out = "the tower, which takes no single frames of a fixed size; --tower measures it";
  }
  KernelTimer timer(stream, options);
  if (shape.text.has_value()) bench_text(timer, *shape.text);
  if (has_tower) bench_vision(timer, *shape.vision);
  bench.rows = timer.take_rows();
  bench.after = measure_roofline(stream, options.roofline);
  return bench;
}

}  // namespace caption::bench
