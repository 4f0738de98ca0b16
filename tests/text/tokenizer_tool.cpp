// A tokenizer over standard input and output, for scripts/compare_tokenizers.py, and its speed.
//
//   caption_tokenizer_tool FOLDER          answers requests until the end of the input
//   caption_tokenizer_tool FOLDER FILE N   encodes FILE N times; prints CPU seconds and ids, for
//                                          FILE whole and for its lines, and those of opening
// A request is a length (uint32, little-endian) and as many bytes of text. The answer is the number
// of ids, the ids, the number of bytes of the decoded text, all uint32, and those bytes. With the
// highest bit of the length set, the text is plain (AddedTokens::kPlainText).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

bool read_exactly(void* out, std::size_t size) { return std::fread(out, 1, size, stdin) == size; }

void write_number(std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  std::fwrite(&number, sizeof(number), 1, stdout);
}

void answer(const Tokenizer& tokenizer) {
  constexpr std::uint32_t kPlain = 1u << 31;
  std::string text;
  for (std::uint32_t length = 0; read_exactly(&length, sizeof(length));) {
    text.resize(length & ~kPlain);
    if (!read_exactly(text.data(), text.size())) return;
    const std::vector<TokenId> ids = tokenizer.encode(
        text, (length & kPlain) != 0 ? AddedTokens::kPlainText : AddedTokens::kRecognise);
    const std::string decoded = tokenizer.decode(ids);
    write_number(ids.size());
    std::fwrite(ids.data(), sizeof(TokenId), ids.size(), stdout);
    write_number(decoded.size());
    std::fwrite(decoded.data(), 1, decoded.size(), stdout);
  }
}

// The time that the process has used on CPUs: other processes do not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Prints "NAME SECONDS IDS": the shortest of the rounds.
template <class Encode>
void measure(const char* name, int num_rounds, Encode encode) {
  double best_s = 1e9;
  std::size_t num_ids = 0;
  for (int round = 0; round < num_rounds; ++round) {
    const double begin_s = cpu_seconds();
    num_ids = encode();
    best_s = std::min(best_s, cpu_seconds() - begin_s);
  }
  std::printf("%s %.6f %zu\n", name, best_s, num_ids);
}

void measure_all(const Tokenizer& tokenizer, std::string_view text, int num_rounds) {
  std::vector<TokenId> ids;
  measure("whole", num_rounds, [&] {
    ids = tokenizer.encode(text);
    return ids.size();
  });
  measure("lines", num_rounds, [&] {
    std::size_t num_ids = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      num_ids += tokenizer.encode(line).size();
    }
    return num_ids;
  });
  measure("decode", num_rounds, [&] { return tokenizer.decode(ids).size(); });
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER [FILE ROUNDS]\n", argv[0]);
    return 2;
  }
  const double begin_s = cpu_seconds();
  const auto tokenizer = open_tokenizer(argv[1]);
  if (argc == 2) {
    answer(*tokenizer);
    return 0;
  }
  std::printf("open %.6f %d\n", cpu_seconds() - begin_s, tokenizer->vocab_size());
  measure_all(*tokenizer, read_text_file(argv[2]), std::atoi(argv[3]));
  return 0;
}

}  // namespace
}  // namespace caption::text

int main(int argc, char** argv) {
  try {
    return caption::text::run(argc, argv);
  } catch (const caption::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
