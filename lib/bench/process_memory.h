// bench/process_memory.h: what this process takes of the machine's memory (Linux).
#pragma once

#include <cstdint>

namespace caption::bench {

struct ProcessMemory {
  std::int64_t resident_bytes = 0;  // now
  std::int64_t peak_bytes = 0;      // most since start, or since reset_peak_memory()
};

// From /proc/self/status; zeros where there is none.
ProcessMemory process_memory();

// Lets the peak start again from what is resident now. False where the system does not allow it:
// then the peak stays that of the process.
bool reset_peak_memory();

}  // namespace caption::bench
