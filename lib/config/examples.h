// config/examples.h: the examples of a preset (generation.examples) and of --examples FILE.
//
// Each is kept as the text of a JSON object: {"video": PATH, "prompt": TEXT, "caption": TEXT}, of
// which only the caption is required.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/preset.h"
#include "pipeline/examples.h"

namespace caption::config {

// Throws Error(kUsage) "where: ..." for text that is no such object or whose caption is empty.
pipeline::ExampleSource parse_example(std::string_view json, const std::string& where);
std::string to_json(const pipeline::ExampleSource& example);

// The examples with paths that are relative to `folder` made absolute.
std::vector<std::string> resolve_example_paths(const std::vector<std::string>& examples,
                                               const std::filesystem::path& folder);

// Reads a UTF-8 file with one example per line, whose paths are relative to its folder, or to the
// working folder where it is no regular file (a FIFO, a shell's <(command)). Empty lines are
// skipped. Throws Error(kUsage) with file:line, also for a file that cannot be read or is larger
// than 1 MiB; kOutOfMemory and kIo where the machine is why.
std::vector<std::string> read_example_file(const std::filesystem::path& path);

// Reads the examples' videos, relative to the working folder, with the preset's sampling. Throws as
// pipeline::read_examples().
std::vector<pipeline::Example> read_examples(const Preset& preset, const video::ReadOptions& read);

}  // namespace caption::config
