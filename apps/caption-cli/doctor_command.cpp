#include "doctor_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "backend/cpu_tier.h"
#include "backend/machine.h"
#include "base/error.h"
#include "config/load_preset.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "doctor/diagnose.h"
#include "eval/evaluate.h"
#include "eval/korean_stemmer.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "plan/cards.h"
#include "preset_flags.h"
#include "run_obstacles.h"
#include "video/codecs.h"
#include "video/read_clip.h"

namespace caption::cli {
namespace {

namespace fs = std::filesystem;

struct DoctorFlags {
  std::string dictionary = eval::EvaluateOptions().dictionary.string();
  bool json = false;
};

// Bytes of the weights; with `auto`, those of the smallest format.
std::int64_t least_weight_bytes(const Context& context, const model::Blueprint& shape,
                                const config::QuantizationSection& quantization) {
  if (quantization.weights != config::WeightFormat::kAuto) {
    return model::placed_bytes(context, shape, config::weight_format(quantization));
  }
  std::int64_t least = model::placed_bytes(context, shape, weights::WeightFormat::kBF16);
  for (const weights::WeightFormat format : weights::all_weight_formats()) {
    if (!weights::can_be_held(format) || weights::find_obstacle(context, format)) continue;
    least = std::min(least, model::placed_bytes(context, shape, format));
  }
  return least;
}

// Sets the bytes of the weights and of the activations of a step, and the memory that the preset
// may use; for a preset of a card, the card's memory. What `run` holds besides for adapters, a
// draft model and drafted tokens is not counted; `plan` counts it.
void examine_memory(const Context& context, const config::LoadedPreset& loaded,
                    const Machine& machine, doctor::PresetFacts& facts) {
  const config::Preset& preset = loaded.preset;
  const model::Blueprint shape =
      config::find_preset_blueprint(preset.model, loaded.locations).blueprint;
  if (!shape.text.has_value()) return;
  const bool is_of_card = preset.device.type == config::DeviceType::kCuda;
  facts.needed_bytes = least_weight_bytes(context, shape, preset.quantization) +
                       model::decoder_scratch_bytes(
                           is_of_card ? Device::kCuda : context.device, *shape.text,
                           preset.engine.max_num_batched_tokens, preset.engine.max_num_seqs);
  std::int64_t memory_bytes = machine.memory_bytes;
  if (is_of_card) {
    const std::optional<plan::Card> card = plan::find_card(preset.name);
    memory_bytes = card.has_value() ? card->memory_bytes : 0;
  }
  // A given --kv-cache-bytes is allocated regardless of memory_utilization.
  const bool is_bounded = preset.engine.kv_cache_bytes == 0;
  facts.usable_bytes = static_cast<std::int64_t>(
      (is_bounded ? preset.device.memory_utilization : 1) * static_cast<double>(memory_bytes));
}

doctor::PresetFacts examine_preset(const Context& context, const Globals& globals,
                                   const config::PresetFile& file, const Machine& machine) {
  doctor::PresetFacts facts;
  facts.name = file.name;
  facts.is_default = file.name == PresetFlags().preset;
  try {
    const config::LoadedPreset loaded =
        config::load_preset(file.path.string(), globals.locations, machine, has_cuda_kernels());
    facts.note = loaded.note;
    if (loaded.preset.device.type == config::DeviceType::kCuda && has_cuda_kernels() &&
        machine.cuda_devices.empty()) {
      // Whether its model is here does not matter: a machine without a GPU takes another preset.
      facts.obstacles.push_back(machine.cuda_status);
    } else {
      facts.obstacles = obstacle_texts(check_run(context, loaded).obstacles);
    }
    examine_memory(context, loaded, machine, facts);
    const config::ModelSection& model = loaded.preset.model;
    if (facts.is_default && facts.obstacles.empty()) {
      facts.model =
          config::find_model(model.is_composed ? model.llm : model.path, loaded.locations);
    }
  } catch (const Error& error) {
    if (facts.obstacles.empty()) facts.obstacles.emplace_back(error.what());
  }
  return facts;
}

// `named` as for eval.
doctor::DictionaryFacts examine_dictionary(const std::string& named) {
  doctor::DictionaryFacts facts;
  facts.base_path = named;
  try {
    facts.base_path = eval::find_dictionary(named).string();
    const eval::KoreanStemmer stemmer(facts.base_path);
    facts.is_there = stemmer.mode() == eval::StemmerMode::kHunspell;
    if (facts.is_there) facts.version = stemmer.identity().version;
  } catch (const Error& error) {
    // The files are missing, or are not usable, as this says.
    facts.is_there = true;
    facts.problem = error.what();
  }
  return facts;
}

void examine_tiers(const Globals& globals, doctor::Facts& facts) {
  facts.fastest_tier = fastest_cpu_tier();
  try {
    facts.tier = globals.context().cpu_tier;
  } catch (const Error& error) {
    facts.tier_problem = error.what();
  }
}

doctor::Facts gather_facts(const DoctorFlags& flags, const Globals& globals) {
  doctor::Facts facts;
  facts.machine = detect_machine();
  facts.num_online_cpus = doctor::count_online_cpus();
  facts.available_memory_bytes = doctor::available_memory_bytes();
  examine_tiers(globals, facts);
  facts.has_cuda_kernels = has_cuda_kernels();
  facts.nvidia = find_nvidia_hardware();
  const Context context{.cpu_tier = facts.tier.value_or(facts.fastest_tier)};
  for (const config::PresetFile& file : config::list_presets(globals.locations.own_presets)) {
    facts.presets.push_back(examine_preset(context, globals, file, facts.machine));
  }
  std::stable_partition(facts.presets.begin(), facts.presets.end(),
                        [](const doctor::PresetFacts& preset) { return preset.is_default; });
  facts.dictionary = examine_dictionary(flags.dictionary);
  facts.libav_version = video::library_versions();
  facts.codecs = video::codec_support();
  facts.open_file_limit = doctor::open_file_limit();
  facts.cache = doctor::examine_folder(globals.locations.digests);
  std::error_code error;
  facts.working_folder = doctor::examine_folder(fs::current_path(error));
  return facts;
}

int run_doctor(const DoctorFlags& flags, const Globals& globals) {
  const std::vector<doctor::Finding> findings = doctor::diagnose(gather_facts(flags, globals));
  std::cout << (flags.json ? doctor::to_json(findings) : doctor::to_text(findings));
  return doctor::count_missing(findings) == 0 ? kExitOk : kExitUnavailable;
}

}  // namespace

void add_doctor_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "doctor",
      "What this machine can run, what is missing, and how to get it\n"
      "Looks at the CPU, the memory, GPUs, the presets, the demonstration model, the decoders of "
      "FFmpeg, the dictionary that eval uses, limits and folders. The exit code is 0 when run and "
      "eval would work here, and 4 when something that they need is missing.");
  auto flags = std::make_shared<DoctorFlags>();
  command
      ->add_option("--dictionary", flags->dictionary,
                   "hunspell's Korean dictionary\n"
                   "Its path without suffix, its .aff or .dic file, or the folder of ko.aff and "
                   "ko.dic, as for eval.")
      ->type_name(kPathType)
      ->default_str(flags->dictionary)
      ->group("Input");
  command->add_flag("--json", flags->json, "one JSON object in place of the lines")
      ->group("Output");
  command->footer(
      "caption-cli doctor\n"
      "caption-cli doctor --json");
  command->callback([flags, &globals, &exit_code] { exit_code = run_doctor(*flags, globals); });
}

}  // namespace caption::cli
