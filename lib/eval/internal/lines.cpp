#include "eval/internal/lines.h"

#include <iostream>
#include <iterator>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "records/file_name.h"

namespace caption::eval {
namespace {

constexpr std::size_t kMaxLineBytes = 16u << 20;

// Calls open(path); its errors about the file become errors of the reference.
template <typename Open>
auto open_reference(const std::filesystem::path& path, Open open) {
  try {
    return open(path);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    std::string advice;
    if (error.code() == ErrorCode::kNotFound) advice = "; name a file that is there";
    if (error.code() == ErrorCode::kNotRegularFile) advice = "; name a file of JSON lines";
    throw Error(ErrorCode::kBadReference, error.what() + advice);
  }
}

std::string read_whole_input(const std::filesystem::path& path) {
  return read_text_input(path, std::numeric_limits<std::size_t>::max());
}

std::string read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (std::cin.bad()) throw Error(ErrorCode::kBadReference, "standard input: cannot be read");
  return text;
}

void for_each_line_of(std::string_view rest, const std::string& input, Problems& problems,
                      const std::function<void(const Line&)>& visit) {
  rest = require_utf8_text(rest, input);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    problems.throw_if_cancelled();
    const std::size_t newline = rest.find('\n');
    std::string_view text = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string name = input + ":" + std::to_string(number);
    if (text.size() > kMaxLineBytes) {
      problems.add(name + ": a line of " + std::to_string(text.size()) + " bytes; at most " +
                   std::to_string(kMaxLineBytes) + " are expected");
      continue;
    }
    try {
      visit(Line{text, name, newline == std::string_view::npos});
    } catch (const Error& error) {
      problems.add(error.what());
    }
  }
}

}  // namespace

std::string input_name(const std::filesystem::path& path) {
  return path == kStandardInput ? std::string("standard input")
                                : records::escape_file_name(path.string());
}

std::string_view require_utf8_text(std::string_view text, const std::string& name) {
  // No text that eval reads has a NUL, and every second byte of ASCII in UTF-16 is one.
  const bool has_mark = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  const bool has_two = text.size() >= 2;
  if (has_mark || (has_two && (text[0] == '\0') != (text[1] == '\0'))) {
    throw Error(ErrorCode::kBadReference,
                name +
                    ": is in UTF-16; UTF-8 is expected, which \"iconv -f UTF-16 -t UTF-8\" makes "
                    "of it");
  }
  constexpr std::size_t kBeginBytes = 4096;
  if (text.substr(0, kBeginBytes).find('\0') != std::string_view::npos) {
    throw Error(ErrorCode::kBadReference,
                name +
                    ": holds no text, as a video does not; captions are the JSON lines that `run` "
                    "writes, references JSON lines or a folder of label files");
  }
  return without_byte_order_mark(text);
}

void for_each_line(const std::filesystem::path& path, Problems& problems,
                   const std::function<void(const Line&)>& visit) {
  std::error_code ignored;
  if (path == kStandardInput) {
    return for_each_line_of(read_standard_input(), input_name(path), problems, visit);
  }
  if (std::filesystem::is_fifo(path, ignored)) {
    const std::string text = open_reference(path, read_whole_input);
    return for_each_line_of(text, input_name(path), problems, visit);
  }
  const MappedFile file =
      open_reference(path, [](const std::filesystem::path& name) { return MappedFile(name); });
  for_each_line_of({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                   input_name(path), problems, visit);
}

}  // namespace caption::eval
