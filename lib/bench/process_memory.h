// bench/process_memory.h: memory use of this process (Linux).
#pragma once

#include <cstdint>

namespace caption::bench {

struct ProcessMemory {
  std::int64_t resident_bytes = 0;   // current
  std::int64_t anonymous_bytes = 0;  // resident_bytes without the pages of mapped files
  std::int64_t peak_bytes = 0;       // maximum since start, or since reset_peak_memory()
};

// Reads /proc/self/status; zeros on systems without it.
ProcessMemory process_memory();

// Resets the peak to the current resident size. Returns false where the system does not allow it;
// the peak then remains that of the whole process.
bool reset_peak_memory();

}  // namespace caption::bench
