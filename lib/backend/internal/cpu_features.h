// backend/internal/cpu_features.h: what CPUID reports and the operating system has enabled.
#pragma once

#include <string>
#include <vector>

namespace caption::internal {

// Returns feature names as the compiler's -m flags and /proc/cpuinfo spell them: "avx2",
// "avx512bf16", "amx-tile". A feature whose registers the system does not save (XCR0) is left out.
// Empty on CPUs other than x86-64.
std::vector<std::string> detect_cpu_features();

// Requests from Linux the use of AMX's tile registers for all threads of the process; without it
// their first use raises SIGILL. Returns whether it was granted.
bool request_tile_state();

}  // namespace caption::internal
