#include "tests/support/cuda/source_line.h"

#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

namespace caption::cuda_emulator {
namespace {

// The difference between addresses of the running program and of its file.
std::uintptr_t load_bias() {
  std::uintptr_t bias = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // the first entry is the program
      },
      &bias);
  return bias;
}

struct Close {
  void operator()(std::FILE* file) const { ::pclose(file); }
};

std::string ask(std::uintptr_t address) {
  std::array<char, 96> command{};
  std::snprintf(command.data(), command.size(), "addr2line -i -e /proc/%d/exe %#zx 2>/dev/null",
                static_cast<int>(::getpid()), static_cast<std::size_t>(address));
  const std::unique_ptr<std::FILE, Close> answer(::popen(command.data(), "r"));
  std::array<char, 512> line{};
  while (answer != nullptr && std::fgets(line.data(), line.size(), answer.get()) != nullptr) {
    std::string place(line.data());
    while (!place.empty() && (place.back() == '\n' || place.back() == ' ')) place.pop_back();
    const std::size_t note = place.find(" (discriminator");
    if (note != std::string::npos) place.resize(note);
    const bool is_own = place.find("tests/support/cuda/") != std::string::npos;
    if (is_own || place.starts_with("??")) continue;
    return std::filesystem::path(place).lexically_normal();
  }
  return {};
}

}  // namespace

std::string source_line(std::uintptr_t return_address) {
  static std::map<std::uintptr_t, std::string> known;
  std::string& line = known[return_address];
  if (!line.empty()) return line;
  line = ask(return_address - load_bias() - 1);  // within the call
  if (line.empty()) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "code at %#zx",
                  static_cast<std::size_t>(return_address));
    line = text.data();
  }
  return line;
}

}  // namespace caption::cuda_emulator
