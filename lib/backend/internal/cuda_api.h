// backend/internal/cuda_api.h: the functions of the CUDA driver and of NVML (NVIDIA's management
// library) that the backend calls. Both libraries belong to the driver package and are loaded when
// they are needed, so that one binary starts on machines with and without a driver, and builds
// without a toolkit.
//
// The types are those of cuda.h and nvml.h 12.0, whose binary interface newer drivers keep. A
// result of 0 is success.
#pragma once

#include <cstddef>
#include <string>

namespace caption::internal {

using CudaResult = int;    // CUresult
using CudaOrdinal = int;   // CUdevice
using NvmlDevice = void*;  // nvmlDevice_t

inline constexpr CudaResult kCudaStubLibrary = 34;
inline constexpr CudaResult kCudaNoDevice = 100;
inline constexpr int kCudaMultiprocessors = 16;  // CUdevice_attribute
inline constexpr int kCudaCapabilityMajor = 75;
inline constexpr int kCudaCapabilityMinor = 76;
inline constexpr int kCudaSharedBytesPerBlock = 97;  // the most that a kernel may ask for

// The driver's functions by the names of cuda.h; null until load_cuda_driver() has found them.
struct CudaDriver {
  CudaResult (*init)(unsigned flags) = nullptr;
  CudaResult (*driver_version)(int* version) = nullptr;  // 1000 * major + 10 * minor
  CudaResult (*device_count)(int* count) = nullptr;
  CudaResult (*device_get)(CudaOrdinal* device, int index) = nullptr;
  CudaResult (*device_name)(char* name, int size, CudaOrdinal device) = nullptr;
  CudaResult (*device_memory)(std::size_t* size_bytes, CudaOrdinal device) = nullptr;
  CudaResult (*device_attribute)(int* value, int attribute, CudaOrdinal device) = nullptr;
  CudaResult (*device_bus_id)(char* id, int size, CudaOrdinal device) = nullptr;
  CudaResult (*error_string)(CudaResult result, const char** text) = nullptr;
};

struct NvmlMemory {
  unsigned long long total_bytes = 0;
  unsigned long long free_bytes = 0;
  unsigned long long used_bytes = 0;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*device_by_bus_id)(const char* id, NvmlDevice* device) = nullptr;
  int (*memory_of)(NvmlDevice device, NvmlMemory* memory) = nullptr;
};

// Loads a library and looks up all functions of the table. The library stays loaded. Returns an
// empty string, or why the table is not usable: the system's message, or the function that is
// missing. Thread-safe.
std::string load_cuda_driver(const char* library, CudaDriver& driver);
std::string load_nvml(const char* library, Nvml& nvml);

}  // namespace caption::internal
