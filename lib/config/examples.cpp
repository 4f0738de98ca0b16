#include "config/examples.h"

#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "pipeline/list_entry.h"
#include "pipeline/pipeline.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = 1u << 20;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Reports every problem with the file as an error of the command line; those of the machine stay.
std::string read_file(const fs::path& path) {
  try {
    return std::string(without_byte_order_mark(read_text_input(path, kMaxFileBytes)));
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    throw Error(ErrorCode::kUsage, std::string(error.what()) +
                                       "; examples are read from a text file of at most 1 MiB");
  }
}

}  // namespace

pipeline::ExampleSource parse_example(std::string_view json, const std::string& where) {
  const std::string form = "{\"video\": PATH, \"prompt\": TEXT, \"caption\": TEXT}";
  if (!pipeline::is_list_entry(json)) {
    throw Error(ErrorCode::kUsage, where + ": expected " + form);
  }
  const JsonObject entry = pipeline::parse_list_entry(json, {"video", "prompt", "caption"}, where,
                                                      "an example is written " + form);
  pipeline::ExampleSource example{.video = entry.get_string("video", ""),
                                  .prompt = entry.get_string("prompt", ""),
                                  .caption = entry.require_string("caption")};
  if (is_blank(example.caption)) throw Error(ErrorCode::kUsage, where + ": the caption is empty");
  return example;
}

std::string to_json(const pipeline::ExampleSource& example) {
  std::string text = "{";
  if (!example.video.empty()) text += "\"video\": " + json_quote(example.video.string()) + ", ";
  if (!example.prompt.empty()) text += "\"prompt\": " + json_quote(example.prompt) + ", ";
  return text + "\"caption\": " + json_quote(example.caption) + "}";
}

std::vector<std::string> resolve_example_paths(const std::vector<std::string>& examples,
                                               const fs::path& folder) {
  std::vector<std::string> resolved;
  for (const std::string& text : examples) {
    pipeline::ExampleSource example = parse_example(text, "example");
    if (!example.video.empty() && example.video.is_relative()) {
      std::error_code error;
      const fs::path whole = fs::absolute(folder / example.video, error);
      if (!error) example.video = whole.lexically_normal();
    }
    resolved.push_back(to_json(example));
  }
  return resolved;
}

std::vector<std::string> read_example_file(const fs::path& path) {
  const fs::path folder = folder_of_file(path);
  const std::string text = read_file(path);
  if (!is_valid_utf8(text)) {
    throw Error(ErrorCode::kUsage, path.string() + ": not a text in UTF-8");
  }
  std::vector<std::string> examples;
  std::istringstream lines(text);
  int line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = path.string() + ":" + std::to_string(++line_number);
    if (!is_blank(line)) examples.push_back(to_json(parse_example(line, where)));
  }
  if (examples.empty()) throw Error(ErrorCode::kUsage, path.string() + ": no example in it");
  return resolve_example_paths(examples, folder);
}

std::vector<pipeline::Example> read_examples(const Preset& preset, const video::ReadOptions& read) {
  std::vector<pipeline::ExampleSource> sources;
  for (const std::string& text : preset.generation.examples) {
    sources.push_back(parse_example(text, "generation.examples"));
  }
  return pipeline::read_examples(sources, read, pipeline::Options().read_clip);
}

}  // namespace caption::config
