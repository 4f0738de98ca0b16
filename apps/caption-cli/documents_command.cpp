#include "documents_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/error.h"
#include "command_table.h"
#include "completions.h"
#include "exit_codes.h"
#include "man_page.h"
#include "option_types.h"
#include "version.h"
#include "write_text.h"

namespace caption::cli {
namespace {

struct DocumentFlags {
  std::string shell;
  std::string command;
  std::string folder;
};

std::string completion_of(const ProgramRow& program, const std::string& shell) {
  if (shell == "bash") return bash_completion(program);
  return shell == "zsh" ? zsh_completion(program) : fish_completion(program);
}

std::string page_of(const ProgramRow& program, const std::string& name) {
  if (name.empty()) return program_page(program, version_number());
  std::vector<std::string> names;
  for (const CommandRow& command : program.commands) {
    if (command.name == name) return command_page(command, version_number());
    names.push_back(command.name);
  }
  throw Error(ErrorCode::kUsage, "man: " + not_one_of(names, name));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  throw Error(ErrorCode::kIo, folder.string() + ": cannot be made: " + error.message());
}

// Writes the documents to the folders below share/ in which they are installed.
void write_all(const ProgramRow& program, const std::filesystem::path& folder) {
  const auto write = [&](const char* subfolder, const std::string& name, const std::string& text) {
    make_folder(folder / subfolder);
    write_text((folder / subfolder / name).string(), text);
  };
  write("man/man1", "caption-cli.1", page_of(program, ""));
  for (const CommandRow& command : program.commands) {
    write("man/man1", "caption-cli-" + command.name + ".1", page_of(program, command.name));
  }
  write("bash-completion/completions", "caption-cli", bash_completion(program));
  write("zsh/site-functions", "_caption-cli", zsh_completion(program));
  write("fish/vendor_completions.d", "caption-cli.fish", fish_completion(program));
}

void add_completion_command(CLI::App& root, int& exit_code,
                            const std::shared_ptr<DocumentFlags>& flags) {
  CLI::App* command = root.add_subcommand(
      "completion",
      "Print the completions for a shell\n"
      "An installed caption-cli has them in the places where bash-completion, zsh and fish look; "
      "this is for one that is not installed.");
  limit_to(command->add_option("shell", flags->shell, "the shell"), {"bash", "zsh", "fish"})
      ->group("Input")
      ->required();
  command->footer(
      "source <(caption-cli completion bash)\n"
      "source <(caption-cli completion zsh)\n"
      "caption-cli completion fish | source");
  command->callback([flags, &root, &exit_code] {
    std::cout << completion_of(describe_program(root), flags->shell);
    exit_code = kExitOk;
  });
}

}  // namespace

void add_documents_commands(CLI::App& root, int& exit_code) {
  const auto flags = std::make_shared<DocumentFlags>();
  add_completion_command(root, exit_code, flags);
  CLI::App* command = root.add_subcommand("man", "Print the manual's page of a command");
  command->group("");  // not shown
  command
      ->add_option("command", flags->command, "command whose page is printed; none: the program's")
      ->type_name("NAME");
  command
      ->add_option("--install-to", flags->folder,
                   "write all pages and completions below this folder, as below share/")
      ->type_name(kFolderType);
  command->callback([flags, &root, &exit_code] {
    const ProgramRow program = describe_program(root);
    if (flags->folder.empty()) {
      std::cout << page_of(program, flags->command);
    } else {
      write_all(program, flags->folder);
    }
    exit_code = kExitOk;
  });
}

}  // namespace caption::cli
