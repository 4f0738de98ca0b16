#include "config/devices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/join.h"
#include "config/option_names.h"
#include "config/resolve.h"

namespace caption::config {
namespace {

constexpr std::string_view kFirst = "first";
constexpr std::string_view kAll = "all";

// The list of devices as it was given.
std::string devices_text(const Preset& preset) {
  return option_text(preset, "device.devices", preset.device.devices);
}

[[noreturn]] void refuse(const Preset& preset, const std::string& why) {
  throw Error(ErrorCode::kUsage, devices_text(preset) + ": " + why);
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && number >= 0 ? std::optional<int>(number) : std::nullopt;
}

// The numbers of a list "0,1"; throws Error(kUsage) for another text.
std::vector<int> parse_list(const Preset& preset) {
  std::vector<int> ordinals;
  std::string_view rest = preset.device.devices;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::optional<int> ordinal = parse_number(rest.substr(0, comma));
    if (!ordinal.has_value()) {
      refuse(preset, "give the numbers of GPUs with commas between them (0,1), all, or first");
    }
    if (std::find(ordinals.begin(), ordinals.end(), *ordinal) != ordinals.end()) {
      refuse(preset, "GPU " + std::to_string(*ordinal) + " is named twice; name each once");
    }
    ordinals.push_back(*ordinal);
    if (!is_last) rest.remove_prefix(comma + 1);
  }
  return ordinals;
}

bool is_list(const DeviceSection& device) {
  return device.devices != kFirst && device.devices != kAll;
}

bool chooses_gpus_for_cpu(const DeviceSection& device) {
  return device.type == DeviceType::kCpu && device.devices != kFirst;
}

const CudaDevice& find_gpu(const Preset& preset, int ordinal, const Machine& machine) {
  const auto found =
      std::find_if(machine.cuda_devices.begin(), machine.cuda_devices.end(),
                   [ordinal](const CudaDevice& gpu) { return gpu.ordinal == ordinal; });
  if (found != machine.cuda_devices.end()) return *found;
  std::vector<std::string> names;
  for (const CudaDevice& gpu : machine.cuda_devices) names.push_back(gpu_name(gpu));
  throw Error(ErrorCode::kUnavailable,
              devices_text(preset) + ": GPU " + std::to_string(ordinal) +
                  " is not here, or cannot run the kernels; here: " + join(names));
}

Context context_of(const CudaDevice& gpu, const Preset& preset, const Machine& machine,
                   CpuTier tier) {
  return {.device = Device::cuda(gpu.ordinal),
          .cpu_tier = tier,
          .num_threads = num_threads(preset, machine),
          .compute_capability = 10 * gpu.compute_major + gpu.compute_minor};
}

void require_equal_arithmetic(const Preset& preset, const Machine& machine,
                              const std::vector<CudaDevice>& gpus) {
  const auto arithmetic = [&](const CudaDevice& gpu) {
    return context_of(gpu, preset, machine, CpuTier::kReference).arithmetic();
  };
  for (const CudaDevice& gpu : gpus) {
    if (arithmetic(gpu) == arithmetic(gpus.front())) continue;
    refuse(preset, gpu_name(gpus.front()) + " computes as \"" + arithmetic(gpus.front()) +
                       "\" and " + gpu_name(gpu) + " as \"" + arithmetic(gpu) +
                       "\", so a caption would depend on which made it; name GPUs of one "
                       "kind");
  }
}

}  // namespace

std::string device_choice(const Preset& preset) {
  return preset.device.given_by.empty() ? "preset " + preset.name : preset.device.given_by;
}

std::string gpu_name(const CudaDevice& gpu) {
  return "GPU " + std::to_string(gpu.ordinal) + " (" + gpu.name + ")";
}

void require_device_list(const Preset& preset) {
  const DeviceSection& device = preset.device;
  if (is_list(device)) parse_list(preset);
  if (!chooses_gpus_for_cpu(device)) return;
  refuse(preset,
         device.given_by.empty()
             ? "the model runs on the CPU; add --device cuda, or leave --devices out"
             : device.given_by + " runs the model on the CPU; leave one of the two options out");
}

void require_device_list(const Preset& preset, const Machine& machine) {
  const DeviceSection& device = preset.device;
  if (is_list(device)) parse_list(preset);
  const bool is_here = caption::has_cuda_kernels() && !machine.cuda_devices.empty();
  if (chooses_gpus_for_cpu(device) && device.given_by.empty() && !is_here) {
    throw Error(
        ErrorCode::kUnavailable,
        devices_text(preset) +
            (caption::has_cuda_kernels() ? ": " + machine.cuda_status
                                         : " needs CUDA kernels, which this build does not have") +
            "; without --devices the model runs on the CPU");
  }
  require_device_list(preset);
}

std::vector<CudaDevice> chosen_gpus(const Preset& preset, const Machine& machine) {
  require_device_list(preset, machine);
  if (machine.cuda_devices.empty()) {
    const bool is_given = !preset.device.given_by.empty();
    throw Error(
        ErrorCode::kUnavailable,
        device_choice(preset) + ": " + machine.cuda_status + "; " +
            (is_given ? std::string(kCpuRunsHere) : "use --device cpu, or a preset of the CPU"));
  }
  if (preset.device.devices == kFirst) return {machine.cuda_devices.front()};
  std::vector<CudaDevice> gpus;
  if (preset.device.devices == kAll) {
    gpus = machine.cuda_devices;
  } else {
    for (const int ordinal : parse_list(preset)) {
      gpus.push_back(find_gpu(preset, ordinal, machine));
    }
  }
  require_equal_arithmetic(preset, machine, gpus);
  return gpus;
}

int num_devices(const Preset& preset, const Machine& machine) {
  require_device_list(preset, machine);
  if (is_list(preset.device)) return static_cast<int>(parse_list(preset).size());
  if (preset.device.devices == kFirst) return 1;
  return std::max(1, static_cast<int>(machine.cuda_devices.size()));
}

std::vector<Context> run_contexts(const Preset& preset, const Machine& machine, CpuTier tier) {
  if (preset.device.type != DeviceType::kCuda) {
    return {{.cpu_tier = tier, .num_threads = num_threads(preset, machine)}};
  }
  std::vector<Context> contexts;
  for (const CudaDevice& gpu : chosen_gpus(preset, machine)) {
    contexts.push_back(context_of(gpu, preset, machine, tier));
  }
  return contexts;
}

Context run_context(const Preset& preset, const Machine& machine, CpuTier tier) {
  return run_contexts(preset, machine, tier).front();
}

}  // namespace caption::config
