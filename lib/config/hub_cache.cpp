// Finds the folder of a model name in the Hugging Face cache.
// Source: huggingface_hub 0.36, "Understand caching": models--<org>--<name>/{refs,snapshots}.
#include "config/hub_cache.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/paths.h"
#include "config/download_advice.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// The folder that refs/main names, which may be missing; nullopt without that file, and where it
// holds no name of a folder.
std::optional<fs::path> read_main(const fs::path& repository) {
  const fs::path ref = repository / "refs/main";
  std::error_code ignored;
  if (!fs::is_regular_file(ref, ignored)) return std::nullopt;
  std::string revision = read_model_file(ref);
  revision.erase(std::find_if(revision.begin(), revision.end(),
                              [](unsigned char c) { return c <= ' ' || c == '/'; }),
                 revision.end());
  if (revision.empty() || revision.front() == '.') return std::nullopt;
  return repository / "snapshots" / revision;
}

// Whether the system refuses to say what is at a path, which may then be there.
bool is_refused(const std::error_code& error) {
  return error && error != std::errc::no_such_file_or_directory &&
         error != std::errc::not_a_directory && error != std::errc::filename_too_long;
}

// Returns the snapshot that refs/main names or, where that is missing, the only one that is there;
// an empty path if there is none, and where they cannot be listed: `obstacle` then receives the
// reason. Throws for several.
fs::path find_snapshot(const std::string& name, const fs::path& repository, std::string& obstacle) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : list_folder(repository / "snapshots", error)) {
    if (is_folder(entry.path())) found.push_back(entry.path());
  }
  if (is_refused(error)) obstacle = describe_errno(error.value());
  if (found.empty()) return {};
  const std::optional<fs::path> main = read_main(repository);
  if (main && is_folder(*main)) return *main;
  const std::string why =
      main ? "refs/main names the snapshot " + main->filename().string() + ", which is missing"
           : std::string("refs/main names no snapshot");
  if (found.size() == 1) {
    log_once(main ? LogLevel::kWarning : LogLevel::kInfo, "config",
             name + ": " + why + "; the only one in " + repository.string() + ", " +
                 found.front().filename().string() + ", is taken");
    return found.front();
  }
  std::vector<std::string> names;
  for (const fs::path& path : found) names.push_back(path.filename().string());
  std::sort(names.begin(), names.end());
  throw Error(ErrorCode::kBadModel,
              name + ": " + why + ", and " + (repository / "snapshots").string() + " holds " +
                  join(names) +
                  "; name one of these folders, or get the newest with `hf download " + name + "`");
}

// A file that is named in place of a model's folder.
[[noreturn]] void refuse_file(const std::string& name) {
  std::string what = name + ": is a file";
  try {
    require_regular_file(name);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotRegularFile) what = error.what();
  }
  throw Error(ErrorCode::kBadModel,
              what + "; a model is a folder with config.json and *.safetensors, or a GGUF file");
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' &&
           std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '.' || c == '-' || c == '_';
           });
  };
  const std::size_t slash = name.find('/');
  return slash != std::string_view::npos && is_part(name.substr(0, slash)) &&
         is_part(name.substr(slash + 1));
}

fs::path find_in_hub_cache(std::string_view name_or_folder, const std::vector<fs::path>& caches) {
  std::string name(name_or_folder);
  if (is_folder(name)) return name;
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (name.ends_with(".gguf") && fs::is_regular_file(status)) return name;
  if (fs::exists(status)) refuse_file(name);
  if (is_refused(error)) {
    throw Error(model_file_code(error_code_of_errno(error.value())),
                name + ": cannot be opened: " + describe_errno(error.value()));
  }
  if (name.ends_with(".gguf")) {
    throw Error(ErrorCode::kBadModel,
                name + ": no such file; name a GGUF file that is there, or the folder with it");
  }
  if (const auto hub_name = plan::find_hub_name(name)) name = *hub_name;
  if (!is_hub_name(name)) {
    throw Error(ErrorCode::kBadModel,
                name +
                    ": there is no such folder, and it is no name of the form "
                    "organisation/model" +
                    nearest_hub_names(name) +
                    "; give a model's folder, a GGUF file or its name on the hub, or demo for the "
                    "demonstration model");
  }
  std::string searched;
  const std::size_t slash = name.find('/');
  const std::string repository = "models--" + name.substr(0, slash) + "--" + name.substr(slash + 1);
  for (const fs::path& cache : caches) {
    std::string obstacle;
    fs::path snapshot = find_snapshot(name, cache / repository, obstacle);
    if (!snapshot.empty()) return snapshot;
    searched += (searched.empty() ? "" : ", ") + cache.string() +
                (obstacle.empty() ? "" : ": cannot be listed: " + obstacle);
  }
  const DownloadAdvice advice = advise_download(name);
  throw Error(advice.code, name + ": neither a folder here nor in the local Hugging Face cache (" +
                               (searched.empty() ? "the environment names none" : searched) +
                               "); " + advice.text);
}

}  // namespace caption::config
