#include "bench/tower_bench.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "bench/internal/kernel_timer.h"
#include "bench/internal/operations_json.h"
#include "bench/internal/report_parts.h"
#include "bench/statistics.h"
#include "model/random_model.h"
#include "tensor/copy.h"

namespace caption::bench {
namespace {

std::vector<NamedMatrix> matrices_of(const model::VisionSpec& shape) {
  if (shape.qwen.gated_mlp) {
    return {{.name = "patches", .matrix = {.out = shape.hidden, .in = shape.patch_values()}},
            {.name = "q, k, v", .matrix = {.out = 3 * shape.hidden, .in = shape.hidden}},
            {.name = "o", .matrix = {.out = shape.hidden, .in = shape.hidden}},
            {.name = "gate, up", .matrix = {.out = 2 * shape.intermediate, .in = shape.hidden}},
            {.name = "down", .matrix = {.out = shape.hidden, .in = shape.intermediate}}};
  }
  return {{.name = "patches", .matrix = {.out = shape.hidden, .in = shape.patch_values()}},
          {.name = "q, k, v", .matrix = {.out = 3 * shape.hidden, .in = shape.hidden}},
          {.name = "o", .matrix = {.out = shape.hidden, .in = shape.hidden}},
          {.name = "fc1", .matrix = {.out = shape.intermediate, .in = shape.hidden}},
          {.name = "fc2", .matrix = {.out = shape.hidden, .in = shape.intermediate}}};
}

vision::ImageSize size_of(const model::VisionSpec& shape, const model::ClipShape& clip) {
  if (shape.image_px > 0) return {shape.image_px, shape.image_px};
  return vision::output_size({.smart = shape.resize, .do_center_crop = false}, clip.num_frames,
                             {clip.frame.height_px, clip.frame.width_px});
}

double seconds_of(model::RandomTower& tower, Stream& stream, const Tensor& pixels) {
  const Event begin = stream.record();
  tower.encode(stream, pixels.view());
  return std::max(std::chrono::duration<double>(stream.record().since(begin)).count(), 1e-6);
}

}  // namespace

TowerBench bench_tower(Stream& stream, const model::VisionSpec& shape, weights::WeightFormat type,
                       const TowerBenchOptions& options) {
  CAPTION_CHECK(options.num_frames >= 1 && options.repeat >= 1, "bench: no frames to encode");
  model::RandomTower tower(stream, shape, type, options.seed, options.out);
  const model::ClipShape clip = {.num_frames = options.num_frames, .frame = options.frame};
  const vision::ImageSize size = size_of(shape, clip);
  const Tensor pixels = copy_to(
      stream, stream.device(),
      random_tensor(DType::kF32, {options.num_frames, 3, size.height_px, size.width_px}).view());
  TowerBench bench;
  bench.num_frames = options.num_frames;
  bench.width_px = size.width_px;
  bench.height_px = size.height_px;
  bench.weight_bytes = tower.weight_bytes();
  bench.flops_per_frame =
      model::encoder_flops(tower.spec(), clip) / static_cast<double>(options.num_frames);
  bench.operands = operands_of(type, weights::Role::kEncoderLinear);
  bench.before = measure_roofline(stream, options.roofline);
  tower.encode(stream, pixels.view());  // first call grows the scratch memory
  std::vector<double> runs;
  for (int i = 0; i < options.repeat; ++i) runs.push_back(seconds_of(tower, stream, pixels));
  bench.seconds = median(std::move(runs));
  Profile profile;
  stream.set_profile(&profile);
  const double profiled_s = seconds_of(tower, stream, pixels);
  stream.set_profile(nullptr);
  bench.operations = name_operations(profile.entries(), matrices_of(shape), profiled_s);
  bench.after = measure_roofline(stream, options.roofline);
  return bench;
}

std::string to_table(const std::string& subject, const TowerBench& bench) {
  return subject + "\n" + describe_machine(bench.before, bench.after) + "\n" +
         format_number(bench.frames_per_s()) + " frames/s, " + std::to_string(bench.num_frames) +
         " at a time of " + std::to_string(bench.width_px) + "x" + std::to_string(bench.height_px) +
         " pixels; " + format_si(bench.flops_per_frame) + "FLOP a frame, " +
         format_si(bench.flops_per_s()) + "FLOP/s, " + format_percent(bench.share_of_peak()) +
         " of the machine's; weights " + format_bytes(bench.weight_bytes) + "\n\n" +
         profile_table(bench.operations, bench.num_frames, "ms/frame");
}

std::string to_json(const std::string& subject, const TowerBench& bench) {
  JsonWriter json;
  json.begin_object()
      .add("subject", subject)
      .add("frames", bench.num_frames)
      .add("width_px", bench.width_px)
      .add("height_px", bench.height_px)
      .add("frames_per_s", bench.frames_per_s())
      .add("flops_per_frame", bench.flops_per_frame)
      .add("flops_per_s", bench.flops_per_s())
      .add("share_of_peak", bench.share_of_peak())
      .add("weight_bytes", bench.weight_bytes);
  write_roofline(json, "machine_before", bench.before);
  write_roofline(json, "machine_after", bench.after);
  write_operations(json, bench.operations);
  json.end_object();
  return json.text() + "\n";
}

}  // namespace caption::bench
