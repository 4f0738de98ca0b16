#include "backend/internal/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace caption::internal {

#if defined(__x86_64__)
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Returns zeros when the CPU does not have the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// Returns XCR0: a bit for each register file that the operating system saves on a context switch.
std::uint64_t enabled_state() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr std::uint64_t kNoState = 0;
constexpr std::uint64_t kYmmState = 0x6;       // XMM, YMM
constexpr std::uint64_t kZmmState = 0xE6;      // XMM, YMM, opmask, ZMM0-15, ZMM16-31
constexpr std::uint64_t kTileState = 0x60000;  // tile configuration and tiles

}  // namespace

std::vector<std::string> detect_cpu_features() {
  const Registers leaf1 = cpuid(1, 0);
  const Registers leaf7 = cpuid(7, 0);
  const Registers leaf7_1 = leaf7.eax >= 1 ? cpuid(7, 1) : Registers{};
  const bool has_xgetbv = (leaf1.ecx >> 27 & 1) != 0;
  const std::uint64_t enabled = has_xgetbv ? enabled_state() : 0;

  struct Feature {
    const char* name;
    unsigned word;
    unsigned bit;
    std::uint64_t state;
  };
  const Feature features[] = {
      {"sse4.2", leaf1.ecx, 20, kNoState},       {"avx", leaf1.ecx, 28, kYmmState},
      {"f16c", leaf1.ecx, 29, kYmmState},        {"fma", leaf1.ecx, 12, kYmmState},
      {"avx2", leaf7.ebx, 5, kYmmState},         {"avxvnni", leaf7_1.eax, 4, kYmmState},
      {"avx512f", leaf7.ebx, 16, kZmmState},     {"avx512dq", leaf7.ebx, 17, kZmmState},
      {"avx512bw", leaf7.ebx, 30, kZmmState},    {"avx512vl", leaf7.ebx, 31, kZmmState},
      {"avx512vbmi", leaf7.ecx, 1, kZmmState},   {"avx512vnni", leaf7.ecx, 11, kZmmState},
      {"avx512bf16", leaf7_1.eax, 5, kZmmState}, {"avx512fp16", leaf7.edx, 23, kZmmState},
      {"amx-tile", leaf7.edx, 24, kTileState},   {"amx-bf16", leaf7.edx, 22, kTileState},
      {"amx-int8", leaf7.edx, 25, kTileState},
  };
  std::vector<std::string> names;
  for (const Feature& feature : features) {
    const bool has = (feature.word >> feature.bit & 1) != 0;
    if (has && (enabled & feature.state) == feature.state) names.emplace_back(feature.name);
  }
  return names;
}

bool request_tile_state() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2), Linux 5.16
  constexpr long kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#else
std::vector<std::string> detect_cpu_features() { return {}; }
bool request_tile_state() { return false; }
#endif

}  // namespace caption::internal
