#include "inspect_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/machine.h"
#include "base/counted.h"
#include "base/display_width.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/open_file.h"
#include "base/units.h"
#include "exit_codes.h"
#include "globals.h"
#include "inspect_model.h"
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
  bool json = false;
  bool hash = false;
  std::string sheet;
  std::string frames_folder;
  std::vector<std::string> adapters;
  std::vector<std::string> given;  // the options on the command line that are for some paths alone
  int num_frames = 8;
  std::string sampling = "arange";
};

void print_line(const std::string& name, const std::string& value) {
  std::cout << "  " << name << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ')
            << printable(value) << "\n";
}

std::string size_text(int width_px, int height_px) {
  if (width_px == 0 || height_px == 0) return "not known";
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
  print_line("length",
             (probe.duration_us > 0 ? seconds_text(probe.duration_us) : "not declared") + ", " +
                 counted(probe.num_frames, "frame") + " at " +
                 (probe.fps > 0 ? json_number(probe.fps, 3) + " fps" : "an unknown rate") + ", " +
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

// Throws Error(kUsage) for a path of something else than a folder.
void require_frames_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return;
  throw Error(ErrorCode::kUsage, "inspect: --dump-frames " + folder.string() +
                                     ": is no folder; name one, which may be new");
}

// Writes binary PPM files: the RGB bytes the model's preprocessing gets. None of them is ever there
// in part. Removes the further frames that an earlier dump left, so that the folder holds the
// frames of one film.
void dump_frames(const std::filesystem::path& folder, const video::Clip& clip) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(output_error_code(error.value()),
                "--dump-frames " + folder.string() +
                    ": cannot make the folder: " + describe_errno(error.value()));
  }
  for (std::size_t i = 0; i < clip.frames.size(); ++i) {
    const video::Frame& frame = clip.frames[i];
    const std::filesystem::path path = folder / dumped_frame_name(i);
    std::string picture =
        "P6\n" + std::to_string(frame.width_px) + " " + std::to_string(frame.height_px) + "\n255\n";
    picture.append(reinterpret_cast<const char*>(frame.rgb.data()), frame.rgb.size());
    write_file_atomically(real_path(path), picture);
  }
  for (std::size_t i = clip.frames.size(); true; ++i) {
    const std::filesystem::path path = folder / dumped_frame_name(i);
    if (std::filesystem::remove(path, error)) continue;
    if (!error) return;
    throw Error(output_error_code(error.value()),
                path.string() + ": cannot remove what is no frame of this film: " +
                    describe_errno(error.value()) + "; remove it, or name another folder");
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
  write_text(sheet.string(), video::encode_png(vision::contact_sheet(clip.frames), kSheetSoftware));
  print_line("sheet", records::escape_file_name(sheet.string()));
  if (!flags.frames_folder.empty()) dump_frames(flags.frames_folder, clip);
}

// One JSON object on a line, with the keys of the text.
std::string machine_json(const Machine& machine, const Globals& globals) {
  JsonWriter json;
  json.begin_object().add("kind", "machine").add("cpu", machine.cpu_model);
  json.add("cpus", std::int64_t{machine.num_cpus}).begin_list("features");
  for (const std::string& feature : machine.cpu_features) json.add_item(feature);
  json.end_list().add("memory_bytes", machine.memory_bytes);
  json.add("kernels", cpu_tier_name(globals.context().cpu_tier)).add("cuda", machine.cuda_status);
  json.begin_list("gpus");
  for (const CudaDevice& device : machine.cuda_devices) {
    json.begin_object().add("name", device.name).add("ordinal", std::int64_t{device.ordinal});
    json.add("compute_capability",
             std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor));
    json.add("multiprocessors", std::int64_t{device.num_multiprocessors});
    json.add("memory_bytes", device.memory_bytes);
    json.add("free_memory_bytes", device.free_memory_bytes).end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

void inspect_machine(const InspectFlags& flags, const Globals& globals) {
  const Machine machine = detect_machine();
  if (flags.json) {
    std::cout << machine_json(machine, globals);
    return;
  }
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
    std::string text = device.name + ", sm_" + std::to_string(device.compute_major) +
                       std::to_string(device.compute_minor) + ", " +
                       counted(device.num_multiprocessors, "multiprocessor") + ", " +
                       format_bytes(device.memory_bytes);
    if (device.free_memory_bytes > 0) text += ", free " + format_bytes(device.free_memory_bytes);
    print_line("", text);
  }
}

