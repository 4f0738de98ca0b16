// backend/nvidia.h: NVIDIA cards and their driver as the operating system lists them, so that a
// build without CUDA, and a machine without the driver, also see them.
#pragma once

#include <filesystem>
#include <string>

namespace caption {

struct NvidiaHardware {
  int num_cards = 0;           // display and 3D controllers on the PCI bus
  std::string driver_version;  // version of the loaded kernel module; empty when none is loaded
};

// `sys` is the mount point of sysfs. An entry that cannot be read counts as absent.
NvidiaHardware find_nvidia_hardware(const std::filesystem::path& sys = "/sys");

}  // namespace caption
