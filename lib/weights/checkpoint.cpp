#include "weights/checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/open_file.h"
#include "weights/internal/safetensors.h"
#include "weights/internal/watched_file.h"
#include "weights/not_finite.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kOtherModel =
    "; weights and configuration are of different models, or not complete: download the folder "
    "again";

[[noreturn]] void fail_no_weights(const fs::path& folder) {
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!is_present(folder / other)) continue;
    throw Error(ErrorCode::kUnavailable,
                folder.string() + ": has " + other + " but no " + kSingleFile +
                    "; this build reads safetensors only (convert with save_pretrained)");
  }
  throw Error(ErrorCode::kBadModel, folder.string() + ": holds neither " + kSingleFile + " nor " +
                                        kIndexFile + "; copy or download its weights again");
}

std::int64_t span_bytes(const FileTensor& tensor) {
  return static_cast<std::int64_t>(tensor.bytes.size());
}

}  // namespace

struct Checkpoint::State {
  struct Located {
    FileTensor tensor;
    std::shared_ptr<const std::string> file_name;  // used in messages
    std::size_t file;                              // index in `files`
  };

  fs::path path;
  std::vector<WatchedFile> files;  // own the memory that the tensors borrow
  std::map<std::string, Located, std::less<>> tensors;
  std::optional<std::string> index_json;  // set for a sharded checkpoint
  std::mutex mutex;                       // guards the digests and change states in `files`

  // Tensors that the caller does not want are validated with their file, then ignored.
  template <class Wanted>
  void add_file(const fs::path& file_path, Wanted is_wanted) {
    files.emplace_back(file_path);
    const std::span<const std::byte> bytes = files.back().mapped().bytes();
    const auto file_name = std::make_shared<const std::string>(file_path.string());
    for (FileTensor& tensor : parse_safetensors(bytes, *file_name)) {
      if (!is_wanted(tensor.name)) continue;
      std::string name = tensor.name;
      tensors.emplace(std::move(name), Located{std::move(tensor), file_name, files.size() - 1});
    }
  }

  static void require_shard(const fs::path& index_path, const std::string& shard) {
    std::error_code ignored;
    const fs::file_status status = fs::status(index_path.parent_path() / shard, ignored);
    if (status.type() != fs::file_type::not_found) return;
    throw Error(ErrorCode::kBadModel, index_path.string() + ": names " + shard +
                                          ", which is not there; copy or download that file");
  }

  void add_shards(const fs::path& index_path) {
    index_json = read_model_file([&] { return read_text_file(index_path); });
    const auto shard_of = parse_shard_index(*index_json, index_path.string());
    std::map<std::string, std::vector<std::string>> shards;
    for (const auto& [name, shard] : shard_of) shards[shard].push_back(name);
    for (const auto& entry : shards) {
      const std::string& shard = entry.first;
      require_shard(index_path, shard);
      add_file(index_path.parent_path() / shard, [&](const std::string& name) {
        const auto it = shard_of.find(name);
        return it != shard_of.end() && it->second == shard;
      });
      for (const std::string& name : entry.second) {
        if (tensors.contains(name)) continue;
        throw Error(ErrorCode::kBadModel, index_path.string() + ": tensor " + quote_name(name) +
                                              " is said to be in " + shard +
                                              ", which does not have it; copy or download "
                                              "both files again");
      }
    }
  }

  // Throws for a tensor that no view can represent: an unsupported dtype, or too many axes for a
  // Shape.
  static ConstView view_of(const Located& located) {
    const FileTensor& tensor = located.tensor;
    const auto where = [&] { return *located.file_name + ": tensor " + quote_name(tensor.name); };
    if (!tensor.dtype) {
      throw Error(ErrorCode::kUnavailable, where() + " has dtype " + tensor.dtype_name +
                                               ", which this build does not read; save the model "
                                               "again in bfloat16, float16 or float32");
    }
    if (tensor.extents.size() > Shape::kMaxRank) {
      throw Error(ErrorCode::kUnavailable,
                  where() + " has " + std::to_string(tensor.extents.size()) + " axes; at most " +
                      std::to_string(Shape::kMaxRank) +
                      " are supported; save the model again without the tensor");
    }
    return ConstView(tensor.bytes.data(), *tensor.dtype, Shape(tensor.extents));
  }
};

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& folder_or_file) {
  auto state = std::make_unique<State>();
  state->path = folder_or_file;
  const auto all = [](const std::string&) { return true; };
  std::error_code ignored;
  if (!fs::is_directory(folder_or_file, ignored)) {
    state->add_file(folder_or_file, all);
  } else if (is_present(folder_or_file / kSingleFile)) {
    state->add_file(folder_or_file / kSingleFile, all);
  } else if (is_present(folder_or_file / kIndexFile)) {
    state->add_shards(folder_or_file / kIndexFile);
  } else {
    fail_no_weights(folder_or_file);
  }
  return Checkpoint(std::move(state));
}

