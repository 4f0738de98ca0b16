// tests/support/stderr_of.h: what a function writes to standard error, log lines among it.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace caption::test {

// Returns the bytes that `write` writes to descriptor 2, which is redirected to a file meanwhile.
// Not thread-safe.
inline std::string stderr_of(const std::function<void()>& write) {
  const std::filesystem::path path = std::filesystem::path(CAPTION_TEST_TMP) / "stderr";
  const int before = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) >= 0);
  write();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  std::ifstream text(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(text), {}};
}

}  // namespace caption::test
