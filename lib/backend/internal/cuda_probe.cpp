#include "backend/internal/cuda_probe.h"

#include <array>
#include <string>

#include "backend/internal/cuda_api.h"
#include "base/counted.h"

namespace caption::internal {
namespace {

constexpr int kLeastCapability = 75;  // sm_75, Turing

std::string version_name(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string describe(const CudaDriver& driver, CudaResult result) {
  const char* text = nullptr;
  if (driver.error_string(result, &text) != 0 || text == nullptr) text = "unknown error";
  const std::string cause = std::string(text) + " (CUDA error " + std::to_string(result) + ")";
  switch (result) {
    case kCudaStubLibrary: return "no CUDA: libcuda is the toolkit's stub: " + cause;
    case kCudaNoDevice: return "no CUDA: the driver sees no device: " + cause;
    default: return "CUDA failed to start: " + cause;
  }
}

// Bytes that no process uses, or 0 where NVML does not tell.
std::int64_t free_bytes(const Nvml& nvml, const char* bus_id) {
  NvmlDevice device = nullptr;
  NvmlMemory memory;
  if (nvml.init == nullptr || nvml.device_by_bus_id(bus_id, &device) != 0 ||
      nvml.memory_of(device, &memory) != 0) {
    return 0;
  }
  return static_cast<std::int64_t>(memory.free_bytes);
}

CudaResult read_device(const CudaDriver& driver, const Nvml& nvml, int index, CudaDevice& to) {
  CudaOrdinal device = 0;
  std::array<char, 256> name{};
  std::array<char, 64> bus_id{};
  std::size_t memory_bytes = 0;
  struct Attribute {
    int number;
    int& to;
  };
  const Attribute attributes[] = {{kCudaCapabilityMajor, to.compute_major},
                                  {kCudaCapabilityMinor, to.compute_minor},
                                  {kCudaMultiprocessors, to.num_multiprocessors},
                                  {kCudaSharedBytesPerBlock, to.shared_bytes_per_block}};
  CudaResult result = driver.device_get(&device, index);
  for (const Attribute& attribute : attributes) {
    if (result == 0) result = driver.device_attribute(&attribute.to, attribute.number, device);
  }
  // One byte less than there is: the last stays a terminating null.
  if (result == 0) {
    result = driver.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
  }
  if (result == 0) {
    result = driver.device_bus_id(bus_id.data(), static_cast<int>(bus_id.size()) - 1, device);
  }
  if (result == 0) result = driver.device_memory(&memory_bytes, device);
  to.name = name.data();
  to.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  to.free_memory_bytes = free_bytes(nvml, bus_id.data());
  return result;
}

// The devices that kernels can run on; a sentence about the others goes to `refused`.
CudaResult read_devices(const CudaDriver& driver, int count, Machine& machine, std::string& refused,
                        const Nvml& nvml) {
  for (int index = 0; index < count; ++index) {
    CudaDevice device;
    device.ordinal = index;
    const CudaResult result = read_device(driver, nvml, index, device);
    if (result != 0) return result;
    if (10 * device.compute_major + device.compute_minor >= kLeastCapability) {
      machine.cuda_devices.push_back(device);
    } else {
      refused = device.name + " has compute capability " + std::to_string(device.compute_major) +
                "." + std::to_string(device.compute_minor) + "; 7.5 or later is needed";
    }
  }
  return 0;
}

// Returns an empty string, or why no device can be used.
std::string start(const CudaLibraries& libraries, CudaDriver& driver, int& count) {
  const std::string missing = load_cuda_driver(libraries.driver, driver);
  if (!missing.empty()) {
    return "no CUDA: there is no NVIDIA driver, or one that is too old (" + missing + ")";
  }
  int version = 0;
  if (driver.driver_version(&version) == 0 && version < libraries.least_version) {
    return "no CUDA: the driver is for CUDA " + version_name(version) + "; " +
           version_name(libraries.least_version) + " or later is needed: update the driver";
  }
  CudaResult result = driver.init(0);
  if (result == 0) result = driver.device_count(&count);
  if (result != 0) return describe(driver, result);
  return count > 0 ? "" : "no CUDA: the driver sees no device";
}

}  // namespace

void probe_cuda(Machine& machine, const CudaLibraries& libraries) {
  CudaDriver driver;
  int count = 0;
  machine.cuda_status = start(libraries, driver, count);
  if (!machine.cuda_status.empty()) return;
  Nvml nvml;
  if (!load_nvml(libraries.nvml, nvml).empty() || nvml.init() != 0) nvml = {};
  std::string refused;
  const CudaResult result = read_devices(driver, count, machine, refused, nvml);
  if (result != 0) {
    machine.cuda_devices.clear();
    machine.cuda_status = describe(driver, result);
    return;
  }
  const auto num_usable = static_cast<int>(machine.cuda_devices.size());
  if (num_usable == 0) {
    machine.cuda_status = "no CUDA: " + refused;
    return;
  }
  machine.cuda_status = counted(num_usable, "CUDA device") + " found; " +
                        (has_cuda_kernels() ? "this build has CUDA kernels"
                                            : "this build has no CUDA kernels and runs on the CPU");
  if (!refused.empty()) machine.cuda_status += "; " + refused;
}

}  // namespace caption::internal
