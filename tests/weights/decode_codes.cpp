// Writes the matrices that a folder holds as codes as F32 numbers, for scripts that compare them
// with what the formats' own libraries decode (scripts/check_packed_write.py).
//   decode_codes FOLDER OUT.safetensors
// Each is read in both ways, as numbers and as codes with scales; exit code 1 if these differ.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "weights/open_source.h"
#include "weights/safetensors_writer.h"

namespace caption::weights {
namespace {

bool are_codes_equal(const Source& source, const std::string& name, ConstView numbers) {
  const std::int64_t rows = numbers.shape()[0];
  const std::int64_t columns = numbers.shape()[1];
  const QuantisedMatrix matrix = source.read_codes(name, numbers.shape(), 0, rows);
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t k = 0; k < columns; ++k) {
      const float number = numbers.as<float>()[n * columns + matrix.column_of(k)];
      if (std::bit_cast<std::uint32_t>(matrix.value(n, k)) !=
          std::bit_cast<std::uint32_t>(number)) {
        return false;
      }
    }
  }
  return true;
}

int decode(const char* folder, const char* out) {
  const auto source = open_source(folder);
  std::vector<PlannedTensor> plan;
  for (const std::string& name : source->names()) {
    if (!source->codes_of(name)) continue;
    const Shape shape = source->shape(name).value();
    plan.push_back(plan_tensor(name, "F32", {shape[0], shape[1]}));
  }
  SafetensorsWriter writer(out, plan);
  for (const PlannedTensor& tensor : plan) {
    const ConstView numbers = source->read(tensor.name, source->shape(tensor.name).value());
    if (!are_codes_equal(*source, tensor.name, numbers)) {
      std::fprintf(stderr, "decode_codes: %s: codes and numbers differ\n", tensor.name.c_str());
      return 1;
    }
    writer.write(tensor.name,
                 std::as_bytes(std::span(numbers.as<float>(),
                                         static_cast<std::size_t>(numbers.num_elements()))));
    source->release(tensor.name);
  }
  writer.finish();
  return 0;
}

}  // namespace
}  // namespace caption::weights

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("decode_codes FOLDER OUT.safetensors\n", stderr);
    return 2;
  }
  try {
    return caption::weights::decode(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_codes: %s\n", error.what());
    return 1;
  }
}
