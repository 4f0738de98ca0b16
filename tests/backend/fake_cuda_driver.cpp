// A libcuda and a libnvidia-ml in one, for tests of what the backend says of a driver. Compiled
// several times, with what differs from a driver of two good devices:
//   FAKE_VERSION     what cuDriverGetVersion() answers
//   FAKE_INIT        the result of cuInit()
//   FAKE_COUNT       the number of devices
//   FAKE_CAPABILITY  of the second device; the first has 90
//   FAKE_FAILS       the result of cuDeviceTotalMem_v2()
//   FAKE_LACKS       cuGetErrorString() is missing
#include <cstddef>
#include <cstring>

#ifndef FAKE_VERSION
#define FAKE_VERSION 13000
#endif
#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif
#ifndef FAKE_COUNT
#define FAKE_COUNT 2
#endif
#ifndef FAKE_CAPABILITY
#define FAKE_CAPABILITY 75
#endif
#ifndef FAKE_FAILS
#define FAKE_FAILS 0
#endif

namespace {

bool is_initialised = false;

constexpr const char* kBusIds[] = {"0000:17:00.0", "0000:65:00.0"};

}  // namespace

extern "C" {

int cuInit(unsigned) {
  is_initialised = FAKE_INIT == 0;
  return FAKE_INIT;
}

int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}

int cuDeviceGetCount(int* count) {
  if (!is_initialised) return 3;  // CUDA_ERROR_NOT_INITIALIZED
  *count = FAKE_COUNT;
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = 70 + index;  // an ordinal need not be the index
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 70 ? "Fake H100" : "Fake T4", static_cast<std::size_t>(size));
  return 0;
}

int cuDeviceTotalMem_v2(std::size_t* size_bytes, int device) {
  *size_bytes = device == 70 ? 80000000000 : 16000000000;
  return FAKE_FAILS;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = device == 70 ? 90 : FAKE_CAPABILITY;
  switch (attribute) {
    case 16: *value = device == 70 ? 132 : 40; return 0;
    case 75: *value = capability / 10; return 0;
    case 76: *value = capability % 10; return 0;
    case 97: *value = device == 70 ? 232448 : 65536; return 0;
    default: return 1;  // CUDA_ERROR_INVALID_VALUE
  }
}

int cuDeviceGetPCIBusId(char* id, int size, int device) {
  std::strncpy(id, kBusIds[device - 70], static_cast<std::size_t>(size));
  return 0;
}

#ifndef FAKE_LACKS
int cuGetErrorString(int result, const char** text) {
  *text = result == 100 ? "no CUDA-capable device is detected" : "a fake error";
  return 0;
}
#endif

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  for (const char* const& known : kBusIds) {
    if (std::strcmp(id, known) != 0) continue;
    *device = const_cast<char*>(known);
    return 0;
  }
  return 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  if (device != kBusIds[0]) return 3;  // NVML_ERROR_NOT_SUPPORTED
  total_free_used[0] = 80000000000;
  total_free_used[1] = 60000000000;
  total_free_used[2] = 20000000000;
  return 0;
}

}  // extern "C"
