#include "inspect_command.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/machine.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "config/adapters.h"
#include "exit_codes.h"
#include "globals.h"
#include "model/caption_model.h"
#include "option_types.h"
#include "pipeline/threads.h"
#include "process.h"
#include "records/file_name.h"
#include "sheet_names.h"
#include "video/image.h"
#include "video/read_clip.h"
#include "vision/contact_sheet.h"
#include "write_text.h"

namespace caption::cli {
namespace {

struct InspectFlags {
  std::vector<std::string> paths;
  bool machine = false;
  std::string sheet;
  std::string frames_folder;
  std::vector<std::string> adapters;
  int num_frames = 8;
  std::string sampling = "arange";
};

void print_line(const std::string& name, const std::string& value) {
  std::cout << "  " << name << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') << value
            << "\n";
}

std::string size_text(int width_px, int height_px) {
  return std::to_string(width_px) + "x" + std::to_string(height_px);
}

std::string seconds_text(std::int64_t duration_us) {
  return json_number(static_cast<double>(duration_us) / 1e6, 3) + " s";
}

void print_probe(const video::Probe& probe) {
  print_line("container", probe.container);
  print_line("codec", probe.codec + ", " + probe.pixel_format + ", " + probe.colour);
  std::string size = size_text(probe.width_px, probe.height_px);
  if (probe.display_width_px != probe.width_px || probe.display_height_px != probe.height_px) {
    size += ", shown " + size_text(probe.display_width_px, probe.display_height_px);
  }
  if (probe.rotation_degrees != 0) {
    size += ", rotated " + counted(probe.rotation_degrees, "degree");
  }
  print_line("size", size);
  print_line("length", (probe.duration_us > 0 ? seconds_text(probe.duration_us) : "not declared") +
                           ", " + counted(probe.num_frames, "frame") + " at " +
                           json_number(probe.fps, 3) + " fps, " +
                           counted(probe.num_keyframes, "keyframe"));
  print_line("file", format_bytes(probe.file_bytes));
}

void print_frames(const video::Clip& clip) {
  print_line("frames", std::to_string(clip.frames.size()) + " of " +
                           std::to_string(clip.frames_wanted) + " wanted, from " +
                           std::to_string(clip.total_frames));
  for (const video::Frame& frame : clip.frames) {
    print_line("", "frame " + std::to_string(frame.frame_idx) + " at " +
                       seconds_text(frame.pts_us) + ", " +
                       size_text(frame.width_px, frame.height_px));
  }
  const std::string few = video::describe_few_frames(clip);
  if (!few.empty()) print_line("warning", few);
  for (const std::string& warning : clip.warnings) print_line("warning", warning);
}

std::string dumped_frame_name(std::size_t index) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "frame_%03zu.ppm", index);
  return name.data();
}

// Writes binary PPM files: the RGB bytes the model's preprocessing gets. Removes the further frames
// that an earlier dump left, so that the folder holds the frames of one film.
void dump_frames(const std::filesystem::path& folder, const video::Clip& clip) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (std::size_t i = 0; i < clip.frames.size(); ++i) {
    const video::Frame& frame = clip.frames[i];
    const std::filesystem::path path = folder / dumped_frame_name(i);
    std::ofstream file(path, std::ios::binary);
    file << "P6\n" << frame.width_px << " " << frame.height_px << "\n255\n";
    file.write(reinterpret_cast<const char*>(frame.rgb.data()),
               static_cast<std::streamsize>(frame.rgb.size()));
    file.close();
    if (!file) throw Error(ErrorCode::kIo, path.string() + ": cannot write");
  }
  for (std::size_t i = clip.frames.size(); true; ++i) {
    if (!std::filesystem::remove(folder / dumped_frame_name(i), error)) return;
  }
}

