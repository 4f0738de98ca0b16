#include "man_page.h"

#include <array>
#include <utility>

#include "base/join.h"

#include "exit_codes.h"

namespace caption::cli {
namespace {

// Escapes text for troff, so that it contains no requests, quotes or breakable hyphens.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '"': out += "\\(dq"; break;
      case '~': out += "\\(ti"; break;
      case '^': out += "\\(ha"; break;
      case '`': out += "\\(ga"; break;
      default: out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string lower_first(std::string text) {
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') {
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  return text;
}

std::string upper_first(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

// Adds a full stop if the sentence has none.
std::string sentence(const std::string& text) {
  return text.empty() || text.ends_with('.') || text.ends_with('?') ? text : text + ".";
}

std::string title(const std::string& page, const std::string& version) {
  std::string upper;
  for (const char c : page) {
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return ".\\\" Made by: caption\\-cli man\n.TH " + roff(upper) + " 1 \"\" \"caption\\-cli " +
         version + "\" \"User Commands\"\n";
}

std::string section(const std::string& name) { return ".SH \"" + roff(name) + "\"\n"; }

// Lines between .nf and .fi, without filling or hyphenation.
std::string lines_as_they_are(const std::vector<std::string>& lines) {
  std::string out = ".nf\n";
  for (const std::string& line : lines) out += roff(line) + "\n";
  return out + ".fi\n";
}

std::string option_head(const OptionRow& option) {
  std::string out;
  for (const std::string& name : option.names) {
    out += (out.empty() ? "" : ", ") + (option.is_positional ? italic(name) : bold(name));
  }
  if (option.is_positional && option.is_repeatable) out += "...";
  return option.placeholder.empty() || option.is_positional
             ? out
             : out + " " + italic(option.placeholder);
}

std::string option_text(const OptionRow& option) {
  std::string out = ".TP\n" + option_head(option) + "\n" + roff(sentence(option.summary)) + "\n";
  if (!option.details.empty()) out += roff(sentence(option.details)) + "\n";
  if (!option.choices.empty()) {
    out += (option.kind == ValueKind::kChoiceList ? "Some of " : "One of ") +
           roff(join(option.choices)) + ".\n";
  }
  if (!option.limits.empty()) out += "From " + roff(option.limits) + ".\n";
  if (!option.default_text.empty()) out += "Default: " + roff(option.default_text) + ".\n";
  return out;
}

std::string options_text(const CommandRow& command) {
  std::string out = section("OPTIONS");
  for (const std::string& group : groups_of(command.options)) {
    out += ".SS \"" + roff(group) + "\"\n";
    for (const OptionRow& option : command.options) {
      if (option.group == group) out += option_text(option);
    }
  }
  return out;
}

std::string examples_text(const CommandRow& command) {
  if (command.examples.empty()) return {};
  return section("EXAMPLES") + lines_as_they_are(command.examples);
}

std::string entry(const std::string& name, const std::string& text) {
  return ".TP\n" + bold(name) + "\n" + roff(sentence(text)) + "\n";
}

using Entry = std::pair<const char*, const char*>;

template <std::size_t kCount>
std::string entries(const std::array<Entry, kCount>& list) {
  std::string out;
  for (const auto& [name, text] : list) out += entry(name, text);
  return out;
}

std::string exit_status_text() {
  std::string out = section("EXIT STATUS");
  for (const ExitCodeText& text : kExitCodeTexts) {
    out += entry(std::to_string(text.code), upper_first(text.meaning));
  }
  return out;
}

constexpr std::array kUnits = {
    Entry{"4GiB, 4G, 800M, 64K", "A size in powers of 1024: K, M, G, T or P, with iB or without."},
    Entry{"4GB, 800MB, 64kB", "A size in powers of 1000. What is printed is in these."},
    Entry{"4096, 4096B", "A size in bytes."},
    Entry{"250ms, 90s, 5m, 1h30m, 2d", "A time, its units from the longest to the shortest."},
    Entry{"90", "A time in seconds."}};

constexpr std::array kEnvironment = {
    Entry{"CAPTION_PRESETS", "A folder of presets, looked through first."},
    Entry{"CAPTION_CPU_TIER", "As --cpu-tier."},
    Entry{"COLUMNS", "The width of --help where it does not go to a terminal."},
    Entry{"HF_HOME, HF_HUB_CACHE", "Where the local Hugging Face cache is."},
    Entry{"NO_COLOR", "Set to anything: no colours on a terminal."},
    Entry{"TMPDIR",
          "Where bench --price weights keeps logits that do not fit the memory; without it "
          "/var/tmp."},
    Entry{"XDG_CACHE_HOME",
          "Its folder caption-cli has digests of weight files, rates of machines, prices of "
          "formats and self-drafts; without it that of ~/.cache has them."}};

std::string see_also(const std::vector<CommandRow>& commands) {
  std::string out = section("SEE ALSO");
  for (std::size_t i = 0; i < commands.size(); ++i) {
    out +=
        bold("caption-cli-" + commands[i].name) + "(1)" + (i + 1 < commands.size() ? ",\n" : "\n");
  }
  return out;
}

}  // namespace

std::string program_page(const ProgramRow& program, const std::string& version) {
  std::string out = title("caption-cli", version) + section("NAME") + "caption\\-cli \\- " +
                    roff(lower_first(program.program.summary)) + "\n" + section("SYNOPSIS") +
                    bold("caption-cli") + " " + italic("COMMAND") + " [" + italic("options") +
                    "]\n" + section("DESCRIPTION") + roff(program.program.details) + "\n" +
                    section("COMMANDS");
  for (const CommandRow& command : program.commands) {
    out += entry(command.name, command.summary);
  }
  return out + options_text(program.program) + section("SIZES AND TIMES") + entries(kUnits) +
         exit_status_text() + section("ENVIRONMENT") + entries(kEnvironment) +
         examples_text(program.program) + see_also(program.commands);
}

std::string command_page(const CommandRow& command, const std::string& version) {
  const std::string page = "caption-cli-" + command.name;
  return title(page, version) + section("NAME") + roff(page) + " \\- " +
         roff(lower_first(command.summary)) + "\n" + section("SYNOPSIS") + roff(usage_of(command)) +
         "\n" + section("DESCRIPTION") +
         roff(sentence(command.details.empty() ? command.summary : command.details)) + "\n" +
         options_text(command) + examples_text(command) + section("EXIT STATUS") + "As of " +
         bold("caption-cli") + "(1).\n" + section("SEE ALSO") + bold("caption-cli") +
         "(1), which says what sizes and times look like.\n";
}

}  // namespace caption::cli
