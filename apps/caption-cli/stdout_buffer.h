// apps/caption-cli/stdout_buffer.h: the buffer of std::cout, which remembers why a write failed.
#pragma once

#include <array>
#include <cstddef>
#include <streambuf>

namespace caption::cli {

// Writes to the descriptor of stdout, line by line if that is a terminal. After a write that failed
// nothing more is written.
class StdoutBuffer : public std::streambuf {
 public:
  StdoutBuffer();

  // The errno of the first write that failed; 0: none did.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  static constexpr std::size_t kBytes = 8192;

  const bool is_terminal_;
  int error_ = 0;
  std::array<char, kBytes> bytes_{};
};

// Gives std::cout such a buffer for the rest of the process.
void install_stdout_buffer();
// As StdoutBuffer::error() of the installed one.
int stdout_error();

}  // namespace caption::cli
