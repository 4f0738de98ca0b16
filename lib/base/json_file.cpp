// Apart from json.cpp, so that a program that only parses texts need not link what reads files.
#include "base/json.h"
#include "base/mapped_file.h"

namespace caption {

JsonObject JsonObject::open(const std::filesystem::path& path, ErrorCode code) {
  const bool is_of_model = code == ErrorCode::kBadModel;
  return parse(is_of_model ? read_model_file(path) : read_text_file(path), path.string(), code);
}

}  // namespace caption
