#include "records/internal/foreign_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "records/format.h"
#include "records/internal/lines.h"
#include "records/record.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_empty_or_missing(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size_bytes = fs::file_size(path, error);
  return error || size_bytes == 0;
}

bool is_output(const fs::path& path) {
  try {
    if (read_manifest(manifest_path(path)).has_value()) return true;
  } catch (const Error& error) {
    // A damaged manifest leaves it to the file's own text whether it is an output.
    if (is_of_machine(error.code()) || !fs::is_regular_file(manifest_path(path))) throw;
  }
  const MappedFile file(path);
  const std::string_view text = as_text(file.bytes());
  if (is_csv_of_captions(text)) return true;
  try {
    parse_json_line(first_line(text));
    return true;
  } catch (const Error&) {
    return false;
  }
}

void refuse_special_file(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kUsage, path.string() + ": is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                                     "; -o wants a file, and without -o records go to stdout");
}

void refuse_foreign_file(const fs::path& path) {
  if (is_output(path)) return;
  throw Error(ErrorCode::kOutputConflict,
              path.string() +
                  ": holds neither records nor a manifest, so it is no output of an "
                  "earlier run and is not overwritten; give another -o");
}

void refuse_foreign_manifest(const fs::path& output, const Manifest& manifest) {
  const fs::path path = manifest_path(output);
  std::error_code error;
  const bool is_file = fs::is_regular_file(path, error);
  if (is_file ? is_empty_or_missing(path) : !fs::exists(path, error)) return;
  try {
    const std::optional<Manifest> there = read_manifest(path);
    if (!there.has_value() || share_a_name(*there, manifest)) return;
  } catch (const Error& unreadable) {
    const bool is_readable = ::access(path.c_str(), R_OK) == 0;
    if (is_file && (unreadable.code() != ErrorCode::kOutputConflict || !is_readable)) throw;
  }
  throw Error(ErrorCode::kOutputConflict,
              path.string() +
                  ": is no manifest of an output, and one of this name is written beside " +
                  output.filename().string() + "; move it away, or give another -o");
}

void require_own_file(const fs::path& path, const fs::path& output, const char* use) {
  std::error_code ignored;
  const fs::file_type type = fs::symlink_status(path, ignored).type();
  const bool is_usable = type == fs::file_type::not_found ||
                         (type == fs::file_type::regular && !fs::equivalent(path, output, ignored));
  if (is_usable) return;
  throw Error(
      ErrorCode::kOutputConflict,
      path.string() + ": is no file of its own; move it away, because " + use + " are kept there");
}

}  // namespace caption::records
