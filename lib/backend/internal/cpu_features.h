// backend/internal/cpu_features.h: what CPUID reports and the operating system has enabled.
#pragma once

#include <string>
#include <vector>

namespace caption::internal {

// Names as the compiler's -m flags and /proc/cpuinfo have them: "avx2", "avx512bf16", "amx-tile".
// A feature whose registers the system does not save (XCR0) is left out. Empty beside x86-64.
std::vector<std::string> detect_cpu_features();

}  // namespace caption::internal
