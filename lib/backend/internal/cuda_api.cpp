#include "backend/internal/cuda_api.h"

#include "backend/internal/library.h"

namespace caption::internal {

std::string load_cuda_driver(const char* name, CudaDriver& driver) {
  Library library(name);
  library.find("cuInit", driver.init);
  library.find("cuDriverGetVersion", driver.driver_version);
  library.find("cuDeviceGetCount", driver.device_count);
  library.find("cuDeviceGet", driver.device_get);
  library.find("cuDeviceGetName", driver.device_name);
  library.find("cuDeviceTotalMem_v2", driver.device_memory);
  library.find("cuDeviceGetAttribute", driver.device_attribute);
  library.find("cuDeviceGetPCIBusId", driver.device_bus_id);
  library.find("cuGetErrorString", driver.error_string);
  return library.why();
}

std::string load_nvml(const char* name, Nvml& nvml) {
  Library library(name);
  library.find("nvmlInit_v2", nvml.init);
  library.find("nvmlDeviceGetHandleByPciBusId_v2", nvml.device_by_bus_id);
  library.find("nvmlDeviceGetMemoryInfo", nvml.memory_of);
  return library.why();
}

}  // namespace caption::internal
