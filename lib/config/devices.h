// config/devices.h: the devices on which a preset's model runs (device.type, device.devices).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/context.h"
#include "backend/machine.h"
#include "config/preset.h"

namespace caption::config {

// Throws Error(kUsage) for device.devices that is neither "first", "all" nor numbers with commas
// between them, that names a GPU twice, or that chooses GPUs for a model on the CPU.
void require_device_list(const Preset& preset);
// The same for this build and machine: throws Error(kUnavailable) where GPUs are chosen, none can
// be used here, and no option names the CPU.
void require_device_list(const Preset& preset, const Machine& machine);

// The GPUs that device.devices names, in its order, at least one: equal arithmetic, so that no
// caption depends on which of them made it. Throws Error(kUnavailable) when the machine has none,
// or not these; kUsage for GPUs of different arithmetic, and as require_device_list().
std::vector<CudaDevice> chosen_gpus(const Preset& preset, const Machine& machine);
// How many GPUs a run of the preset would use: those of a list whether they are here or not, of
// "all" those that are here; 1 on the CPU. Throws as require_device_list().
int num_devices(const Preset& preset, const Machine& machine);
// What chose the device, for the beginning of a message: the option "--device cuda", or "preset
// h100"; and the remedy where an option chose one that is not here.
std::string device_choice(const Preset& preset);
inline constexpr std::string_view kCpuRunsHere = "--device cpu runs here";
// "GPU 1 (NVIDIA L4)".
std::string gpu_name(const CudaDevice& gpu);

// Where the preset's model runs, one context for each device: on the CPU with the tier, or on the
// chosen GPUs. Throws as chosen_gpus().
std::vector<Context> run_contexts(const Preset& preset, const Machine& machine, CpuTier tier);
// The first of them.
Context run_context(const Preset& preset, const Machine& machine, CpuTier tier);

}  // namespace caption::config
