#include "backend/nvidia.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using caption::find_nvidia_hardware;
using caption::NvidiaHardware;

namespace {

// Creates an empty folder in place of /sys.
fs::path fresh_sys() {
  const fs::path sys = fs::path(CAPTION_TEST_TMP) / "sys";
  fs::remove_all(sys);
  fs::create_directories(sys);
  return sys;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void add_device(const fs::path& sys, const std::string& address, const std::string& vendor,
                const std::string& device_class) {
  write(sys / "bus/pci/devices" / address / "vendor", vendor + "\n");
  write(sys / "bus/pci/devices" / address / "class", device_class + "\n");
}

}  // namespace

TEST_SUITE_BEGIN("backend/nvidia");

TEST_CASE("cards are NVIDIA's display and 3D controllers, not their audio or another's") {
  const fs::path sys = fresh_sys();
  add_device(sys, "0000:01:00.0", "0x10de", "0x030000");  // VGA
  add_device(sys, "0000:02:00.0", "0x10de", "0x030200");  // 3D
  add_device(sys, "0000:01:00.1", "0x10de", "0x040300");  // audio
  add_device(sys, "0000:03:00.0", "0x1002", "0x030000");  // a card of AMD
  CHECK(find_nvidia_hardware(sys).num_cards == 2);
  CHECK(find_nvidia_hardware(sys).driver_version.empty());
}

TEST_CASE("a loaded driver has a version") {
  const fs::path sys = fresh_sys();
  write(sys / "module/nvidia/version", "550.54.15\n");
  const NvidiaHardware found = find_nvidia_hardware(sys);
  CHECK(found.num_cards == 0);
  CHECK(found.driver_version == "550.54.15");
}

TEST_CASE("without sysfs there is nothing") {
  const NvidiaHardware found = find_nvidia_hardware("/nowhere");
  CHECK(found.num_cards == 0);
  CHECK(found.driver_version.empty());
}

TEST_SUITE_END();
