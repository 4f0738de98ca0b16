#include "write_checks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

namespace fs = std::filesystem;

// Returns the errno of stat(); 0 when something is there.
int look_at(const fs::path& path, struct stat& status) {
  return ::stat(path.c_str(), &status) == 0 ? 0 : errno;
}

// Returns the errno with which no file can be created in `folder`; 0 if files can be created.
int refusal_of(const fs::path& folder) {
  struct stat status {};
  if (const int error = look_at(folder, status); error != 0) return error;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void refuse_output(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::kIo,
              records::escape_file_name(path.string()) + ": cannot open for writing: " + why);
}

}  // namespace

void require_writable_output(const fs::path& path, const std::vector<std::string>& suffixes) {
  // Resolves symbolic links; the target may not exist yet.
  std::error_code ignored;
  fs::path real = fs::weakly_canonical(path, ignored);
  if (ignored || real.empty()) real = path;
  struct stat status {};
  std::vector<std::string> names = {""};
  names.insert(names.end(), suffixes.begin(), suffixes.end());
  for (const std::string& suffix : names) {
    if (look_at(real.string() + suffix, status) != ENAMETOOLONG) continue;
    refuse_output(path, describe_errno(ENAMETOOLONG) +
                            (suffix.empty() ? "" : " with " + suffix + " behind it") +
                            "; give a shorter -o");
  }
  if (const int error = refusal_of(folder_of(real)); error != 0) {
    refuse_output(path, describe_errno(error) + "; -o wants a folder that takes files");
  }
  const bool is_there = look_at(real, status) == 0;
  if (is_there && ::access(real.c_str(), R_OK | W_OK) != 0) {
    refuse_output(path, describe_errno(errno));
  }
}

void require_usable_cache(const fs::path& folder) {
  if (folder.empty()) return;
  // Missing folders will be created, so the nearest existing one must be writable.
  fs::path nearest = folder;
  struct stat status {};
  while (look_at(nearest, status) == ENOENT && nearest != folder_of(nearest)) {
    nearest = folder_of(nearest);
  }
  const int error = refusal_of(nearest);
  if (error == 0) return;
  throw Error(ErrorCode::kIo, records::escape_file_name(folder.string()) +
                                  ": cannot be used as a cache folder (" + describe_errno(error) +
                                  "); name another with --kv-cache-dir");
}

}  // namespace caption::cli
