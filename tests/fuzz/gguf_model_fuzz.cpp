// Any bytes as the GGUF file of a model: an Error, or a configuration in JSON, tensors that can be
// read, as numbers and as codes, and a tokenizer whose ids stay in its vocabulary.
// Input: the file.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"
#include "text/token_tables.h"
#include "text/tokenizer.h"
#include "weights/gguf_config.h"
#include "weights/gguf_file.h"
#include "weights/gguf_source.h"
#include "weights/gguf_tokenizer.h"

namespace caption::weights {
namespace {

// Does a part of the work, which may refuse the file.
template <class Work>
void expect_error_or_nothing(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable ||
                      error.code() == ErrorCode::kTooLarge,
                  error.what());
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
}

void read_tensor(GgufSource& source, const std::string& name) {
  const Shape shape = source.shape(name).value();
  fuzz::require(source.read(name, shape).shape() == shape, "numbers have the shape that is told");
  source.release(name);
  if (!source.codes_of(name)) return;
  const QuantisedMatrix row = source.read_codes(name, shape, shape[0] - 1, 1);
  for (std::int64_t k = 0; k < row.num_columns; ++k) row.value(0, k);
}

void use_tokenizer(const GgufMetadata& metadata) {
  const auto tokenizer = text::make_tokenizer(gguf_token_tables(metadata));
  const std::string chat = gguf_chat_template(metadata);
  for (const std::string_view text :
       {std::string_view("a  가나\n<s>1 </s>"), std::string_view(chat)}) {
    for (const text::TokenId id :
         tokenizer->encode(text.substr(0, 512), text::AddedTokens::kRecognise)) {
      fuzz::require(id >= 0 && id < tokenizer->vocab_size(), "ids are in the vocabulary");
      tokenizer->token_bytes(id);
    }
  }
}

void use(const std::filesystem::path& path) {
  const auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
  expect_error_or_nothing(
      [&] { JsonObject::parse(gguf_text_config(*file), "config.json", ErrorCode::kInternal); });
  expect_error_or_nothing([&] { gguf_captioner_config(*file, *file); });
  expect_error_or_nothing([&] { gguf_preprocessor_config(*file); });
  expect_error_or_nothing([&] { use_tokenizer(file->metadata()); });
  expect_error_or_nothing([&] {
    GgufSource source(file);
    for (const std::string& name : source.names()) {
      expect_error_or_nothing([&] { read_tensor(source, name); });
    }
  });
}

}  // namespace
}  // namespace caption::weights

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("caption-fuzz-" + std::to_string(::getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary) << fuzz::as_text(bytes, size);
  weights::expect_error_or_nothing([&] { weights::use(path); });
  std::filesystem::remove(path);
  return 0;
}
