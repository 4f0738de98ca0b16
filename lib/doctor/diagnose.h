// doctor/diagnose.h: derives findings from the facts of a machine: what works, what does not, and
// the remedy.
//
// diagnose() does not query the machine: the caller collects the facts, and tests invent them.
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
  bool is_default = false;  // the preset that `run` uses when none is named
  std::string note;         // what the preset chose, and why; may be empty
  // Reasons other than memory for which `run` would not start with this preset, each a phrase.
  std::vector<std::string> obstacles;
  std::filesystem::path model;  // folder of its model; empty when the model is absent
  // Bytes of weights and of the activations of a step, and bytes that may be used for them; 0:
  // unknown.
  std::int64_t needed_bytes = 0;
  std::int64_t usable_bytes = 0;
};

// The Korean dictionary of hunspell.
struct DictionaryFacts {
  std::string base_path;  // without .aff and .dic
  bool is_there = false;
  std::string version;  // as the .aff file gives it
  std::string problem;  // why an existing dictionary cannot be used; else empty
};

struct Facts {
  Machine machine;
  int num_online_cpus = 1;
  std::int64_t available_memory_bytes = 0;  // 0: unknown
  CpuTier fastest_tier = CpuTier::kReference;
  std::optional<CpuTier> tier;  // the tier that kernels will use
  std::string tier_problem;     // why `tier` is empty
  bool has_cuda_kernels = false;
  NvidiaHardware nvidia;
  std::vector<PresetFacts> presets;
  DictionaryFacts dictionary;
  std::string libav_version;
  std::vector<video::CodecSupport> codecs;
  std::int64_t open_file_limit = 0;
  FolderFacts cache;           // folder for digests of weights
  FolderFacts working_folder;  // folder in which `run -o NAME` writes
};

// Returns the findings, one per entry of the report, always in the same order.
std::vector<Finding> diagnose(const Facts& facts);

}  // namespace caption::doctor
