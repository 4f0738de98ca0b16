#include "pipeline/prompts.h"

#include <map>
#include <sstream>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "pipeline/adapters.h"
#include "pipeline/list_entry.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kMaxFileBytes = 1u << 20;

std::string numbered(std::size_t count) { return "p" + std::to_string(count + 1); }

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kUsage, where + ": " + what);
}

// Every line that begins with { is JSON, so that one with an error in it does not become a prompt.
bool is_json(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first != std::string::npos && line[first] == '{';
}

Prompt parse_line(const std::string& line, const std::string& number, const std::string& where) {
  if (is_json(line)) {
    const JsonObject entry =
        parse_list_entry(line, {"name", "prompt", "adapter"}, where,
                         "a line that begins with { is JSON, and a prompt that does is written "
                         "{\"prompt\": \"{...\"}");
    return {.name = entry.get_string("name", number),
            .text = entry.require_string("prompt"),
            .adapter = entry.get_string("adapter", "")};
  }
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) return {.name = number, .text = line};
  return {.name = line.substr(0, tab), .text = line.substr(tab + 1)};
}

// Whether a line without a tab has several spaces after its first word, as one whose tab an editor
// has replaced.
bool looks_named(const std::string& line) {
  const std::size_t gap = line.find("  ");
  return gap != std::string::npos && gap > 0 && gap == line.find(' ') &&
         line.find('\t') == std::string::npos && line.front() != '{';
}

// Notes the line of a prompt's name. Throws Error(kUsage) for one that another line has.
void require_new_name(const std::string& name, std::map<std::string, int>& line_of_name,
                      int line_number, const std::string& where) {
  const auto [place, is_new] = line_of_name.try_emplace(name, line_number);
  if (is_new) return;
  const bool may_be_number =
      name.starts_with('p') && name.find_first_not_of("0123456789", 1) == std::string::npos;
  fail(where, "the prompt is named " + json_quote(name) + ", as that of line " +
                  std::to_string(place->second) +
                  (may_be_number ? " (without a name of its own the second prompt is p2, and so on)"
                                 : "") +
                  "; give one of them another name");
}

// "2 comments (...)"; empty without comments.
std::string describe_comments(int num_comments) {
  if (num_comments == 0) return {};
  return counted(num_comments, "comment") +
         " (a line that begins with #; as a prompt it is written {\"prompt\": \"#...\"})";
}

// Reports every problem with the file as an error of the command line.
std::string read_prompt_file(const std::filesystem::path& path) {
  try {
    return std::string(without_byte_order_mark(read_text_input(path, kMaxFileBytes)));
  } catch (const Error& error) {
    throw Error(ErrorCode::kUsage,
                std::string(error.what()) + "; prompts are read from a text file of at most 1 MiB");
  }
}

}  // namespace

std::vector<Prompt> name_prompts(const std::vector<std::string>& texts) {
  std::vector<Prompt> prompts;
  for (const std::string& text : texts) {
    prompts.push_back({.name = texts.size() == 1 ? "" : numbered(prompts.size()), .text = text});
  }
  return prompts;
}

std::vector<Prompt> read_prompts(const std::filesystem::path& path) {
  const std::string text = read_prompt_file(path);
  if (!is_valid_utf8(text)) fail(path.string(), "not a text in UTF-8; save it as one");
  std::vector<Prompt> prompts;
  std::istringstream lines(text);
  std::map<std::string, int> line_of_name;
  int line_number = 0;
  int num_comments = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = path.string() + ":" + std::to_string(++line_number);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line.front() == '#') {
      ++num_comments;
      continue;
    }
    Prompt prompt = parse_line(line, numbered(prompts.size()), where);
    if (prompt.name.empty()) {
      fail(where,
           "a prompt without the name before its tab; write name<TAB>prompt, or the prompt alone");
    }
    if (holds_control_character(prompt.name)) {
      fail(where, "the name " + json_quote(prompt.name) +
                      " holds a control character; give the prompt a name without one");
    }
    if (prompt.text.find('\0') != std::string::npos) {
      fail(where, "the prompt holds a NUL character; remove it");
    }
    if (prompt.text.find_first_not_of(" \t") == std::string::npos) {
      fail(where, "\"" + prompt.name + "\" has no prompt; write one, or remove the line");
    }
    require_new_name(prompt.name, line_of_name, line_number, where);
    if (looks_named(line)) {
      log_warning("prompts", where + ": has no tab, so the whole line is the prompt " +
                                 prompt.name + "; with a name it is written name<TAB>prompt");
    }
    prompts.push_back(std::move(prompt));
  }
  const std::string comments = describe_comments(num_comments);
  if (prompts.empty()) {
    fail(path.string(), "no prompt in it" + (comments.empty() ? "" : ", " + comments) +
                            "; expected lines of name<TAB>prompt");
  }
  if (!comments.empty()) {
    log_info("prompts",
             path.string() + ": " + counted(std::ssize(prompts), "prompt") + " and " + comments);
  }
  return prompts;
}

}  // namespace caption::pipeline
