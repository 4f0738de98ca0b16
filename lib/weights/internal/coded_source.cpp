#include "weights/internal/coded_source.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/mend_advice.h"

namespace caption::weights {

Tensor CodedTensor::decode() const {
  const std::int64_t num_columns = shape()[1];
  Tensor numbers(DType::kF32, shape());
  constexpr std::int64_t kRows = 32;
  for (std::int64_t first = 0; first < shape()[0]; first += kRows) {
    const QuantisedMatrix rows = read_codes(first, std::min(kRows, shape()[0] - first));
    for (std::int64_t n = 0; n < rows.num_rows(); ++n) {
      float* const to = numbers.as<float>() + (first + n) * num_columns;
      for (std::int64_t k = 0; k < num_columns; ++k) to[rows.column_of(k)] = rows.value(n, k);
    }
  }
  return numbers;
}

namespace {

constexpr const char* kQuantiseAgain = "; download the file again, or quantise the model again";

}  // namespace

CodedSource::CodedSource(std::unique_ptr<Checkpoint> file, CodedTensors coded)
    : file_(std::move(file)), coded_(std::move(coded)) {
  for (const auto& [weight, tensor] : coded_) {
    for (const std::string& part : tensor->parts()) owners_.emplace(part, weight);
    if (!file_->has(weight) || owners_.contains(weight)) continue;
    throw Error(ErrorCode::kBadModel, file_->name() + ": holds " + quote_name(weight) +
                                          " both as numbers and as codes (" +
                                          quote_name(tensor->parts().front()) +
                                          "); remove those that are not the model's");
  }
}

const CodedTensor* CodedSource::find_coded(std::string_view tensor) const {
  const auto found = coded_.find(tensor);
  return found == coded_.end() ? nullptr : found->second.get();
}

const CodedTensor& CodedSource::require_coded(std::string_view tensor, const Shape& shape) const {
  const CodedTensor* const coded = find_coded(tensor);
  CAPTION_CHECK(coded != nullptr, name() + ": no codes of " + std::string(tensor));
  if (coded->shape() == shape) return *coded;
  throw Error(ErrorCode::kBadModel,
              name() + ": tensor " + quote_name(tensor) + " is stored as codes of shape " +
                  coded->shape().to_string() + "; expected " + shape.to_string() +
                  "; weights and configuration are of different models: download the folder again");
}

bool CodedSource::has(std::string_view tensor) const {
  if (coded_.contains(tensor)) return true;
  return !owners_.contains(tensor) && file_->has(tensor);
}

std::vector<std::string> CodedSource::names() const {
  std::vector<std::string> names;
  for (std::string& name : file_->names()) {
    if (!owners_.contains(name)) names.push_back(std::move(name));
  }
  for (const auto& [name, tensor] : coded_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Shape> CodedSource::shape(std::string_view tensor) const {
  if (const CodedTensor* const coded = find_coded(tensor)) return coded->shape();
  const std::optional<ConstView> found = file_->find(tensor);
  if (!found) return std::nullopt;
  return found->shape();
}

ConstView CodedSource::read(std::string_view tensor, const Shape& shape) {
  if (find_coded(tensor) == nullptr) return file_->read(tensor, shape);
  const CodedTensor& coded = require_coded(tensor, shape);
  const auto found = decoded_.find(tensor);
  if (found != decoded_.end()) return std::as_const(found->second).view();
  const Tensor& numbers = decoded_.emplace(tensor, coded.decode()).first->second;
  return numbers.view();
}

std::vector<std::span<const std::byte>> CodedSource::mapped_bytes(std::string_view tensor) const {
  const CodedTensor* const coded = find_coded(tensor);
  if (coded == nullptr) return file_->mapped_bytes(tensor);
  std::vector<std::span<const std::byte>> bytes;
  for (const std::string& part : coded->parts()) {
    if (const FileTensor* const stored = file_->stored(part)) bytes.push_back(stored->bytes);
  }
  return bytes;
}

void CodedSource::release(std::string_view tensor) {
  const CodedTensor* const coded = find_coded(tensor);
  if (coded == nullptr) return file_->release(tensor);
  for (const std::string& part : coded->parts()) file_->release(part);
  const auto found = decoded_.find(tensor);
  if (found != decoded_.end()) decoded_.erase(found);
}

std::optional<StoredCodes> CodedSource::codes_of(std::string_view tensor) const {
  const CodedTensor* const coded = find_coded(tensor);
  if (coded == nullptr) return std::nullopt;
  return coded->codes();
}

std::optional<StoredCodes> CodedSource::e4m3_of(std::string_view tensor) const {
  const CodedTensor* const coded = find_coded(tensor);
  return coded == nullptr ? std::nullopt : coded->e4m3();
}

QuantisedMatrix CodedSource::read_codes(std::string_view tensor, const Shape& shape,
                                        std::int64_t first, std::int64_t count) const {
  const CodedTensor& coded = require_coded(tensor, shape);
  CAPTION_CHECK(first >= 0 && count > 0 && first + count <= shape[0],
                name() + ": rows of codes outside " + std::string(tensor));
  return coded.read_codes(first, count);
}

QuantisedMatrix CodedSource::borrow_codes(std::string_view tensor, const Shape& shape,
                                          std::int64_t first, std::int64_t count) const {
  const CodedTensor& coded = require_coded(tensor, shape);
  CAPTION_CHECK(first >= 0 && count > 0 && first + count <= shape[0],
                name() + ": rows of codes outside " + std::string(tensor));
  return coded.borrow_codes(first, count);
}

std::optional<Part> Module::find_any_rank(std::string_view suffix,
                                          std::initializer_list<std::string_view> dtypes) {
  const std::string tensor_name = tensor(suffix);
  const FileTensor* const found = file_.stored(tensor_name);
  if (found == nullptr) return std::nullopt;
  const Part part{.file = &file_, .tensor = found};
  if (std::find(dtypes.begin(), dtypes.end(), found->dtype_name) == dtypes.end()) {
    std::string names;
    for (const std::string_view dtype : dtypes) {
      names += (names.empty() ? "" : " or ") + std::string(dtype);
    }
    fail_part(part, "has dtype " + found->dtype_name + "; " + names + " was expected");
  }
  parts_.push_back(tensor_name);
  return part;
}

std::optional<Part> Module::find(std::string_view suffix,
                                 std::initializer_list<std::string_view> dtypes, std::size_t rank) {
  const std::optional<Part> part = find_any_rank(suffix, dtypes);
  if (part && part->tensor->extents.size() != rank) {
    fail_part(*part, "has shape " + extents_to_string(part->tensor->extents) + "; " +
                         std::to_string(rank) + " axes were expected");
  }
  return part;
}

void Module::fail_missing(std::string_view suffix) const {
  throw Error(ErrorCode::kBadModel, file_.name() + ": tensor " + quote_name(tensor(suffix)) +
                                        " is missing beside the others of its module" +
                                        kQuantiseAgain);
}

Part Module::require(std::string_view suffix, std::initializer_list<std::string_view> dtypes,
                     std::size_t rank) {
  if (auto part = find(suffix, dtypes, rank)) return *std::move(part);
  fail_missing(suffix);
}

Part Module::require_any_rank(std::string_view suffix,
                              std::initializer_list<std::string_view> dtypes) {
  if (auto part = find_any_rank(suffix, dtypes)) return *std::move(part);
  fail_missing(suffix);
}

void Module::add_parts(std::initializer_list<std::string_view> suffixes) {
  for (const std::string_view suffix : suffixes) {
    std::string name = tensor(suffix);
    if (file_.stored(name) != nullptr) parts_.push_back(std::move(name));
  }
}

Part Module::require_shape(std::string_view suffix, std::initializer_list<std::string_view> dtypes,
                           const std::vector<std::int64_t>& extents) {
  Part part = require(suffix, dtypes, extents.size());
  if (part.tensor->extents == extents) return part;
  fail_part(part, "has shape " + extents_to_string(part.tensor->extents) + "; " +
                      extents_to_string(extents) + " was expected from its neighbours");
}

std::vector<std::string> modules_with(const Checkpoint& file, std::string_view suffix) {
  const std::string ending = "." + std::string(suffix);
  std::vector<std::string> modules;
  for (const std::string& name : file.names()) {
    if (name.size() <= ending.size() || !name.ends_with(ending)) continue;
    modules.push_back(name.substr(0, name.size() - ending.size()));
  }
  return modules;
}

RequestedPages request_parts(const Checkpoint& file, const std::vector<std::string>& modules,
                             std::initializer_list<std::string_view> suffixes) {
  RequestedPages requested;
  for (const std::string& module : modules) {
    for (const std::string_view suffix : suffixes) {
      file.request(module + "." + std::string(suffix), requested);
    }
  }
  return requested;
}

void refuse_bare_codes(const Checkpoint& file, const CodedTensors& coded, std::string_view dtype,
                       std::initializer_list<std::string_view> scales) {
  for (const std::string& module : modules_with(file, "weight")) {
    const std::string name = module + ".weight";
    const FileTensor& weight = *file.stored(name);
    const bool is_bare = weight.dtype_name == dtype && weight.extents.size() == 2;
    if (!is_bare || coded.contains(name)) continue;
    std::string missing;
    for (const std::string_view suffix : scales) {
      missing += (missing.empty() ? "" : " or ") + quote_name(module + "." + std::string(suffix));
    }
    throw Error(ErrorCode::kBadModel, file.where(name) + " has dtype " + std::string(dtype) +
                                          " and no scale: " + missing +
                                          " is missing; the folder is not complete: copy or "
                                          "download it again");
  }
}

void refuse_unknown_keys(const JsonObject& config, std::span<const std::string_view> known) {
  for (const std::string& key : config.keys()) {
    if (config.is_blank(key)) continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Error(ErrorCode::kUnavailable,
                config.name() + ": " + quote_name(key) +
                    " is not known to this build and might change the weights; remove it if it "
                    "does not");
  }
}

void refuse_value(const JsonObject& config, const std::string& what, const std::string& supported) {
  throw Error(ErrorCode::kUnavailable,
              config.name() + ": " + what + " is not read by this build; " + supported +
                  "; run another checkpoint of the model, or make one with quantize");
}

void require_group_size(const JsonObject& config, std::int64_t group_size) {
  if (group_size == -1) return;
  if (group_size < 1) {
    throw Error(ErrorCode::kBadModel, config.name() + ": groups of " + std::to_string(group_size) +
                                          " columns; expected -1 or at least 1" +
                                          mend_advice(ErrorCode::kBadModel));
  }
  const bool is_small = group_size <= 128 && group_size % 2 == 0;
  if (is_small || group_size % 128 == 0) return;
  refuse_value(config, "a group of " + std::to_string(group_size) + " columns",
               "even numbers up to 128, multiples of 128 and -1 are");
}

namespace {

// Every group must have as many columns as the kernels expect of it.
void check_group_sizes(const Part& group_of, std::int64_t num_groups, std::int64_t group_columns) {
  const auto* const groups = group_of.as<std::int32_t>();
  const std::int64_t num_columns = group_of.dim(0);
  if (num_columns > std::numeric_limits<std::int32_t>::max()) {  // ColumnOrder numbers columns so
    fail_part(group_of,
              "has " + std::to_string(num_columns) + " columns; at most 2^31 - 1 are read");
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(num_groups));
  for (std::int64_t k = 0; k < num_columns; ++k) {
    if (groups[k] < 0 || groups[k] >= num_groups) {
      fail_part(group_of, "puts column " + std::to_string(k) + " into group " +
                              std::to_string(groups[k]) + " of " + std::to_string(num_groups));
    }
    ++counts[static_cast<std::size_t>(groups[k])];
  }
  for (std::int64_t g = 0; g < num_groups; ++g) {
    const std::int64_t expected = std::min(group_columns, num_columns - g * group_columns);
    if (counts[static_cast<std::size_t>(g)] == expected) continue;
    throw Error(ErrorCode::kUnavailable,
                group_of.where() + " gives group " + std::to_string(g) + " " +
                    std::to_string(counts[static_cast<std::size_t>(g)]) + " columns, not " +
                    std::to_string(expected) +
                    "; no kernel multiplies such groups; quantise the model again, with groups of "
                    "equal size");
  }
}

}  // namespace

ColumnOrder order_by_group(const Part& group_of, std::int64_t num_groups,
                           std::int64_t group_columns, KnownOrders& orders) {
  check_group_sizes(group_of, num_groups, group_columns);
  const auto* const groups = group_of.as<std::int32_t>();
  const std::int64_t num_columns = group_of.dim(0);
  if (std::is_sorted(groups, groups + num_columns)) return nullptr;
  // Groups have equal sizes, so each begins at a known place.
  std::vector<std::size_t> next(static_cast<std::size_t>(num_groups));
  for (std::size_t g = 0; g < next.size(); ++g) {
    next[g] = g * static_cast<std::size_t>(group_columns);
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(num_columns));
  for (std::int32_t k = 0; k < num_columns; ++k) {
    order[next[static_cast<std::size_t>(groups[k])]++] = k;
  }
  ColumnOrder& known = orders[order];
  if (known == nullptr) {
    known = std::make_shared<const std::vector<std::int32_t>>(std::move(order));
  }
  return known;
}

void fail_part(const Part& part, const std::string& what) {
  throw Error(ErrorCode::kBadModel, part.where() + " " + what + kQuantiseAgain);
}

}  // namespace caption::weights
