// config/preset_check.h: holds a preset against its plan.
//
// The comment of a preset for a card has figures of its plan, called and written as `plan` prints
// them; after two spaces a line may go on with other text:
//
//   # Plan for l4, which `caption-cli presets --check` computes again:
//   #   weights       7.46 GB  AWQ codes
//   #   at a time          12  of max_num_seqs 12
//
// A figure is right if the plan's value, rounded to the figure's last digit, is the figure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "config/locations.h"

namespace caption::config {

struct PresetCheck {
  std::string name;     // the preset's name
  std::string subject;  // what it was planned for: "NVIDIA L4 (24 GB), 12 videos at a time"
  // One line each: "PATH:LINE: weights: the comment says 6 GB, the plan 7.46 GB".
  std::vector<std::string> contradictions = {};
};

// Plans a preset, a name or a file, for the card that its comment names, or for this machine's CPU;
// a known model (plan/known_models.h) by its shape, so that nothing need be downloaded. It is
// contradicted by a figure that is not the plan's, by every warning of the plan (memory, positions,
// max_num_seqs, the size of a step), by a file without keys, by weights that the planned device
// does not multiply by, by options that no build has or that exclude each other, and, if it is for
// a card, by a comment that names none. Throws Error as load_preset(), and as
// find_preset_blueprint() for a model that is not known.
PresetCheck check_preset(std::string_view name_or_path, const Locations& locations,
                         const Machine& machine);

}  // namespace caption::config
