#include "quantise/internal/other_files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/open_file.h"
#include "base/units.h"
#include "drafts/layer_choice.h"
#include "quantise/quantise_checkpoint.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKey = "quantization_config";
// Ends of the names of weights, and of what trainers leave beside them.
constexpr std::string_view kWeightEnds[] = {".safetensors", ".bin",        ".pt",      ".pth",
                                            ".ckpt",        ".gguf",       ".msgpack", ".h5",
                                            ".onnx",        ".index.json", ".npz"};

bool is_of_weights(const std::string& name) {
  return std::any_of(std::begin(kWeightEnds), std::end(kWeightEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

// Throws for a file that could not be copied once the weights are made.
void require_copyable(const fs::path& path) {
  std::int64_t size_bytes = 0;
  try {
    size_bytes = OpenFile(path).size_bytes();
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    throw Error(ErrorCode::kBadModel,
                std::string(error.what()) +
                    "; quantize copies what a model's folder holds beside its weights: put the "
                    "file back, or remove it from the folder");
  }
  if (size_bytes <= kMaxOtherFileBytes) return;
  throw Error(ErrorCode::kBadModel,
              path.string() + ": has " + format_bytes(size_bytes) +
                  ", and quantize copies files beside the weights of at most " +
                  format_bytes(kMaxOtherFileBytes) + "; move it out of the folder");
}

}  // namespace

std::vector<std::string> find_other_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    // A link that leads nowhere counts, so that it is refused.
    const bool is_file = entry->is_regular_file(ignored) || !entry->exists(ignored);
    const bool is_wanted = is_file && !name.starts_with('.') && name != "config.json" &&
                           name != kManifestName && name != drafts::kLayerFileName &&
                           !is_of_weights(name);
    if (is_wanted) names.push_back(name);
  }
  if (error) {
    throw Error(ErrorCode::kIo, folder.string() + ": cannot list the folder: " + error.message());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& wanted : names) require_copyable(folder / wanted);
  return names;
}

std::string add_configuration(const std::string& config, const std::string& quantisation,
                              const std::string& file_name) {
  const JsonObject parsed = JsonObject::parse(config, file_name, ErrorCode::kBadModel);
  const std::vector<std::string> keys = parsed.keys();
  if (std::find(keys.begin(), keys.end(), kKey) != keys.end()) {
    throw Error(ErrorCode::kBadModel, file_name + ": already has a " + std::string(kKey) +
                                          "; remove the key if the weights are not quantised");
  }
  // The text is a JSON object, so its last bracket closes the root.
  const std::size_t bracket = config.rfind('}');
  std::size_t end = bracket;
  while (end > 0 && std::string_view(" \t\r\n").find(config[end - 1]) != std::string_view::npos) {
    --end;
  }
  const char* const separator = keys.empty() ? "\n  " : ",\n  ";
  return config.substr(0, end) + separator + json_quote(kKey) + ": " + quantisation + "\n" +
         config.substr(bracket);
}

}  // namespace caption::quantise
