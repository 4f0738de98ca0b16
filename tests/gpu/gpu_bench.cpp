// Measures a GPU, on the machine's first one or, in another executable of the same source, on the
// emulator: its rates, its tensor cores against their models, and a model of random weights.
//
//   caption_gpu_bench_on_gpu PART... [--shape NAME] [--small]
//
//   rates          copies and arithmetic
//   mma            100,000 products of random matrices per type, against their model
//                  (tests/support/cuda/tensor_core.h)
//   steps          prefill and decoding steps, each operation beside its prediction
//   engine         requests through the engine: prefill, decoding of 1, 32 and 64, and 64 clips
//   tower          CLIP-L over 64 frames
//   formats        steps with weights of 8 and 4 bits, of qwen3-1.7b without --shape
//   --shape NAME   the decoder; without it qwen3-8b where the GPU has 36 GiB, else qwen3-1.7b
//   --small        shapes and lengths for the emulator
//
// A line of JSON per result on stdout: {"result":"rates",...}. A part that fails has a line with
// "error" and does not end the others. Exit code 0: all parts ran, and every product is the
// model's; 1: not so; 2: wrong usage; 4: there is no GPU.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cublas_lt.h"
#include "backend/device_runtime.h"
#include "backend/machine.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "bench/bench_report.h"
#include "bench/internal/report_parts.h"
#include "bench/roofline.h"
#include "bench/run_workload.h"
#include "bench/step_bench.h"
#include "bench/tower_bench.h"
#include "model/random_model.h"
#include "plan/known_models.h"
#include "tests/gpu/checked_device.h"
#include "tests/gpu/mma_check.h"

namespace caption::testing {
namespace {

constexpr int kExitDifferent = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDevice = 4;
constexpr std::array kParts = {"rates", "mma", "steps", "engine", "tower", "formats"};

const model::DecoderSpec kSmall = {.num_layers = 2,
                                   .hidden = 64,
                                   .intermediate = 96,
                                   .num_heads = 2,
                                   .num_kv_heads = 1,
                                   .head_dim = 64,
                                   .vocab = 304,
                                   .max_positions = 1024,
                                   .qk_norm = true};

struct Options {
  std::vector<std::string> parts;
  std::string shape;
  bool is_small = false;
};

std::optional<Options> parse(std::span<char* const> arguments) {
  Options options;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string name = arguments[i];
    if (name == "--small") {
      options.is_small = true;
    } else if (name == "--shape" && i + 1 < arguments.size()) {
      options.shape = arguments[++i];
      const auto known = plan::find_known_model(options.shape);
      if (!known.has_value() || !known->text.has_value()) return std::nullopt;
    } else if (std::find(kParts.begin(), kParts.end(), name) != kParts.end()) {
      options.parts.push_back(name);
    } else {
      return std::nullopt;
    }
  }
  return options.parts.empty() ? std::nullopt : std::optional(options);
}

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// An object of JSON on a line, with "result" before its other values.
void print_result(const char* result, std::string object) {
  object.erase(object.find_last_of('}') + 1);
  print(std::string("{\"result\":\"") + result + "\"," + object.substr(1));
}

class GpuBench {
 public:
  GpuBench(const CheckedDevice& device, const Options& options)
      : device_(device), options_(options), stream_(context_of(device), pool_) {}

  // Returns whether all went well.
  bool run(const std::string& part) {
    try {
      if (part == "rates") return measure_rates();
      if (part == "mma") return check_products();
      if (part == "steps") return time_steps();
      if (part == "engine") return run_engine();
      if (part == "formats") return time_formats();
      return time_tower();
    } catch (const std::exception& error) {
      return report_error(part, error.what());
    }
  }

 private:
  static Context context_of(const CheckedDevice& device) {
    Context context = device.context();
    context.num_threads = detect_machine().num_cpus;
    return context;
  }

  static bool report_error(const std::string& what, const char* error) {
    JsonWriter line;
    line.begin_object().add("result", what).add("error", error).end_object();
    print(line.text());
    return false;
  }

  bool measure_rates() {
    JsonWriter line;
    line.begin_object().add("result", "rates");
    write_roofline(line, "rates", bench::measure_roofline(stream_, roofline_options()));
    print(line.end_object().text());
    return true;
  }

  bool check_products() {
    constexpr std::int64_t kProducts = 100'000;
    constexpr std::int64_t kFewProducts = 200;
    bool are_equal = true;
    const bool has_bf16 = stream_.context().compute_capability >= 80;
    for (const bool is_f16 : {false, true}) {
      if (!is_f16 && !has_bf16) continue;
      const MmaCheck check =
          check_mma(stream_, is_f16, options_.is_small ? kFewProducts : kProducts);
      print_check(check);
      are_equal = are_equal && check.equal == check.products;
    }
    return are_equal;
  }

