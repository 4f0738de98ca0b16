#include "weights/gguf_file.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/mend_advice.h"
#include "weights/internal/gguf_parser.h"
#include "weights/internal/safetensors.h"
#include "weights/internal/watched_file.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxParts = 99999;  // five digits in the name

std::string part_suffix(std::int64_t number, std::int64_t count) {
  char suffix[32];
  std::snprintf(suffix, sizeof(suffix), "-%05d-of-%05d.gguf", static_cast<int>(number),
                static_cast<int>(count));
  return suffix;
}

std::int64_t num_parts_of(const GgufMetadata& metadata) {
  return std::max<std::int64_t>(1, metadata.get_int("split.count", 1, 0, kMaxParts));
}

// Returns the path without the suffix of the first part.
std::string stem_of_parts(const fs::path& path, std::int64_t num_parts) {
  std::string stem = path.string();
  const std::string suffix = part_suffix(1, num_parts);
  if (!stem.ends_with(suffix)) {
    throw Error(ErrorCode::kBadModel,
                path.string() + ": is a part of a model in " + std::to_string(num_parts) +
                    " files; give the first one, whose name ends in " + suffix);
  }
  stem.resize(stem.size() - suffix.size());
  return stem;
}

// The bytes of a file bound the product.
std::int64_t num_elements(const GgufTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape()) elements *= extent;
  return elements;
}

}  // namespace

struct GgufFile::State {
  fs::path path;
  std::uint32_t version = 3;
  std::vector<WatchedFile> files;  // own the memory that metadata and tensors borrow
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
  std::mutex mutex;  // guards the digests and change states in `files`

  GgufHeader add_file(const fs::path& file_path) {
    files.emplace_back(file_path);
    GgufHeader header = parse_gguf(files.back().mapped().bytes(), file_path.string());
    tensors.insert(tensors.end(), header.tensors.begin(), header.tensors.end());
    return header;
  }

  void add_part(const fs::path& file_path, std::int64_t index, std::int64_t num_parts) {
    const GgufHeader header = add_file(file_path);
    const std::int64_t number = header.metadata.require_int("split.no", 0, kMaxParts);
    if (number == index && num_parts_of(header.metadata) == num_parts) return;
    throw Error(ErrorCode::kBadModel,
                file_path.string() + ": says that it is part " + std::to_string(number + 1) +
                    " of " + std::to_string(num_parts_of(header.metadata)) +
                    ", which its name does not say; download the parts again");
  }

  void add_other_parts() {
    const std::int64_t num_parts = num_parts_of(metadata);
    if (num_parts > 1) {
      const std::string stem = stem_of_parts(path, num_parts);
      const std::int64_t number = metadata.require_int("split.no", 0, kMaxParts);
      if (number != 0) {
        throw Error(ErrorCode::kBadModel, path.string() +
                                              ": split.no: expected 0 in the first part, found " +
                                              std::to_string(number) + "; " + kConvertAgain);
      }
      for (std::int64_t i = 1; i < num_parts; ++i) {
        add_part(stem + part_suffix(i + 1, num_parts), i, num_parts);
      }
    }
    const std::int64_t found = std::ssize(tensors);
    if (num_parts > 1 || metadata.has("split.tensors.count")) {
      const std::int64_t expected = metadata.get_int("split.tensors.count", found, 0, INT64_MAX);
      if (expected != found) {
        throw Error(ErrorCode::kBadModel, path.string() + ": split.tensors.count is " +
                                              std::to_string(expected) + ", but the parts have " +
                                              counted(found, "tensor") +
                                              "; download the parts again");
      }
    }
    if (num_parts > 1) sort_tensors();
  }

  void sort_tensors() {
    std::sort(tensors.begin(), tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(
        tensors.begin(), tensors.end(),
        [](const GgufTensor& a, const GgufTensor& b) { return a.name == b.name; });
    if (twice == tensors.end()) return;
    throw Error(ErrorCode::kBadModel, path.string() + ": tensor " + quote_name(twice->name) +
                                          " is in two parts; download the parts again");
  }
};

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

GgufFile GgufFile::open(const fs::path& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  GgufHeader first = state->add_file(path);
  state->version = first.version;
  state->metadata = std::move(first.metadata);
  state->add_other_parts();
  return GgufFile(std::move(state));
}

const fs::path& GgufFile::path() const { return state_->path; }

std::uint32_t GgufFile::version() const { return state_->version; }

std::vector<fs::path> GgufFile::files() const {
  std::vector<fs::path> paths;
  for (const WatchedFile& file : state_->files) paths.push_back(file.mapped().path());
  return paths;
}

std::int64_t GgufFile::size_bytes() const {
  std::int64_t bytes = 0;
  for (const WatchedFile& file : state_->files) bytes += std::ssize(file.mapped().bytes());
  return bytes;
}

std::int64_t GgufFile::num_parameters() const {
  std::int64_t count = 0;
  for (const GgufTensor& tensor : state_->tensors) count += num_elements(tensor);
  return count;
}

std::vector<StoredDType> GgufFile::dtypes() const {
  std::map<std::string_view, StoredDType> by_name;
  for (const GgufTensor& tensor : state_->tensors) {
    StoredDType& dtype = by_name[tensor.type->name];
    dtype.name = tensor.type->name;
    dtype.num_parameters += num_elements(tensor);
    dtype.size_bytes += std::ssize(tensor.bytes);
  }
  std::vector<StoredDType> dtypes;
  for (auto& [name, dtype] : by_name) dtypes.push_back(std::move(dtype));
  std::stable_sort(dtypes.begin(), dtypes.end(), [](const StoredDType& a, const StoredDType& b) {
    return a.size_bytes > b.size_bytes;
  });
  return dtypes;
}

const GgufMetadata& GgufFile::metadata() const { return state_->metadata; }

std::span<const GgufTensor> GgufFile::tensors() const { return state_->tensors; }

const GgufTensor* GgufFile::find(std::string_view name) const {
  const std::vector<GgufTensor>& tensors = state_->tensors;
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const GgufTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

std::string GgufFile::describe(const GgufTensor& tensor) const {
  for (const WatchedFile& file : state_->files) {
    const std::span<const std::byte> bytes = file.mapped().bytes();
    const std::byte* const begin = tensor.bytes.data();
    if (begin < bytes.data() || begin >= bytes.data() + bytes.size()) continue;
    return file.mapped().path().string() + ": tensor " + quote_name(tensor.name);
  }
  return path().string() + ": tensor " + quote_name(tensor.name);
}

Sha256 GgufFile::content_hash(const DigestCache& digests) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Sha256Hasher hasher;
  hasher.update_string("GGUF");
  hasher.update_value(static_cast<std::uint64_t>(state_->files.size()));
  for (WatchedFile& file : state_->files) hasher.update_value(file.digest(digests).bytes);
  return hasher.digest();
}

std::optional<std::string> GgufFile::find_changed_file() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (WatchedFile& file : state_->files) {
    if (file.has_changed()) return file.describe_change();
  }
  return std::nullopt;
}

}  // namespace caption::weights
