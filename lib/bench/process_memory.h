// bench/process_memory.h: memory use of this process (Linux), and of a GPU.
#pragma once

#include <cstdint>

#include "backend/device.h"

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

// Peak of this process's memory; for a GPU what all processes hold of its memory now, which is the
// peak while an engine exists, since that allocates nothing in its steps. Throws
// Error(kUnavailable) when the GPU fails.
std::int64_t peak_bytes(Device device);

}  // namespace caption::bench