  static void print_check(const MmaCheck& check) {
    JsonWriter line;
    line.begin_object()
        .add("result", "mma")
        .add("type", check.type)
        .add("model", check.model)
        .add("products", check.products)
        .add("equal", check.equal)
        .add("equal_ampere", check.equal_ampere)
        .add("equal_hopper", check.equal_hopper)
        .add("equal_fused", check.equal_fused);
    if (check.first.has_value()) {
      const auto hexadecimal = [](std::uint32_t bits) {
        std::array<char, 16> text{};
        std::snprintf(text.data(), text.size(), "%08x", bits);
        return std::string(text.data());
      };
      const MmaDifference& first = *check.first;
      line.begin_object("first_difference")
          .add("product", first.product)
          .add("row", std::int64_t{first.row})
          .add("column", std::int64_t{first.column})
          .begin_list("a");
      for (const std::uint16_t x : first.a) line.add_item(hexadecimal(x).substr(4));
      line.end_list().begin_list("b");
      for (const std::uint16_t x : first.b) line.add_item(hexadecimal(x).substr(4));
      line.end_list()
          .add("c", hexadecimal(first.c))
          .add("expected", hexadecimal(first.expected))
          .add("found", hexadecimal(first.found))
          .end_object();
    }
    print(line.end_object().text());
  }

  bool time_steps() {
    bench::StepBenchOptions options;
    if (!device_.is_emulated()) {
      options.card = bench::find_card_of(detect_machine().cuda_devices.front());
      load_library();
      options.library = library_.get();
    } else {
      options.card = bench::find_cuda_card("h100");
    }
    const std::vector<bench::CudaStep> steps =
        options_.is_small ? bench::make_steps(18, 18, {2})
                          : bench::make_steps(4608, 1280, {1, 8, 16, 32, 64});
    return time_each(decoder(), steps, options, subject());
  }

  // Beside which products are timed, where it is there.
  void load_library() {
    std::string why;
    if (library_ == nullptr) library_ = CublasLt::load(CublasLt::library_names(), &why);
    if (library_ != nullptr) return;
    JsonWriter line;
    line.begin_object().add("result", "cublaslt").add("absent", why).end_object();
    print(line.text());
  }

  // Weights of 8 and 4 bits, which have no prediction.
  bool time_formats() {
    using weights::WeightFormat;
    std::vector<WeightFormat> formats = {WeightFormat::kInt8, WeightFormat::kW8A8,
                                         WeightFormat::kInt4, WeightFormat::kW4A8,
                                         WeightFormat::kNf4};
    const bool has_fp8 = !weights::find_obstacle(stream_.context(), WeightFormat::kFp8).has_value();
    if (has_fp8) formats.push_back(WeightFormat::kFp8);
    if (options_.is_small) formats = {WeightFormat::kInt8};
    const std::string name = options_.shape.empty() ? "qwen3-1.7b" : options_.shape;
    const model::DecoderSpec spec =
        options_.is_small ? kSmall : plan::find_known_model(name)->text.value();
    const std::vector<bench::CudaStep> steps = options_.is_small
                                                   ? bench::make_steps(3, 3, {})
                                                   : bench::make_steps(1024, 1280, {1, 16, 64});
    decoder_.reset();  // its memory may be needed
    bool is_right = true;
    for (const WeightFormat format : formats) {
      const auto decoder = model::make_random_decoder(stream_, spec, format, kSeed);
      const std::string what = name + " (random weights), " + std::string(describe(format));
      is_right = time_each(*decoder, steps, {}, what) && is_right;
    }
    return is_right;
  }

  // A line per step, so that one without memory for its pages does not end the others.
  bool time_each(model::Decoder& decoder, const std::vector<bench::CudaStep>& steps,
                 bench::StepBenchOptions options, const std::string& name) {
    options.roofline = roofline_options();
    if (options_.is_small) options.num_rounds = 1;
    bool is_right = true;
    for (const bench::CudaStep& step : steps) {
      options.steps = {step};
      try {
        print_result("steps", to_json(name, bench::bench_steps(stream_, decoder, options)));
      } catch (const std::exception& error) {
        is_right = report_error("steps", (step.name + ": " + error.what()).c_str());
      }
    }
    return is_right;
  }

  bool run_engine() {
    struct Case {
      bench::Workload workload;
      std::int32_t max_num_seqs;
      int repeat = 2;
    };
    std::vector<Case> cases;
    if (options_.is_small) {
      cases = {{bench::make_fixed_workload(2, 5, 3), 2, 1},
               {bench::make_prefix_workload({.num_clips = 2,
                                             .prompts_per_clip = 1,
                                             .vision_tokens = 4,
                                             .prompt_tokens = 2,
                                             .output_tokens = 2}),
                2, 1}};
    } else {
      cases = {{bench::make_fixed_workload(1, 4608, 1), 1},
               {bench::make_fixed_workload(1, 1152, 256), 1},
               {bench::make_fixed_workload(32, 1152, 256), 32},
               {bench::make_fixed_workload(64, 1152, 256), 64},
               {bench::make_prefix_workload({.num_clips = 64,
                                             .prompts_per_clip = 1,
                                             .vision_tokens = 4608,
                                             .prompt_tokens = 32,
                                             .output_tokens = 256}),
                32, 1}};
    }
    bool is_right = true;
    for (const Case& one : cases) {
      try {
        run_workload(one.workload, one.max_num_seqs, one.repeat);
      } catch (const std::exception& error) {
        is_right =
            report_error("engine", (one.workload.name + ", " + std::to_string(one.max_num_seqs) +
                                    " at a time: " + error.what())
                                       .c_str());
      }
    }
    return is_right;
  }