std::optional<ConstView> Checkpoint::find(std::string_view name) const {
  const auto it = state_->tensors.find(name);
  if (it == state_->tensors.end()) return std::nullopt;
  return State::view_of(it->second);
}

ConstView Checkpoint::require(std::string_view name, const Shape& shape) const {
  const auto it = state_->tensors.find(name);
  if (it == state_->tensors.end()) {
    throw Error(ErrorCode::kBadModel, state_->path.string() + ": tensor " + quote_name(name) + " " +
                                          shape.to_string() + " is missing among its " +
                                          counted(std::ssize(state_->tensors), "tensor") +
                                          kOtherModel);
  }
  const ConstView view = State::view_of(it->second);
  if (view.shape() != shape) {
    throw Error(ErrorCode::kBadModel, *it->second.file_name + ": tensor " + quote_name(name) +
                                          " has shape " + view.shape().to_string() + "; expected " +
                                          shape.to_string() + kOtherModel);
  }
  return view;
}

const FileTensor* Checkpoint::stored(std::string_view name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : &found->second.tensor;
}

std::string Checkpoint::where(std::string_view name) const {
  return *state_->tensors.find(name)->second.file_name + ": tensor " + quote_name(name);
}

void Checkpoint::request(std::string_view name, RequestedPages& requested) const {
  const auto found = state_->tensors.find(name);
  if (found == state_->tensors.end()) return;
  const State::Located& located = found->second;
  requested.add(state_->files[located.file].mapped(), located.tensor.bytes);
}

bool Checkpoint::has(std::string_view tensor) const { return state_->tensors.contains(tensor); }

std::optional<Shape> Checkpoint::shape(std::string_view tensor) const {
  const std::optional<ConstView> found = find(tensor);
  if (!found) return std::nullopt;
  return found->shape();
}

std::vector<std::span<const std::byte>> Checkpoint::mapped_bytes(std::string_view tensor) const {
  const auto found = state_->tensors.find(tensor);
  if (found == state_->tensors.end()) return {};
  return {found->second.tensor.bytes};
}

void Checkpoint::release(std::string_view tensor) {
  const auto found = state_->tensors.find(tensor);
  if (found != state_->tensors.end()) release_pages(found->second.tensor.bytes);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, located] : state_->tensors) names.push_back(name);
  return names;
}

std::int64_t Checkpoint::num_parameters() const {
  std::int64_t total = 0;
  for (const auto& [name, located] : state_->tensors) total += located.tensor.num_elements;
  return total;
}

std::int64_t Checkpoint::size_bytes() const {
  std::int64_t total = 0;
  for (const auto& [name, located] : state_->tensors) total += span_bytes(located.tensor);
  return total;
}

std::vector<fs::path> Checkpoint::files() const {
  std::vector<fs::path> paths;
  for (const WatchedFile& file : state_->files) paths.push_back(file.mapped().path());
  return paths;
}

std::vector<StoredDType> Checkpoint::dtypes() const {
  std::vector<StoredDType> dtypes;
  for (const auto& [name, located] : state_->tensors) {
    const FileTensor& tensor = located.tensor;
    const std::string dtype =
        tensor.dtype ? std::string(dtype_name(*tensor.dtype)) : tensor.dtype_name;
    auto found = std::find_if(dtypes.begin(), dtypes.end(),
                              [&](const StoredDType& other) { return other.name == dtype; });
    if (found == dtypes.end()) found = dtypes.insert(dtypes.end(), {.name = dtype});
    found->num_parameters += tensor.num_elements;
    found->size_bytes += span_bytes(tensor);
  }
  std::stable_sort(dtypes.begin(), dtypes.end(), [](const StoredDType& a, const StoredDType& b) {
    return a.size_bytes > b.size_bytes;
  });
  return dtypes;
}

Sha256 Checkpoint::content_hash(const DigestCache& digests) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Sha256Hasher hasher;
  hasher.update_value(static_cast<std::uint64_t>(state_->files.size()));
  if (state_->index_json) hasher.update_string(*state_->index_json);
  for (WatchedFile& file : state_->files) {
    // The name of a file that is not a shard does not enter the hash.
    if (state_->index_json) hasher.update_string(file.mapped().path().filename().string());
    hasher.update_value(file.digest(digests).bytes);
  }
  return hasher.digest();
}

std::optional<std::string> Checkpoint::find_changed_file() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (WatchedFile& file : state_->files) {
    if (file.has_changed()) return file.describe_change();
  }
  return std::nullopt;
}

std::optional<std::string> Checkpoint::find_broken_tensor() const {
  for (const auto& [name, located] : state_->tensors) {
    const std::optional<DType> dtype = located.tensor.dtype;
    if (!dtype || !has_finite_numbers(*dtype)) continue;
    const std::int64_t count = located.tensor.num_elements;
    const auto at = find_not_finite(ConstView(located.tensor.bytes.data(), *dtype, {count}));
    if (at) return describe_not_finite(where(name), *at);
  }
  return std::nullopt;
}

const fs::path& Checkpoint::path() const { return state_->path; }

}  // namespace caption::weights
