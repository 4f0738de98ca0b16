#include "backend/nvidia.h"

#include <fstream>
#include <system_error>

namespace caption {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVendor = "0x10de";
constexpr const char* kDisplayClass = "0x03";  // first byte of the PCI class: a display controller

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

NvidiaHardware find_nvidia_hardware(const fs::path& sys) {
  NvidiaHardware found;
  std::error_code error;
  fs::directory_iterator devices(sys / "bus/pci/devices", error);
  for (; !error && devices != fs::directory_iterator(); devices.increment(error)) {
    const fs::path& device = devices->path();
    const bool is_card = first_word(device / "vendor") == kVendor &&
                         first_word(device / "class").starts_with(kDisplayClass);
    if (is_card) ++found.num_cards;
  }
  found.driver_version = first_word(sys / "module/nvidia/version");
  return found;
}

}  // namespace caption