// Prints what is known of a model, with what keeps it from running, and returns the exit code.
// Throws that error where nothing else is known.
int print_model(const std::string& name, const InspectFlags& flags, const Globals& globals) {
  const ModelInspection found =
      inspect_model(name, flags.adapters, flags.hash ? WithHash::kYes : WithHash::kNo, globals);
  std::cout << (flags.json ? found.json : found.text);
  if (!found.refusal.has_value()) return kExitOk;
  if (found.text.empty()) throw *found.refusal;
  return exit_code_of(found.refusal->code());
}

bool is_weight_file(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf");
}

bool is_model(const std::string& path, const Globals& globals) {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::not_found) return is_model_name(path, globals);
  return type == std::filesystem::file_type::directory || is_weight_file(path);
}

constexpr std::array<std::string_view, 2> kOfModels = {"--adapter", "--hash"};
constexpr std::array<std::string_view, 4> kOfVideos = {"--output", "--dump-frames", "--frames",
                                                       "--sampling"};

// Warns of options for models where no path is one, and of options for videos where all are models.
void warn_of_idle(const InspectFlags& flags, const Globals& globals) {
  const std::int64_t num_models =
      std::count_if(flags.paths.begin(), flags.paths.end(),
                    [&](const std::string& path) { return is_model(path, globals); });
  const auto warn = [&](std::span<const std::string_view> options, const char* what) {
    for (const std::string_view option : options) {
      if (std::find(flags.given.begin(), flags.given.end(), option) == flags.given.end()) continue;
      log_warning("inspect", std::string(option) + " has no effect: it is for " + what +
                                 ", and none is named");
    }
  };
  if (num_models == 0) warn(kOfModels, "models");
  if (num_models == std::ssize(flags.paths)) warn(kOfVideos, "videos");
}

