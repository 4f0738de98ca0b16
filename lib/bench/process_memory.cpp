#include "bench/process_memory.h"

#include <fstream>
#include <string>

#include "backend/device_runtime.h"

namespace caption::bench {
namespace {

// Parses a line such as "VmHWM:     123456 kB" and returns bytes.
std::int64_t kilobytes_of(const std::string& line) {
  return std::stoll(line.substr(line.find(':') + 1)) * 1024;
}

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) memory.resident_bytes = kilobytes_of(line);
    if (line.starts_with("RssAnon:")) memory.anonymous_bytes = kilobytes_of(line);
    if (line.starts_with("VmHWM:")) memory.peak_bytes = kilobytes_of(line);
  }
  return memory;
}

bool reset_peak_memory() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return static_cast<bool>(clear);
}

std::int64_t peak_bytes(Device device) {
  if (!device.is_cuda()) return process_memory().peak_bytes;
  const DeviceMemory memory = require_device_runtime(device).memory();
  return memory.total_bytes - memory.free_bytes;
}

}  // namespace caption::bench
