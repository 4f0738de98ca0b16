#include "bench/internal/kernel_record.h"

#include <algorithm>

#include "base/json.h"
#include "bench/internal/resources_json.h"

namespace caption::bench {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

RecordedKernel read_kernel(const std::string& name, const JsonObject& kernel,
                           const JsonObject& its) {
  RecordedKernel read{.name = name,
                      .threads = static_cast<int>(kernel.require_int("threads", 32, 1024)),
                      .blocks = static_cast<int>(its.require_int("blocks", 0, kMost))};
  read.bytes_ahead = static_cast<double>(std::max(its.require_int("loaded_ahead", 0, kMost),
                                                  its.require_int("copied_ahead", 0, kMost)));
  std::int64_t most_tensor = 0;
  for (const JsonObject& loop : its.get_objects("loops")) {
    const std::int64_t tensor = loop.get_int("tensor", 0, 0, kMost);
    if (tensor > most_tensor) {
      most_tensor = tensor;
      read.working_instructions = static_cast<double>(loop.get_int("working", 0, 0, kMost));
    }
    read.instructions_per_product =
        std::max(read.instructions_per_product, loop.get_double("per_tensor", 0));
  }
  return read;
}

}  // namespace

std::optional<RecordedKernel> find_recorded(std::string_view prefix, int architecture) {
  const JsonObject record =
      JsonObject::parse(resources_json(), "kernels/cuda/resources.json", ErrorCode::kInternal);
  const JsonObject files = record.get_object("files").value();
  std::optional<RecordedKernel> found;
  for (const std::string& file : files.keys()) {
    const JsonObject kernels = files.get_object(file)->get_object("kernels").value();
    for (const std::string& name : kernels.keys()) {
      if (!name.starts_with(prefix)) continue;
      const JsonObject kernel = kernels.get_object(name).value();
      const std::optional<JsonObject> its =
          kernel.get_object("architectures")->get_object(std::to_string(architecture));
      if (!its || its->get_bool("traps", false)) continue;
      const RecordedKernel read = read_kernel(name, kernel, *its);
      if (!found || read.instructions_per_product > found->instructions_per_product) found = read;
    }
  }
  return found;
}

}  // namespace caption::bench
