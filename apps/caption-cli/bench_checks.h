// apps/caption-cli/bench_checks.h: which options of `caption-cli bench` mean something for what is
// measured.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "backend/device.h"
#include "bench_flags.h"
#include "config/load_preset.h"

namespace caption::cli {

// What bench measures.
enum class Measured : std::size_t {
  kFixed,
  kMixed,
  kPrefix,
  kStatic,  // the workload static-vs-continuous
  kVideos,
  kKernels,
  kTowerKernels,  // --kernels of a shape without a decoder
  kTower,
  kLoading,
  kPrediction,
  kPlantedDrafts,  // --price drafts of a shape
};
// `has_decoder` as for check_flags(), here and below.
Measured measured_by(const BenchFlags& flags, bool has_decoder);

// The names of the options on the command line that only some kinds of measurement have.
std::vector<std::string> given_workload_options(const CLI::App& command);

// Warns of options of the preset on the command line that change nothing of what is measured on the
// device: "--frames has no effect on the workload fixed".
void warn_of_idle(const BenchFlags& flags, const config::LoadedPreset& loaded, Device where,
                  bool has_decoder);

// Throws Error(kUsage) for options that exclude each other or that mean nothing for what is
// measured, and for reports that would overwrite other files. `has_decoder` tells whether
// flags.shape, if there is one, has a decoder.
void check_flags(const BenchFlags& flags, bool has_decoder);

}  // namespace caption::cli
