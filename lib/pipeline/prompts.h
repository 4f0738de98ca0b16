// pipeline/prompts.h: what is asked about each clip: one prompt, or several with names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::pipeline {

struct Prompt {
  std::string name;  // in records; empty for the only prompt of a run
  std::string text;  // empty: the model's default
  friend bool operator==(const Prompt&, const Prompt&) = default;
};

// Texts without names: one keeps none, several become p1, p2, ... in their order.
std::vector<Prompt> name_prompts(const std::vector<std::string>& texts);

// A UTF-8 file of one prompt per line: "name<TAB>prompt", or the prompt alone, which is named p1,
// p2, ... by its place among the prompts. Empty lines and lines that begin with # are left out.
// A byte order mark before the first line is taken off.
// Throws Error(kUsage) with file:line for a repeated name, an empty name or prompt, text that is
// not UTF-8, or a file without a prompt; also for a file that is missing, a folder, unreadable or
// larger than 1 MiB.
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace caption::pipeline
