#include "bench_steps.h"

#include <iostream>
#include <memory>
#include <vector>

#include "backend/cublas_lt.h"
#include "backend/thread_pool.h"
#include "base/log.h"
#include "bench/step_bench.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "model/random_model.h"
#include "write_text.h"

namespace caption::cli {
namespace {

// Those of bench::predicted_steps().
constexpr std::int64_t kPrefillTokens = 4608;
constexpr std::int64_t kContextTokens = 1280;
const std::vector<std::int32_t> kBatches = {1, 16, 64};

}  // namespace

int bench_gpu_steps(const BenchFlags& flags, const BenchDevice& device,
                    const config::Preset& preset, const std::string& name,
                    const model::DecoderSpec& shape) {
  const weights::WeightFormat format = config::weight_format(preset.quantization);
  const auto seed = static_cast<std::uint64_t>(preset.generation.seed);
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  log_info("bench", "making random weights of " + name);
  const std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, shape, format, seed);
  bench::StepBenchOptions options;
  // Predictions are of weights and pages of 16 bits.
  options.kv_dtype = config::kv_dtype(preset.quantization);
  const bool is_predicted =
      format == weights::WeightFormat::kBF16 && dtype_size_bytes(options.kv_dtype) == 2;
  if (is_predicted) options.card = bench::find_card_of(*device.gpu);
  options.seed = seed;
  const bool has_length = is_given(flags, "--prompt-tokens");
  if (has_length || !flags.sweep.empty()) {
    options.steps = bench::make_steps(has_length ? flags.prompt_tokens : kPrefillTokens,
                                      has_length ? flags.prompt_tokens : kContextTokens,
                                      flags.sweep.empty() ? kBatches : flags.sweep);
  }
  std::string why;
  const auto library = CublasLt::load(CublasLt::library_names(), &why);
  if (library == nullptr) log_info("bench", "no products by cuBLASLt: " + why);
  options.library = library.get();
  options.on_step = [](const std::string& step) { log_info("bench", step); };
  const bench::StepBench result = bench::bench_steps(stream, *decoder, options);
  const std::string subject =
      name + " (random weights); " + describe_setting(format, options.kv_dtype, device);
  if (flags.json != "-") std::cout << bench::to_table(subject, result);
  if (!flags.json.empty()) write_text(flags.json, bench::to_json(subject, result));
  return kExitOk;
}

}  // namespace caption::cli
