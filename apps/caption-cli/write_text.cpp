#include "write_text.h"

#include <fstream>
#include <iostream>

#include "base/error.h"

namespace caption::cli {

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw Error(ErrorCode::kIo, "standard output: cannot write");
    return;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) throw Error(ErrorCode::kIo, path + ": cannot write");
}

}  // namespace caption::cli
