// doctor/diagnose.h: from the facts of a machine to what works on it, what does not, and the way
// out.
//
// Nothing here asks the machine: the caller gathers the facts, tests make them up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/machine.h"
#include "backend/nvidia.h"
#include "doctor/findings.h"
#include "doctor/system_facts.h"
#include "video/codecs.h"

namespace caption::doctor {

struct PresetFacts {
  std::string name;
  bool is_default = false;  // the one that `run` takes when none is named
  std::string note;         // what it chose, and why; may be empty
  // Why `run` would not start with it, whatever memory there is, each as a phrase.
  std::vector<std::string> obstacles;
  std::filesystem::path model;  // its folder; empty where it is not here
  // Weights and the activations of a step, and what may be used for them; 0: not known.
  std::int64_t needed_bytes = 0;
  std::int64_t usable_bytes = 0;
};

// hunspell's Korean dictionary.
struct DictionaryFacts {
  std::string base_path;  // without .aff and .dic
  bool is_there = false;
  std::string version;  // as the dictionary names it
  std::string problem;  // why it cannot be used, though it is there
};

struct Facts {
  Machine machine;
  int num_online_cpus = 1;
  std::int64_t available_memory_bytes = 0;  // 0: not known
  CpuTier fastest_tier = CpuTier::kReference;
  std::optional<CpuTier> tier;  // the one that kernels will use
  std::string tier_problem;     // why there is none
  bool has_cuda_kernels = false;
  NvidiaHardware nvidia;
  std::vector<PresetFacts> presets;
  DictionaryFacts dictionary;
  std::string libav_version;
  std::vector<video::CodecSupport> codecs;
  std::int64_t open_file_limit = 0;
  FolderFacts cache;           // of digests of weights
  FolderFacts working_folder;  // where `run -o NAME` writes
};

// One finding per line of the report, always in the same order.
std::vector<Finding> diagnose(const Facts& facts);

}  // namespace caption::doctor