void inspect_video(const std::string& path, const std::filesystem::path& sheet,
                   const InspectFlags& flags) {
  require_replaceable(sheet.string(), kPngBegin, {path});
  if (sheet.extension() != ".png") {
    throw Error(ErrorCode::kUsage,
                "-o " + sheet.string() + ": the sheet is a PNG; give it a name in .png");
  }
  const video::Probe probe = video::probe(path);
  std::cout << records::escape_file_name(path) << "\n";
  print_probe(probe);
  video::ReadOptions options;
  options.sampling = video::parse_sampling(flags.sampling, flags.num_frames);
  const video::Clip clip = video::read_clip(path, options);
  print_frames(clip);
  video::write_png(sheet, vision::contact_sheet(clip.frames));
  print_line("sheet", records::escape_file_name(sheet.string()));
  if (!flags.frames_folder.empty()) dump_frames(flags.frames_folder, clip);
}

std::string describe_adapter(const model::AdapterSummary& adapter) {
  return (adapter.name.empty() ? "" : adapter.name + ": ") +
         records::escape_file_name(adapter.folder.string()) + ", " +
         counted(adapter.num_modules, "module") + ", rank " +
         (adapter.min_rank == adapter.max_rank ? "" : std::to_string(adapter.min_rank) + " to ") +
         std::to_string(adapter.max_rank);
}

void inspect_model(const std::string& path, const InspectFlags& flags, const Globals& globals) {
  const Context context = globals.context(detect_machine().num_cpus);
  const std::unique_ptr<model::CaptionModel> model = model::open_model(
      context, path, weights::WeightFormat::kBF16, DigestCache(globals.locations.digests),
      config::adapter_sources(flags.adapters, globals.locations));
  const model::DecoderSpec& spec = model->decoder().spec();
  std::cout << records::escape_file_name(path) << "\n";
  print_line("family", std::string(model->family()));
  print_line("weights", format_bytes(model->weight_bytes()));
  print_line("decoder", counted(spec.num_layers, "layer") + " of " + std::to_string(spec.hidden) +
                            ", " + counted(spec.num_heads, "head") + " (" +
                            std::to_string(spec.num_kv_heads) + " of keys) of " +
                            std::to_string(spec.head_dim));
  print_line("vocabulary", counted(spec.vocab, "token"));
  print_line("positions", std::to_string(spec.max_positions));
  constexpr std::int64_t kNumFrames = 8;
  const model::ClipShape clip = {.num_frames = kNumFrames};
  std::string vision = counted(model->vision_tokens(clip), "token") + " for " +
                       std::to_string(kNumFrames) + " frames";
  if (model->preprocess_spec().smart) {
    vision += " of " + std::to_string(clip.frame.width_px) + "x" +
              std::to_string(clip.frame.height_px) + " pixels";
  }
  print_line("vision", vision);
  print_line("prompt", model->default_prompt());
  print_line("hash", model->content_hash().hex());
  for (const model::AdapterSummary& adapter : model->adapter_summaries()) {
    print_line("adapter", describe_adapter(adapter));
  }
}

void inspect_machine(const Globals& globals) {
  const Machine machine = detect_machine();
  std::cout << "this machine\n";
  std::string features;
  for (const std::string& feature : machine.cpu_features) {
    features += (features.empty() ? "" : " ") + feature;
  }
  print_line("cpu", machine.cpu_model + ", " + std::to_string(machine.num_cpus) + " usable");
  print_line("features", features);
  print_line("memory", format_bytes(machine.memory_bytes));
  print_line("threads", pipeline::describe_threads(machine.num_cpus,
                                                   pipeline::plan_threads(machine.num_cpus)));
  print_line("kernels", std::string(cpu_tier_name(globals.context().cpu_tier)));
  print_line("cuda", machine.cuda_status);
  for (const CudaDevice& device : machine.cuda_devices) {
    print_line("", device.name + ", sm_" + std::to_string(device.compute_major) +
                       std::to_string(device.compute_minor) + ", " +
                       format_bytes(device.memory_bytes));
  }
}