  void run_workload(const bench::Workload& workload, std::int32_t max_num_seqs, int repeat) {
    model::Decoder& decoder = this->decoder();
    engine::EngineOptions engine;
    engine.max_num_seqs = max_num_seqs;
    engine.max_num_batched_tokens = options_.is_small ? 64 : 8192;
    engine.kv_dtype = DType::kBF16;
    const std::int64_t positions = bench::most_positions(workload);
    engine.kv_cache_bytes =
        model::kv_token_bytes(decoder.spec(), engine.kv_dtype) * (positions + 32) * max_num_seqs;
    const std::string name = workload.name + ", " + std::to_string(max_num_seqs) +
                             " at a time of " + std::to_string(positions) + " positions";
    bench::CompareOptions options;
    options.repeat = repeat;
    options.roofline = roofline_options();
    const bench::Variant variant{.name = name, .group = workload.name, .options = engine};
    const bench::DecoderCosts costs{.model = model::decoder_blueprint(decoder.spec()),
                                    .weights = weights::WeightFormat::kBF16};
    print_result("engine",
                 to_json({.model = shape_name(), .setting = subject()},
                         bench::compare(decoder, stream_, costs, workload, {variant}, options)));
  }

  bool time_tower() {
    bench::TowerBenchOptions options;
    options.num_frames = options_.is_small ? 1 : 64;
    options.repeat = options_.is_small ? 1 : 5;
    options.roofline = roofline_options();
    model::VisionSpec spec = plan::find_known_model("clip-l-336")->vision.value();
    if (options_.is_small) {
      spec = {.num_layers = 1,
              .hidden = 64,
              .intermediate = 96,
              .num_heads = 1,
              .patch_px = 14,
              .image_px = 28,
              .num_positions = 5};
    }
    const bench::TowerBench result =
        bench::bench_tower(stream_, spec, weights::WeightFormat::kBF16, options);
    print_result("tower", to_json(options_.is_small ? "a small tower" : "clip-l-336", result));
    return true;
  }

  bench::RooflineOptions roofline_options() const {
    bench::RooflineOptions options;
    if (options_.is_small) options.num_passes = 1;
    return options;
  }

  std::string shape_name() const {
    constexpr std::int64_t kLargeBytes = 36LL << 30;
    if (!options_.shape.empty()) return options_.shape;
    if (options_.is_small) return "a small model";
    const DeviceMemory memory = require_device_runtime(stream_.device()).memory();
    return memory.total_bytes >= kLargeBytes ? "qwen3-8b" : "qwen3-1.7b";
  }

  std::string subject() const { return shape_name() + " (random weights) on " + device_.name(); }

  model::Decoder& decoder() {
    if (decoder_ == nullptr) {
      const model::DecoderSpec spec =
          options_.is_small ? kSmall : plan::find_known_model(shape_name())->text.value();
      decoder_ = model::make_random_decoder(stream_, spec, weights::WeightFormat::kBF16, kSeed);
    }
    return *decoder_;
  }

  static constexpr std::uint64_t kSeed = 20;

  const CheckedDevice& device_;
  const Options& options_;
  ThreadPool pool_{detect_machine().num_cpus};
  Stream stream_;
  std::unique_ptr<model::Decoder> decoder_;  // made when it is first needed
  std::unique_ptr<CublasLt> library_;
};

int run(const Options& options) {
  constexpr int kEmulatedCapability = 90;
  const CheckedDevice device(kEmulatedCapability);
  GpuBench bench(device, options);
  bool is_right = true;
  for (const std::string& part : options.parts) is_right = bench.run(part) && is_right;
  if (const std::string faults = device.faults(); !faults.empty()) {
    std::fprintf(stderr, "%s\n", faults.c_str());
    is_right = false;
  }
  return is_right ? 0 : kExitDifferent;
}

}  // namespace
}  // namespace caption::testing

int main(int argc, char** argv) {
  const auto options = caption::testing::parse({argv, static_cast<std::size_t>(argc)});
  if (!options.has_value()) {
    std::fprintf(stderr,
                 "usage: %s rates|mma|steps|engine|tower|formats... [--shape NAME] [--small]\n",
                 argv[0]);
    return caption::testing::kExitUsage;
  }
  try {
    return caption::testing::run(*options);
  } catch (const caption::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == caption::ErrorCode::kUnavailable ? caption::testing::kExitNoDevice
                                                            : caption::testing::kExitDifferent;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return caption::testing::kExitDifferent;
  }
}
