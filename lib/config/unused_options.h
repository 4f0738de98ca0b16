// config/unused_options.h: options of a command line that cannot have an effect beside the others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "config/locations.h"
#include "config/parse_preset.h"
#include "config/preset.h"

namespace caption::config {

// What decides whether an option has an effect, beside the preset.
struct RunFacts {
  Device device = Device::kCpu;  // the device that captions clips
  bool rounds_codes = true;      // rounds_codes()
  bool is_jsonl = true;          // the format of the records
};

// Whether the weights' format rounds codes of the model's files a second time, which
// quantization.requantize permits. quantization.weights is no kAuto. Throws as
// find_preset_blueprint().
bool rounds_codes(const Preset& preset, const Locations& locations);

// Returns a line for each of `flags` that has no effect: "--top-p has no effect at --temperature
// 0". `preset` has all values applied, also the model's own (generation_defaults.h).
std::vector<std::string> describe_unused(const Preset& preset, std::span<const Override> flags,
                                         const RunFacts& facts);

}  // namespace caption::config
