// pipeline/prompts.h: the prompts of a run: a single one, or several with names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::pipeline {

struct Prompt {
  std::string name;          // name in records; empty for the only prompt of a run
  std::string text;          // empty: the model's default prompt
  std::string adapter = {};  // name in Options::adapters; empty: none
  friend bool operator==(const Prompt&, const Prompt&) = default;
};

// Names prompts given as texts: a single one has no name, several are named p1, p2, ... in order.
std::vector<Prompt> name_prompts(const std::vector<std::string>& texts);

// Reads a UTF-8 file with one prompt per line: "name<TAB>prompt", or only the prompt, which is
// named p1, p2, ... by its position among the prompts. A line that begins with {, after white
// space if there is any, is a JSON object: {"name": NAME, "prompt": PROMPT, "adapter":
// ADAPTER}, of which only the prompt is needed. Empty lines are skipped, and comments,
// lines that begin with #, whose number is logged; a byte order mark before the first line is
// removed. Throws Error(kUsage) with file:line for broken JSON, a repeated name, an empty name or
// prompt, a control character in a name, text that is not UTF-8, or a file without a prompt; also
// for a path that is missing, a folder, unreadable or larger than 1 MiB.
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace caption::pipeline
