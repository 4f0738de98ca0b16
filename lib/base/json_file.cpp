// Apart from json.cpp, so that a program that only parses texts need not link what reads files.
#include "base/json.h"
#include "base/mapped_file.h"

namespace caption {

JsonObject JsonObject::open(const std::filesystem::path& path, ErrorCode code) {
  try {
    return parse(read_text_file(path), path.string(), code);
  } catch (const Error& error) {
    if (code != ErrorCode::kBadModel) throw;
    throw Error(model_file_code(error.code()), error.what());
  }
}

}  // namespace caption
