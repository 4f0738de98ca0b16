#include "tests/support/drawn_checkpoint.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace caption::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15U;

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
std::uint64_t splitmix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a(std::string_view name) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char byte : name) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  }
  return value;
}

struct DrawnTensor {
  std::string name;
  std::string dtype;
  Shape shape;
  std::int64_t center = 0;
  std::int64_t scale = 0;
  std::int64_t file = 0;

  std::int64_t size_bytes() const { return shape.num_elements() * (dtype == "F32" ? 4 : 2); }
};

DrawnTensor parse_tensor(const JsonObject& object) {
  DrawnTensor tensor{.name = object.require_string("name"),
                     .dtype = object.require_string("dtype"),
                     .shape = Shape(object.get_ints("shape")),
                     .center = object.require_int("center", 0, 1),
                     .scale = object.require_int("scale", -7, 0),
                     .file = object.require_int("file", 0, 1000)};
  CAPTION_CHECK(tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16",
                "tensors.json: dtype " + tensor.dtype);
  return tensor;
}

template <class Number>
void append(std::string& bytes, Number value) {
  const std::size_t size = bytes.size();
  bytes.resize(size + sizeof value);
  std::memcpy(bytes.data() + size, &value, sizeof value);
}

void append_values(const DrawnTensor& tensor, std::uint64_t seed, std::string& bytes) {
  const std::uint64_t start = splitmix64(fnv1a(tensor.name) + seed * kGoldenRatio);
  const float unit = std::ldexp(1.0F, static_cast<int>(tensor.scale) - 7);
  for (std::int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
    const std::uint64_t bits =
        splitmix64(start + (static_cast<std::uint64_t>(i) + 1) * kGoldenRatio);
    const auto j = static_cast<std::int8_t>(bits >> 56);
    const float value = tensor.center == 1
                            ? 1.0F + std::floor(static_cast<float>(j) / 2.0F) / 128.0F
                            : static_cast<float>(j) * unit;
    if (tensor.dtype == "F32") {
      append(bytes, value);
    } else if (tensor.dtype == "BF16") {
      append(bytes, to_bf16(value).bits);
    } else {
      append(bytes, to_f16(value).bits);
    }
  }
}

void write_file(const fs::path& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  CAPTION_CHECK(out.good(), "cannot write " + path.string());
}

void write_safetensors(const fs::path& path, const std::vector<DrawnTensor>& tensors,
                       std::uint64_t seed) {
  std::string header = "{";
  std::string values;
  for (const DrawnTensor& tensor : tensors) {
    std::string shape;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      shape += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    const std::size_t begin = values.size();
    append_values(tensor, seed, values);
    header += (header.size() > 1 ? "," : "") + json_quote(tensor.name) + ":{\"dtype\":\"" +
              tensor.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(values.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string content;
  append(content, static_cast<std::uint64_t>(header.size()));
  write_file(path, content + header + values);
}

void draw_folder(const fs::path& golden, const fs::path& folder) {
  fs::create_directories(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(golden)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory()) {
      draw_folder(entry.path(), folder / name);
    } else if (name != "tensors.json" && name != "expected.json") {
      fs::copy_file(entry.path(), folder / name);
    }
  }
  if (!fs::exists(golden / "tensors.json")) return;
  const JsonObject list = JsonObject::open(golden / "tensors.json", ErrorCode::kBadReference);
  for (const std::string& shared : list.get_strings("shared")) {
    fs::copy_file(golden / shared, folder / fs::path(shared).filename());
  }
  const std::vector<std::string> files = list.get_strings("files");
  std::vector<std::vector<DrawnTensor>> tensors(files.size());
  for (const JsonObject& object : list.get_objects("tensors")) {
    DrawnTensor tensor = parse_tensor(object);
    tensors.at(static_cast<std::size_t>(tensor.file)).push_back(std::move(tensor));
  }
  const auto seed = static_cast<std::uint64_t>(list.require_int("seed", 0, 1LL << 40));
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_safetensors(folder / files[i], tensors[i], seed);
  }
}

}  // namespace

DrawnCheckpoint::DrawnCheckpoint(const fs::path& golden_case) {
  static std::atomic<int> count = 0;
  path_ =
      fs::temp_directory_path() / ("caption-drawn-" + std::to_string(::getpid()) + "-" +
                                   std::to_string(count++) + "-" + golden_case.filename().string());
  fs::remove_all(path_);
  draw_folder(golden_case, path_);
}

DrawnCheckpoint::~DrawnCheckpoint() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace caption::testing