void inspect_path(const std::string& path, const std::string& sheet, const InspectFlags& flags,
                  const Globals& globals) {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::not_found) {
    throw Error(ErrorCode::kUsage,
                "inspect: " + records::escape_file_name(path) + ": no such file or folder");
  }
  if (type == std::filesystem::file_type::directory) {
    inspect_model(path, flags, globals);
  } else {
    inspect_video(path, flags.sheet.empty() ? sheet : flags.sheet, flags);
  }
}

// Whether an error concerns a single path, so that the others may still be inspected.
bool is_of_path(ErrorCode code) {
  switch (exit_code_of(code)) {
    case kExitClipsFailed:
    case kExitUsage:
    case kExitBadFile: return true;
    default: return code == ErrorCode::kUnavailable;
  }
}

// Returns the exit code of the failed paths, or kExitClipsFailed if their codes differ.
int inspect(const InspectFlags& flags, const Globals& globals) {
  if (flags.paths.empty() && !flags.machine) {
    throw Error(ErrorCode::kUsage, "inspect: give a video, a model's folder, or --machine");
  }
  const bool writes_files = !flags.sheet.empty() || !flags.frames_folder.empty();
  if (writes_files && flags.paths.size() != 1) {
    throw Error(ErrorCode::kUsage, "inspect: -o and --dump-frames take one video");
  }
  // Checked once, to report an error only once for all videos.
  video::parse_sampling(flags.sampling, flags.num_frames);
  if (flags.machine) inspect_machine(globals);
  const std::vector<std::string> sheets = name_sheets(flags.paths);
  int exit_code = kExitOk;
  for (std::size_t i = 0; i < flags.paths.size(); ++i) {
    try {
      inspect_path(flags.paths[i], sheets[i], flags, globals);
    } catch (const Error& error) {
      if (!is_of_path(error.code())) throw;
      const int code = fail(error.what(), exit_code_of(error.code()));
      exit_code = exit_code == kExitOk || exit_code == code ? code : kExitClipsFailed;
    }
  }
  return exit_code;
}

}  // namespace

void add_inspect_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command =
      root.add_subcommand("inspect",
                          "Look into a video, a model's folder, or this machine\n"
                          "Of a video: container, codec, size and length, which frames a model "
                          "would get, and a contact "
                          "sheet of them. Of a model's folder: its family, shape and digest. What "
                          "cannot be read has a line on stderr and an exit code; the others are "
                          "inspected.");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("paths", flags->paths, "videos and model folders")
      ->type_name(kPathType)
      ->group("Input");
  command->add_flag("--machine", flags->machine, "processor, memory and CUDA of this machine")
      ->group("Input");
  command->add_option("-o,--output", flags->sheet, "contact sheet of one video's frames")
      ->type_name("FILE.png")
      ->default_str("NAME.frames.png here")
      ->group("Output");
  command
      ->add_option("--dump-frames", flags->frames_folder,
                   "write the frames as frame_000.ppm, ...\n"
                   "The pixels that the model's preprocessing gets, as binary PPM.")
      ->type_name(kFolderType)
      ->group("Output");
  command->add_option("--adapter", flags->adapters, "LoRA folder of the models; repeatable")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name(kFolderType)
      ->group("Model");
  command->add_option("--frames", flags->num_frames, "frames to take")
      ->check(in_range(1, 4096))
      ->type_name(kNumberType)
      ->default_str("8")
      ->group("Video");
  command->add_option("--sampling", flags->sampling, "which frames")
      ->type_name("arange|linspace|fps=F")
      ->default_str("arange")
      ->group("Video");
  command->footer(
      "caption-cli inspect clip.mp4\n"
      "caption-cli inspect -o sheet.png --frames 16 clip.mp4\n"
      "caption-cli inspect --machine");
  command->callback([flags, &globals, &exit_code] { exit_code = inspect(*flags, globals); });
}

}  // namespace caption::cli
