#include "tests/support/cuda/launch_dump.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "base/error.h"
#include "tests/support/cuda/state.h"

namespace caption::cuda_emulator {
namespace {

const char* dump_folder() { return std::getenv("CAPTION_CUDA_DUMP"); }

const char* sums_name(TensorCoreSums sums) {
  switch (sums) {
    case TensorCoreSums::kAmpere: return "ampere";
    case TensorCoreSums::kHopper: return "hopper";
    case TensorCoreSums::kFused: return "fused";
  }
  return "?";
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// The bytes of all allocations, one after another.
std::vector<std::byte> copy_memory() {
  std::vector<std::byte> bytes;
  for (const auto& [address, region] : memory().allocations()) {
    bytes.insert(bytes.end(), region.begin(), region.begin() + region.size_bytes());
  }
  return bytes;
}

std::size_t count_memory_bytes() {
  std::size_t bytes = 0;
  for (const auto& [address, region] : memory().allocations()) bytes += region.size_bytes();
  return bytes;
}

// The parameters without addresses, which differ between runs.
std::string digest_of(std::span<const std::byte> params) {
  std::string digest;
  for (std::size_t i = 0; i < params.size(); i += sizeof(std::uintptr_t)) {
    const auto word = params.subspan(i, std::min(sizeof(std::uintptr_t), params.size() - i));
    std::uintptr_t address = 0;
    std::memcpy(&address, word.data(), word.size());
    if (memory().covers(address)) continue;
    digest.append(reinterpret_cast<const char*>(word.data()), word.size());
  }
  return digest;
}

// Whether the launch is one of the first of its kernel, and unlike the others.
bool choose(const Launch& launch, TensorCoreSums sums, std::span<const std::byte> params) {
  struct Chosen {
    std::map<std::array<unsigned, 3>, int> by_grid;
    std::set<std::string> digests;
  };
  static std::map<std::string, Chosen> all;
  Chosen& chosen = all[std::string(launch.source) + launch.kernel + sums_name(sums)];
  int& of_grid = chosen.by_grid[{launch.grid.x, launch.grid.y, launch.grid.z}];
  if (of_grid >= LaunchDump::kMostDumpsOfGrid) return false;
  if (chosen.digests.size() >= LaunchDump::kMostDumps) return false;
  if (!chosen.digests.insert(digest_of(params)).second) return false;
  ++of_grid;
  return true;
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  CAPTION_CHECK(file.good(), "CAPTION_CUDA_DUMP: cannot write " + path.string());
}

std::string describe(const Launch& launch, TensorCoreSums sums) {
  const std::string source = std::filesystem::path(launch.source).filename().string();
  std::string text = "{\"kernel\": \"" + demangled(launch.kernel) + "\", \"source\": \"" + source +
                     "\", \"grid\": [" + std::to_string(launch.grid.x) + ", " +
                     std::to_string(launch.grid.y) + ", " + std::to_string(launch.grid.z) +
                     "], \"threads\": " + std::to_string(launch.num_threads) +
                     ", \"shared_bytes\": " + std::to_string(launch.shared_bytes) +
                     ", \"sums\": \"" + sums_name(sums) + "\", \"allocations\": [";
  const char* separator = "";
  for (const auto& [address, region] : memory().allocations()) {
    text += separator;
    text += "[" + std::to_string(address) + ", " + std::to_string(region.size_bytes()) + "]";
    separator = ", ";
  }
  return text + "]}\n";
}

}  // namespace

LaunchDump::LaunchDump(const Launch& launch, TensorCoreSums sums) : launch_(launch), sums_(sums) {
  if (dump_folder() == nullptr) return;
  const std::size_t blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (blocks * static_cast<std::size_t>(launch.num_threads) > kMostThreads) return;
  if (count_memory_bytes() > kMostBytes) return;
  const auto* const params = static_cast<const std::byte*>(launch.params);
  params_.assign(params, params + launch.params_bytes);
  is_chosen_ = choose(launch, sums, params_);
  if (is_chosen_) before_ = copy_memory();
}

void LaunchDump::write() const {
  if (!is_chosen_) return;
  static int number = 0;
  const std::filesystem::path folder =
      std::filesystem::path(dump_folder()) /
      (std::to_string(::getpid()) + "-" + std::to_string(number++));
  std::filesystem::create_directories(folder);
  write_file(folder / "params", params_);
  write_file(folder / "before", before_);
  write_file(folder / "after", copy_memory());
  const std::string text = describe(launch_, sums_);
  write_file(folder / "launch.json", std::as_bytes(std::span(text)));
}

}  // namespace caption::cuda_emulator
