// backend/internal/cpu_features.h: what CPUID reports and the operating system has enabled.
#pragma once

#include <string>
#include <vector>

namespace caption::internal {

// Names as the compiler's -m flags and /proc/cpuinfo have them: "avx2", "avx512bf16", "amx-tile".
// A feature whose registers the system does not save (XCR0) is left out. Empty beside x86-64.
std::vector<std::string> detect_cpu_features();

// Asks Linux for the use of AMX's tile registers, for all threads of the process: without it their
// first use is SIGILL. Whether it was granted.
bool request_tile_state();

}  // namespace caption::internal
