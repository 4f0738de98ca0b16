#include "doctor/diagnose.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "base/counted.h"
#include "base/join.h"
#include "base/units.h"

namespace caption::doctor {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

Finding examine_processor(const Facts& facts) {
  std::string text = facts.machine.cpu_model + ", " + counted(facts.machine.num_cpus, "core");
  if (facts.machine.num_cpus < facts.num_online_cpus) {
    text += " of " + std::to_string(facts.num_online_cpus) +
            " for this process (its affinity or control group)";
  }
  return {.name = "processor", .state = State::kOk, .text = text, .remedy = {}};
}

// Why the CPU does not run the tier after `tier`.
std::string why_no_faster(const Facts& facts, CpuTier tier) {
  if (tier == CpuTier::kAmx) return "the fastest there is";
  const auto next = static_cast<CpuTier>(static_cast<int>(tier) + 1);
  std::vector<std::string_view> lacking;
  for (const std::string_view feature : cpu_tier_features(next)) {
    const std::vector<std::string>& present = facts.machine.cpu_features;
    if (std::find(present.begin(), present.end(), feature) == present.end()) {
      lacking.push_back(feature);
    }
  }
  const std::string name(cpu_tier_name(next));
  if (lacking.empty()) return name + " is not granted by the system (Linux 5.16 or later does)";
  return "the fastest that this CPU runs; " + name + " would need " + join(lacking);
}

Finding examine_tier(const Facts& facts) {
  Finding finding{.name = "CPU tier", .state = State::kOk, .text = {}, .remedy = {}};
  if (!facts.tier.has_value()) {
    finding.state = State::kMissing;
    finding.text = facts.tier_problem;
    finding.remedy = "unset CAPTION_CPU_TIER, or leave --cpu-tier out";
    return finding;
  }
  finding.text = std::string(cpu_tier_name(*facts.tier)) + ": ";
  if (*facts.tier == facts.fastest_tier) {
    finding.text += why_no_faster(facts, *facts.tier);
  } else {
    finding.state = State::kNote;
    finding.text += "asked for; this CPU also runs " +
                    std::string(cpu_tier_name(facts.fastest_tier)) + ", which is faster";
    finding.remedy = "unset CAPTION_CPU_TIER, or leave --cpu-tier out";
  }
  return finding;
}

Finding examine_memory(const Facts& facts) {
  Finding finding{.name = "memory",
                  .state = State::kOk,
                  .text = format_bytes(facts.machine.memory_bytes),
                  .remedy = {}};
  const std::int64_t available = std::min(facts.available_memory_bytes, facts.machine.memory_bytes);
  if (available <= 0) return finding;
  finding.text += ", " + format_bytes(available) + " of it available";
  if (available < kGigabyte) {
    finding.state = State::kNote;
    finding.remedy = "end other programs, or lower --threads and --max-num-seqs";
  }
  return finding;
}

// A missing GPU is only a note; whether a preset needs one is part of that preset's finding.
Finding examine_gpu(const Facts& facts) {
  Finding finding{.name = "GPU", .state = State::kNote, .text = {}, .remedy = {}};
  const std::string without_kernels = "this version has no CUDA kernels and runs on the CPU";
  if (facts.has_cuda_kernels && !facts.machine.cuda_devices.empty()) {
    finding.state = State::kOk;
    for (const CudaDevice& device : facts.machine.cuda_devices) {
      finding.text += (finding.text.empty() ? "" : "; ") + device.name + ", " +
                      format_bytes(device.memory_bytes);
    }
    return finding;
  }
  if (facts.nvidia.num_cards == 0 && facts.machine.cuda_devices.empty()) {
    finding.text =
        "no NVIDIA card; " +
        (facts.has_cuda_kernels ? std::string("the CPU does everything") : without_kernels);
    return finding;
  }
  const auto num_devices = static_cast<int>(facts.machine.cuda_devices.size());
  const bool lacks_driver = facts.nvidia.driver_version.empty() && num_devices == 0;
  finding.text = counted(std::max(facts.nvidia.num_cards, num_devices), "NVIDIA card");
  finding.text += lacks_driver ? ", no driver loaded"
                               : ", driver " + (facts.nvidia.driver_version.empty()
                                                    ? std::string("loaded")
                                                    : facts.nvidia.driver_version);
  finding.text += "; " + (facts.has_cuda_kernels ? facts.machine.cuda_status : without_kernels);
  // Where a driver is loaded, the status says what is wrong with it or with the card.
  if (facts.has_cuda_kernels && lacks_driver) {
    finding.remedy = "apt-get install nvidia-driver (Debian), ubuntu-drivers install (Ubuntu)";
  }
  return finding;
}

bool fits(const PresetFacts& preset) {
  return preset.usable_bytes == 0 || preset.needed_bytes < preset.usable_bytes;
}

std::string memory_need(const PresetFacts& preset) {
  if (preset.needed_bytes == 0) return {};
  std::string text = "weights and activations take " + format_bytes(preset.needed_bytes);
  if (preset.usable_bytes > 0) {
    text += " of the " + format_bytes(preset.usable_bytes) + " that may be used";
  }
  return text;
}

Finding examine_preset(const PresetFacts& preset) {
  Finding finding{.name = "preset " + preset.name, .state = State::kOk, .text = {}, .remedy = {}};
  const bool runs = preset.obstacles.empty() && fits(preset);
  const std::string need = memory_need(preset);
  if (runs) {
    finding.text = preset.note.empty() ? "runs here" : "runs here: " + preset.note;
    if (!need.empty()) finding.text += "; " + need;
    return finding;
  }
  finding.state = preset.is_default ? State::kMissing : State::kNote;
  finding.text = "does not run here: " + join(preset.obstacles, "; ");
  if (!need.empty()) finding.text += std::string(preset.obstacles.empty() ? "" : "; ") + need;
  if (!preset.is_default) return finding;
  finding.remedy =
      preset.obstacles.empty()
          ? "more memory, or a smaller model; caption-cli plan says what takes how much"
          : "--preset FILE with a model that is here, or install caption-cli again";
  return finding;
}

void examine_presets(const Facts& facts, std::vector<Finding>& findings) {
  const auto chosen = std::find_if(facts.presets.begin(), facts.presets.end(),
                                   [](const PresetFacts& preset) { return preset.is_default; });
  if (chosen == facts.presets.end()) {
    findings.push_back(
        {.name = "presets",
         .state = State::kMissing,
         .text = "the default preset is neither beside the program (../share/caption-cli) nor in "
                 "$CAPTION_PRESETS",
         .remedy =
             "apt-get install --reinstall caption-cli, or cmake --install of the build folder"});
  }
  for (const PresetFacts& preset : facts.presets) findings.push_back(examine_preset(preset));
  if (chosen == facts.presets.end() || chosen->model.empty()) return;
  findings.push_back(
      {.name = "model", .state = State::kOk, .text = chosen->model.string(), .remedy = {}});
}

Finding examine_dictionary(const DictionaryFacts& dictionary) {
  Finding finding{.name = "dictionary", .state = State::kOk, .text = {}, .remedy = {}};
  if (dictionary.is_there && dictionary.problem.empty()) {
    // The parentheses after the version name its author and the hunspell version.
    const std::string version = dictionary.version.substr(0, dictionary.version.find(" ("));
    finding.text = dictionary.base_path + (version.empty() ? "" : ", " + version);
    return finding;
  }
  finding.state = State::kMissing;
  finding.text = dictionary.is_there
                     ? dictionary.problem
                     : "no " + dictionary.base_path +
                           ".aff and .dic: eval would match words by their particles alone";
  finding.remedy = "apt-get install hunspell-ko, or eval --dictionary PATH";
  return finding;
}

Finding examine_decoders(const Facts& facts) {
  std::vector<std::string_view> present;
  std::vector<std::string_view> absent;
  bool lacks_widespread = false;
  for (const video::CodecSupport& codec : facts.codecs) {
    (codec.has_decoder ? present : absent).push_back(codec.name);
    lacks_widespread = lacks_widespread || (codec.is_widespread && !codec.has_decoder);
  }
  Finding finding{.name = "decoders", .state = State::kOk, .text = {}, .remedy = {}};
  finding.text = facts.libav_version + ": " + (present.empty() ? "none" : join(present));
  if (absent.empty()) return finding;
  finding.state = lacks_widespread ? State::kMissing : State::kNote;
  finding.text += "; no decoder for " + join(absent);
  finding.remedy = "apt-get install libavcodec-extra, or an FFmpeg built with these decoders";
  return finding;
}

Finding examine_open_files(const Facts& facts) {
  // A run on two cores works with 24 descriptors (tests/app/limits_test.cpp); every clip in
  // progress needs some more.
  constexpr std::int64_t kLeast = 24;
  constexpr std::int64_t kPerCore = 4;
  Finding finding{.name = "open files", .state = State::kOk, .text = {}, .remedy = {}};
  if (facts.open_file_limit == std::numeric_limits<std::int64_t>::max()) {
    finding.text = "no limit";
    return finding;
  }
  finding.text = "at most " + std::to_string(facts.open_file_limit);
  const std::int64_t wanted = kLeast + kPerCore * facts.machine.num_cpus;
  if (facts.open_file_limit >= wanted) return finding;
  finding.state = facts.open_file_limit < kLeast ? State::kMissing : State::kNote;
  finding.text += "; clips may fail below " + std::to_string(wanted);
  finding.remedy = "ulimit -n 1024";
  return finding;
}

Finding examine_cache(const FolderFacts& cache) {
  Finding finding{.name = "cache", .state = State::kOk, .text = {}, .remedy = {}};
  finding.text = cache.path.string();
  if (cache.is_usable) return finding;
  finding.state = State::kNote;
  finding.text = (cache.path.empty() ? "neither XDG_CACHE_HOME nor HOME names a folder"
                                     : finding.text + " cannot be written") +
                 ": the digests of weights are computed at every start";
  finding.remedy = "set XDG_CACHE_HOME to a folder that you can write to";
  return finding;
}

Finding examine_disk(const FolderFacts& folder) {
  Finding finding{.name = "disk", .state = State::kOk, .text = {}, .remedy = {}};
  finding.text = format_bytes(folder.free_bytes) + " free in " + folder.path.string();
  if (folder.path.empty()) {
    finding.state = State::kNote;
    finding.text = "the working folder does not exist any more";
    finding.remedy = "cd to another folder";
  } else if (!folder.is_usable) {
    finding.state = State::kNote;
    finding.text = folder.path.string() + " cannot be written";
    finding.remedy = "run -o FILE in another folder";
  } else if (folder.free_bytes < kGigabyte) {
    finding.state = State::kNote;
    finding.remedy = "make room, or run -o FILE on another disk; a record takes about 1 kB";
  }
  return finding;
}

}  // namespace

std::vector<Finding> diagnose(const Facts& facts) {
  std::vector<Finding> findings = {examine_processor(facts), examine_tier(facts),
                                   examine_memory(facts), examine_gpu(facts)};
  examine_presets(facts, findings);
  findings.push_back(examine_dictionary(facts.dictionary));
  findings.push_back(examine_decoders(facts));
  findings.push_back(examine_open_files(facts));
  findings.push_back(examine_cache(facts.cache));
  findings.push_back(examine_disk(facts.working_folder));
  return findings;
}

}  // namespace caption::doctor
