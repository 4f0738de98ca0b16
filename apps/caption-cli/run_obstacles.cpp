#include "run_obstacles.h"

#include <filesystem>
#include <system_error>

#include "backend/machine.h"
#include "base/error.h"
#include "config/generation_defaults.h"
#include "config/resolve.h"
#include "model/caption_model.h"
#include "sampling/sampler.h"

namespace caption::cli {

namespace {

// Adds the message of the Error that `check` throws; adds nothing when it throws none.
template <class Check>
void collect(std::vector<std::string>& obstacles, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    obstacles.emplace_back(error.what());
  }
}

}  // namespace

std::vector<std::string> run_obstacles(const config::LoadedPreset& loaded) {
  const config::Preset& preset = loaded.preset;
  std::vector<std::string> obstacles;
  const std::vector<std::string> missing = config::missing_features(preset, has_cuda_kernels());
  for (const std::string& feature : missing) {
    if (obstacles.empty()) {
      obstacles.push_back("this build lacks " + feature);
    } else {
      obstacles.front() += ", " + feature;
    }
  }
  collect(obstacles, [&] { config::require_consistent(preset); });
  const std::string& cache = preset.engine.kv_cache_dir;
  std::error_code error;
  if (std::filesystem::exists(cache, error) && !std::filesystem::is_directory(cache, error)) {
    obstacles.push_back("kv_cache_dir " + cache + " is no folder");
  }
  // A preset that this build cannot run is replaced by another one, usually with another model:
  // what is wrong with the model would not help.
  if (!missing.empty()) return obstacles;
  collect(obstacles, [&] {
    // Opened as f32, weights are neither converted nor packed: they stay mapped and are not read.
    config::Preset as_stored = preset;
    as_stored.quantization.weights = config::WeightFormat::kF32;
    const auto model = config::open_model(as_stored, loaded.path.parent_path());
    config::apply_generation_config(as_stored, model->generation_config());
    config::require_consistent(as_stored);
    sampling::validate(config::sampling_params(as_stored), model->decoder().spec().vocab);
  });
  return obstacles;
}

}  // namespace caption::cli
