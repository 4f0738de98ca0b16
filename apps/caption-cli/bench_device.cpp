#include "bench_device.h"

#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "config/devices.h"
#include "config/resolve.h"
#include "plan/kv_dtype_name.h"

namespace caption::cli {
namespace {

void require_measured_on_gpu(const BenchFlags& flags, bool has_decoder, std::size_t num_gpus) {
  if (num_gpus > 1) {
    throw Error(ErrorCode::kUsage, "bench: one GPU is measured at a time, and --devices chooses " +
                                       std::to_string(num_gpus) + "; name one of them");
  }
  if (flags.price == PriceOf::kAttention) {
    throw Error(ErrorCode::kUsage,
                "bench: --price attention compares compressed attention, which runs on the CPU "
                "only; use a preset of the CPU");
  }
  if (flags.kernels && !has_decoder) {
    throw Error(ErrorCode::kUsage, "bench: --kernels on a GPU times the steps of a decoder, and " +
                                       flags.shape +
                                       " has none; leave --kernels out for its tower");
  }
}

}  // namespace

BenchDevice choose_bench_device(const BenchFlags& flags, bool has_decoder,
                                const config::Preset& preset, const Machine& machine,
                                const std::string& cpu_tier) {
  config::require_device_list(preset, machine);
  const CpuTier tier = choose_cpu_tier(cpu_tier);
  // A prediction is made on any machine.
  if (preset.device.type != config::DeviceType::kCuda || !flags.predict.empty()) {
    const int threads = config::num_threads(preset, machine);
    return {.context = {.cpu_tier = tier, .num_threads = threads},
            .memory_bytes = machine.memory_bytes,
            .description = counted(threads, "thread") + ", " + std::string(cpu_tier_name(tier)),
            .gpu = std::nullopt};
  }
  config::require_available(preset, has_cuda_kernels());
  const std::vector<CudaDevice> gpus = config::chosen_gpus(preset, machine);
  require_measured_on_gpu(flags, has_decoder, gpus.size());
  return {.context = config::run_context(preset, machine, tier),
          .memory_bytes = gpus.front().memory_bytes,
          .description = config::gpu_name(gpus.front()),
          .gpu = gpus.front()};
}

std::string describe_setting(weights::WeightFormat weights, std::optional<DType> pages,
                             const BenchDevice& device) {
  std::string text = std::string(weights::describe(weights)) + " weights, ";
  if (pages.has_value()) text += std::string(plan::kv_dtype_name(*pages)) + " KV, ";
  return text + device.description;
}

}  // namespace caption::cli