// The first line of a file of text, without its end; empty for a line of more than 1 MiB and for
// what is no regular file.
std::string first_line_of(const std::string& path) {
  constexpr std::size_t kMaxLineBytes = 1u << 20;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::string begin(kMaxLineBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  const std::size_t end = begin.find('\n');
  if (end == std::string::npos && begin.size() == kMaxLineBytes) return {};
  return begin.substr(0, end);
}

// Throws Error(kUsage) for a file of records or references, with the commands that read it.
void refuse_records(const std::string& path) {
  const std::string line = first_line_of(path);
  if (!line.starts_with('{')) return;
  const std::string name = records::escape_file_name(path);
  std::string text;
  try {
    const JsonObject object = JsonObject::parse(line, path, ErrorCode::kUsage);
    if (!object.has("video")) return;
    if (object.has("captions") || object.has("prompts")) {
      text = "holds references; `caption-cli eval --references " + name +
             " CAPTIONS` scores captions against them";
    } else if (object.has("status")) {
      text = "holds records of captions; `caption-cli eval --references REFERENCES " + name +
             "` scores them, and the `caption-cli run -o " + name +
             "` that wrote them goes on with them";
    } else {
      text = "holds captions of videos; `caption-cli eval --references REFERENCES " + name +
             "` scores them, and `caption-cli eval --references " + name +
             " CAPTIONS` takes them for references";
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return;
  }
  throw Error(ErrorCode::kUsage, "inspect: " + name + ": " + text);
}

// Returns the exit code.
int inspect_path(const std::string& path, const std::string& sheet, const InspectFlags& flags,
                 const Globals& globals) {
  if (is_model(path, globals)) return print_model(path, flags, globals);
  if (!is_present(path)) {
    throw Error(ErrorCode::kUsage,
                "inspect: " + records::escape_file_name(path) + ": no such file or folder");
  }
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    const std::string name = records::escape_file_name(path);
    throw Error(ErrorCode::kUsage, "inspect: " + name +
                                       ": is a preset; `caption-cli presets "
                                       "--show " +
                                       name +
                                       "` prints its options, `caption-cli "
                                       "plan --preset " +
                                       name + "` what its model needs and whether it runs here");
  }
  refuse_records(path);
  if (flags.json) {
    throw Error(ErrorCode::kUsage, "inspect: --json is for models and --machine; " +
                                       records::escape_file_name(path) + " is a file");
  }
  inspect_video(path, flags.sheet.empty() ? sheet : flags.sheet, flags);
  return kExitOk;
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
    throw Error(ErrorCode::kUsage, "inspect: give a video, a model's folder or name, or --machine");
  }
  if (std::find(flags.paths.begin(), flags.paths.end(), "") != flags.paths.end()) {
    throw Error(ErrorCode::kUsage, "inspect: a path is empty");
  }
  const bool writes_files = !flags.sheet.empty() || !flags.frames_folder.empty();
  if (writes_files && flags.paths.size() != 1) {
    throw Error(ErrorCode::kUsage, "inspect: -o and --dump-frames take one video");
  }
  require_frames_folder(flags.frames_folder);
  // Checked once, to report an error only once for all videos.
  video::parse_sampling(flags.sampling, flags.num_frames);
  warn_of_idle(flags, globals);
  if (flags.machine) inspect_machine(flags, globals);
  const std::vector<std::string> sheets = name_sheets(flags.paths);
  int exit_code = kExitOk;
  for (std::size_t i = 0; i < flags.paths.size(); ++i) {
    int code = kExitOk;
    try {
      code = inspect_path(flags.paths[i], sheets[i], flags, globals);
    } catch (const Error& error) {
      if (!is_of_path(error.code())) throw;
      code = fail(error.what(), exit_code_of(error.code()));
    }
    if (code == kExitOk) continue;
    exit_code = exit_code == kExitOk || exit_code == code ? code : kExitClipsFailed;
  }
  return exit_code;
}

}  // namespace

void add_inspect_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "inspect",
      "Look into a video, a model, or this machine\n"
      "Of a video: container, codec, size and length, which frames a model "
      "would get, and a contact sheet of them. Of a model, by its folder or its "
      "name on the Hugging Face hub: what it is, whether this build runs it, "
      "which presets it fits and what it costs here, from its configuration and "
      "the headers of its weights; of one that is not here what it would need. "
      "Also of a part of a composed model, an adapter's folder, a projector's "
      "file. What cannot be read has a line on stderr, and the exit code is the one that run would "
      "have; the others are inspected.");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("paths", flags->paths, "videos, and models by folder or name")
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
  command->add_flag("--hash", flags->hash, "also a model's digest; reads all its weights")
      ->group("Model");
  command->add_flag("--json", flags->json, "for models and --machine: one JSON object per line")
      ->group("Output");
  command->add_option("--frames", flags->num_frames, "frames to take")
      ->check(in_range(1, 4096))
      ->type_name(kNumberType)
      ->default_str("8")
      ->group("Video");
  command->add_option("--sampling", flags->sampling, "which frames")
      ->type_name(join(video::sampling_forms(), "|"))
      ->default_str("arange")
      ->group("Video");
  command->footer(
      "caption-cli inspect --frames 16 clip.mp4\n"
      "caption-cli inspect Qwen/Qwen3-VL-8B-Instruct\n"
      "caption-cli inspect --machine");
  command->callback([command, flags, &globals, &exit_code] {
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string>& names = option->get_lnames();
      if (option->count() > 0 && !names.empty()) flags->given.push_back("--" + names.front());
    }
    exit_code = inspect(*flags, globals);
  });
}

}  // namespace caption::cli
