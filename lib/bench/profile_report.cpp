#include "bench/profile_report.h"

#include <algorithm>

#include "base/figures.h"
#include "base/json_writer.h"
#include "bench/internal/operations_json.h"

namespace caption::bench {
namespace {

std::string name_of(const ProfileKey& key, const std::vector<NamedMatrix>& matrices) {
  std::string operation(key.operation);
  if (key.rows == 0) return operation;
  for (const NamedMatrix& named : matrices) {
    if (named.matrix.out == key.rows && named.matrix.in == key.columns) {
      return operation + " " + named.name;
    }
  }
  return operation + " [" + std::to_string(key.rows) + ", " + std::to_string(key.columns) + "]";
}

void add(std::vector<NamedMatrix>& matrices, const char* name, const model::LinearSpec& matrix) {
  const auto same = std::find_if(matrices.begin(), matrices.end(), [&](const NamedMatrix& other) {
    return other.matrix.out == matrix.out && other.matrix.in == matrix.in;
  });
  if (same == matrices.end()) {
    matrices.push_back({.name = name, .matrix = matrix});
  } else {
    same->name += std::string("; ") + name;
  }
}

}  // namespace

std::vector<NamedMatrix> named_matrices(const model::DecoderSpec& shape) {
  std::vector<NamedMatrix> matrices;
  add(matrices, "q, k, v", {.out = shape.q_dim() + 2 * shape.kv_dim(), .in = shape.hidden});
  add(matrices, "o", {.out = shape.hidden, .in = shape.q_dim()});
  add(matrices, "gate, up", {.out = 2 * shape.intermediate, .in = shape.hidden});
  add(matrices, "down", {.out = shape.hidden, .in = shape.intermediate});
  add(matrices, "lm_head", {.out = shape.vocab, .in = shape.hidden});
  return matrices;
}

std::vector<OperationTime> name_operations(const std::vector<Profile::Entry>& entries,
                                           const std::vector<NamedMatrix>& matrices,
                                           double total_seconds) {
  std::vector<OperationTime> operations;
  double named_seconds = 0;
  for (const Profile::Entry& entry : entries) {
    operations.push_back({.name = name_of(entry.key, matrices),
                          .calls = entry.calls,
                          .seconds = entry.seconds(),
                          .matrix = {.out = entry.key.rows, .in = entry.key.columns}});
    named_seconds += entry.seconds();
  }
  operations.push_back({.name = std::string(kBetweenOperations),
                        .calls = 0,
                        .seconds = std::max(0.0, total_seconds - named_seconds)});
  std::stable_sort(operations.begin(), operations.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return operations;
}

std::string profile_table(const std::vector<OperationTime>& operations, std::int64_t count,
                          const std::string& unit) {
  double total_seconds = 0;
  std::size_t width = 0;
  for (const OperationTime& operation : operations) {
    total_seconds += operation.seconds;
    width = std::max(width, operation.name.size());
  }
  constexpr std::size_t kNumberWidth = 10;
  const double parts = static_cast<double>(std::max<std::int64_t>(count, 1));
  std::string text = pad_right("operation", width) + pad_left("calls", kNumberWidth) +
                     pad_left(unit, kNumberWidth) + pad_left("share", kNumberWidth) + "\n";
  for (const OperationTime& operation : operations) {
    text += pad_right(operation.name, width) +
            pad_left(operation.calls > 0 ? std::to_string(operation.calls) : "-", kNumberWidth) +
            pad_left(format_number(1e3 * operation.seconds / parts), kNumberWidth) +
            pad_left(format_percent(total_seconds > 0 ? operation.seconds / total_seconds : 0),
                     kNumberWidth) +
            "\n";
  }
  return text;
}

void write_operations(JsonWriter& json, const std::vector<OperationTime>& operations) {
  json.begin_list("operations");
  for (const OperationTime& operation : operations) {
    json.begin_object()
        .add("name", operation.name)
        .add("calls", operation.calls)
        .add("seconds", operation.seconds)
        .end_object();
  }
  json.end_list();
}

}  // namespace caption::bench
