#include "stdout_buffer.h"

#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string_view>

#include "base/durable_file.h"

namespace caption::cli {
namespace {

// Never destroyed: std::cout is flushed after all static objects of the program.
StdoutBuffer& the_buffer() {
  static auto* const buffer = new StdoutBuffer;
  return *buffer;
}

}  // namespace

StdoutBuffer::StdoutBuffer() : is_terminal_(::isatty(STDOUT_FILENO) == 1) {
  setp(bytes_.data(), bytes_.data() + bytes_.size());
}

int StdoutBuffer::sync() {
  const std::string_view text(pbase(), static_cast<std::size_t>(pptr() - pbase()));
  if (text.empty()) return 0;
  if (error_ == 0) error_ = write_whole(STDOUT_FILENO, text);
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return error_ == 0 ? 0 : -1;
}

StdoutBuffer::int_type StdoutBuffer::overflow(int_type character) {
  if (sync() != 0) return traits_type::eof();
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(0);
  const char byte = traits_type::to_char_type(character);
  return xsputn(&byte, 1) == 1 ? character : traits_type::eof();
}

std::streamsize StdoutBuffer::xsputn(const char* text, std::streamsize size) {
  const std::streamsize written = std::streambuf::xsputn(text, size);
  const std::string_view line(text, static_cast<std::size_t>(size));
  if (is_terminal_ && line.find('\n') != std::string_view::npos && sync() != 0) return 0;
  return written;
}

void install_stdout_buffer() { std::cout.rdbuf(&the_buffer()); }

int stdout_error() { return the_buffer().error(); }

}  // namespace caption::cli
