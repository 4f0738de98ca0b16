#include "backend/internal/cuda_api.h"

#include <dlfcn.h>

namespace caption::internal {
namespace {

class Library {
 public:
  // NODELETE: threads of the driver may run in it until the process ends.
  explicit Library(const char* name)
      : name_(name), handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ != nullptr) return;
    const char* const message = ::dlerror();
    why_ = message == nullptr ? name_ + " cannot be loaded" : message;
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  void find(const char* symbol, Function*& function) {
    if (!why_.empty()) return;
    function = reinterpret_cast<Function*>(::dlsym(handle_, symbol));
    if (function == nullptr) why_ = name_ + " has no " + symbol;
  }
  const std::string& why() const { return why_; }

 private:
  std::string name_;
  void* handle_;
  std::string why_;  // empty while all is found
};

}  // namespace

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
