#include "config/download_advice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "base/ascii.h"
#include "base/join.h"
#include "base/nearest.h"
#include "base/units.h"
#include "config/load_preset.h"
#include "config/resources.h"
#include "model/blueprint.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

// An ending of the names of repositories with weights that this build does not read.
struct QuantisedEnding {
  std::string_view ending;
  const char* method;
};
constexpr std::array kQuantisedEndings = {
    QuantisedEnding{"-nvfp4", "NVFP4"},
    QuantisedEnding{"-mxfp4", "MXFP4"},
    QuantisedEnding{"-exl2", "ExLlamaV2"},
};

const QuantisedEnding* find_quantised_ending(const std::string& hub_name) {
  const std::string lower = to_lower_ascii(hub_name);
  const auto* const found =
      std::find_if(kQuantisedEndings.begin(), kQuantisedEndings.end(),
                   [&](const QuantisedEnding& known) { return lower.ends_with(known.ending); });
  return found == kQuantisedEndings.end() ? nullptr : found;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Whether a part of a name between hyphens tells of a mixture of experts: the active parameters
// ("A3B" of Qwen3-VL-30B-A3B-Instruct), or how many experts there are ("8x7B").
bool tells_of_experts(std::string_view part) {
  if (part.size() < 3 || part.back() != 'b') return false;
  part.remove_suffix(1);
  if (part.front() == 'a') return is_number(part.substr(1));
  const std::size_t times = part.find('x');
  return times != std::string_view::npos && is_number(part.substr(0, times)) &&
         is_number(part.substr(times + 1));
}

bool is_mixture_of_experts(const std::string& hub_name) {
  const std::string lower = to_lower_ascii(hub_name.substr(hub_name.find('/') + 1));
  if (lower.starts_with("gpt-oss")) return true;
  std::string_view rest = lower;
  while (true) {
    const std::size_t end = rest.find_first_of("-_");
    if (tells_of_experts(rest.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

std::string download_command(const std::string& hub_name) {
  return "get it with `hf download " + hub_name + "`";
}

// Advises the 16-bit weights in place of quantised ones.
std::string refuse_quantised(const std::string& hub_name, const QuantisedEnding& quantised) {
  const std::string plain = hub_name.substr(0, hub_name.size() - quantised.ending.size());
  std::string text = "do not download it: by its name its weights are quantised by " +
                     std::string(quantised.method) + ", which this build does not read";
  if (plan::find_known_use(plain).has_value()) {
    text += "; " + plain + " runs, and --dtype int4 or nf4 quantises it when it is loaded";
  }
  return text;
}

// The names of the installed presets that are made for a model.
std::vector<std::string> presets_for(const std::string& hub_name, const Machine& machine) {
  std::vector<std::string> names;
  for (const PresetFile& file : list_presets({})) {
    try {
      const LoadedPreset loaded =
          load_preset(file.path.string(), {}, machine, caption::has_cuda_kernels());
      if (!loaded.preset.model.is_composed && loaded.preset.model.path == hub_name) {
        names.push_back(file.name);
      }
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;  // a broken preset is made for no model
    }
  }
  return names;
}

// "its weights take 17.5 GB in bf16, 9.87 GB in int8 or 6.4 GB in nf4; in int8 they fit here".
std::string describe_memory(const model::Blueprint& blueprint, const Machine& machine) {
  using weights::WeightFormat;
  struct Choice {
    WeightFormat format;
    const char* dtype;
  };
  constexpr std::array kChoices = {Choice{WeightFormat::kBF16, "bf16"},
                                   Choice{WeightFormat::kInt8, "int8"},
                                   Choice{WeightFormat::kNf4, "nf4"}};
  const double usable_bytes =
      DeviceSection{}.memory_utilization * static_cast<double>(machine.memory_bytes);
  std::vector<std::string> sizes;
  std::string fitting;
  for (const Choice& choice : kChoices) {
    const std::int64_t bytes = model::weight_bytes(blueprint, choice.format);
    sizes.push_back(format_bytes(bytes) + " in " + choice.dtype);
    if (fitting.empty() && static_cast<double>(bytes) < usable_bytes) fitting = choice.dtype;
  }
  const std::string room =
      format_bytes(static_cast<std::int64_t>(usable_bytes)) + " that a run uses here";
  return "its weights take " + join(sizes) + "; " +
         (fitting.empty() ? "none of these fits in the " + room
                          : "in " + fitting + " they fit in the " + room);
}

std::string describe_known(const std::string& hub_name, plan::KnownUse use) {
  const model::Blueprint blueprint = plan::find_known_model(hub_name).value();
  const bool is_f32 = blueprint.groups.front().stored == DType::kF32;
  const std::int64_t stored_bytes = model::weight_bytes(
      blueprint, is_f32 ? weights::WeightFormat::kF32 : weights::WeightFormat::kBF16);
  const std::string size = "about " + format_bytes(stored_bytes) + " to download";
  const std::string or_folder = ", or give the folder that holds it";
  if (use == plan::KnownUse::kPart) {
    return size + "; for a composed model, " + download_command(hub_name) + " (as safetensors)" +
           or_folder;
  }
  const Machine machine = detect_machine();
  const std::vector<std::string> presets = presets_for(hub_name, machine);
  return size + "; " + describe_memory(blueprint, machine) +
         (presets.empty() ? "" : "; preset " + join(presets) + " is made for it") + "; " +
         download_command(hub_name) + or_folder;
}

}  // namespace

DownloadAdvice advise_download(const std::string& hub_name) {
  if (hub_name == ModelSection{}.path) {
    return {.text = "it is the demonstration model, which is on no hub; " +
                    std::string(kInstallationAdvice)};
  }
  if (is_mixture_of_experts(hub_name)) {
    return {.code = ErrorCode::kUnavailable,
            .text =
                "do not download it: by its name it is a mixture of experts, and this build "
                "runs dense models only" +
                nearest_hub_names(hub_name)};
  }
  if (const QuantisedEnding* const quantised = find_quantised_ending(hub_name)) {
    return {.code = ErrorCode::kUnavailable, .text = refuse_quantised(hub_name, *quantised)};
  }
  if (const std::optional<plan::KnownUse> use = plan::find_known_use(hub_name)) {
    return {.text = describe_known(hub_name, *use)};
  }
  return {.text = "if it is of a family that this build runs (see the README), " +
                  download_command(hub_name) + ", or give the folder that holds it" +
                  nearest_hub_names(hub_name)};
}

std::string nearest_hub_names(const std::string& name) {
  if (name.empty()) return {};
  constexpr std::size_t kMost = 3;
  std::vector<std::string> candidates = plan::known_hub_names();
  std::vector<std::string> nearest;
  // A name that lacks its end, such as "-Instruct", means one of those that begin with it.
  for (const std::string& candidate : candidates) {
    const bool is_begin = nearest.size() < kMost && starts_with_ignoring_case(candidate, name);
    if (is_begin) nearest.push_back(candidate);
  }
  const bool has_begin = !nearest.empty();
  while (!has_begin && nearest.size() < kMost) {
    const std::string found = nearest_name(name, candidates);
    if (found.empty()) break;
    nearest.push_back(found);
    std::erase(candidates, found);
  }
  if (nearest.empty()) return {};
  return "; the nearest known " + std::string(nearest.size() == 1 ? "name is " : "names are ") +
         join(nearest);
}

}  // namespace caption::config
