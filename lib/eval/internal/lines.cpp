#include "eval/internal/lines.h"

#include "base/error.h"
#include "base/mapped_file.h"

namespace caption::eval {
namespace {

constexpr std::size_t kMaxLineBytes = 16u << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

MappedFile open_reference(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    throw Error(ErrorCode::kBadReference, error.what());
  }
}

}  // namespace

void for_each_line(const std::filesystem::path& path,
                   const std::function<void(const Line&)>& visit) {
  const MappedFile file = open_reference(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (rest.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    rest.remove_prefix(kByteOrderMark.size());
  }
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t newline = rest.find('\n');
    std::string_view text = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string name = path.string() + ":" + std::to_string(number);
    if (text.size() > kMaxLineBytes) {
      throw Error(ErrorCode::kBadReference, name + ": a line of " + std::to_string(text.size()) +
                                                " bytes; at most " + std::to_string(kMaxLineBytes) +
                                                " are expected");
    }
    visit(Line{text, name, newline == std::string_view::npos});
  }
}

}  // namespace caption::eval
