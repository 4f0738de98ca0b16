#include "tests/support/drawn_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tensor/dtype.h"

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

// Whether the drawn bits are the tensor's.
bool is_drawn_as_bits(const std::string& dtype) {
  return dtype == "U8" || dtype == "I8" || dtype == "I32" || dtype == "F8_E4M3";
}

DrawnTensor parse_tensor(const JsonObject& object) {
  DrawnTensor tensor{.name = object.require_string("name"),
                     .dtype = object.require_string("dtype"),
                     .shape = Shape(object.get_ints("shape")),
                     .center = object.get_int("center", 0, 0, 1),
                     .scale = object.get_int("scale", 0, -7, 0),
                     .power = object.get_int("power", 0, -14, 0),
                     .file = object.require_int("file", 0, 1000),
                     .values = object.get_doubles("values"),
                     .text = object.get_string("text", "")};
  CAPTION_CHECK(tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16" ||
                    is_drawn_as_bits(tensor.dtype),
                "tensors.json: dtype " + tensor.dtype);
  return tensor;
}

template <class Number>
void append(std::string& bytes, Number value) {
  const std::size_t size = bytes.size();
  bytes.resize(size + sizeof value);
  std::memcpy(bytes.data() + size, &value, sizeof value);
}

void append_number(const std::string& dtype, double value, std::string& bytes) {
  const auto narrow = static_cast<float>(value);
  if (dtype == "F32") return append(bytes, narrow);
  if (dtype == "BF16") return append(bytes, to_bf16(narrow).bits);
  if (dtype == "F16") return append(bytes, to_f16(narrow).bits);
  if (dtype == "I32") return append(bytes, static_cast<std::int32_t>(value));
  append(bytes, static_cast<std::uint8_t>(static_cast<int>(value)));
}

// Calls use(bits) with the 64 drawn bits of every element.
template <class Use>
void for_each_draw(const DrawnTensor& tensor, std::uint64_t seed, const Use& use) {
  const std::uint64_t start = splitmix64(fnv1a(tensor.name) + seed * kGoldenRatio);
  for (std::int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
    use(splitmix64(start + (static_cast<std::uint64_t>(i) + 1) * kGoldenRatio));
  }
}

void append_tensor(const DrawnTensor& tensor, std::uint64_t seed, std::string& bytes) {
  bytes += tensor.text;
  for (const double value : tensor.values) append_number(tensor.dtype, value, bytes);
  if (!tensor.text.empty() || !tensor.values.empty()) return;
  if (!is_drawn_as_bits(tensor.dtype)) {
    return append_values(draw_values(tensor, seed), tensor.dtype, bytes);
  }
  for_each_draw(tensor, seed, [&](std::uint64_t bits) {
    if (tensor.dtype == "I32") return append(bytes, static_cast<std::uint32_t>(bits >> 32));
    const auto byte = static_cast<std::uint8_t>(bits >> 56);
    const bool is_nan = tensor.dtype == "F8_E4M3" && (byte & 0x7F) == 0x7F;
    append(bytes, static_cast<std::uint8_t>(is_nan ? byte - 1 : byte));
  });
}

void write_file(const fs::path& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  CAPTION_CHECK(out.good(), "cannot write " + path.string());
}

std::int64_t element_bytes(const DrawnTensor& tensor) {
  if (tensor.dtype == "F32" || tensor.dtype == "I32") return 4;
  return tensor.dtype == "BF16" || tensor.dtype == "F16" ? 2 : 1;
}

void write_safetensors(const fs::path& path, std::vector<DrawnTensor> tensors, std::uint64_t seed) {
  // As the library does it, so that all are aligned.
  std::stable_sort(tensors.begin(), tensors.end(), [](const DrawnTensor& a, const DrawnTensor& b) {
    return element_bytes(a) > element_bytes(b);
  });
  std::string header = "{";
  std::string values;
  for (const DrawnTensor& tensor : tensors) {
    std::string shape;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      shape += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    const std::size_t begin = values.size();
    append_tensor(tensor, seed, values);
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
  const DrawnTensors drawn = read_drawn_tensors(golden);
  for (const DrawnTensor& tensor : drawn.tensors) {
    tensors.at(static_cast<std::size_t>(tensor.file)).push_back(tensor);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_safetensors(folder / files[i], std::move(tensors[i]), drawn.seed);
  }
}

}  // namespace

DrawnTensors read_drawn_tensors(const fs::path& golden_case) {
  const JsonObject list = JsonObject::open(golden_case / "tensors.json", ErrorCode::kBadReference);
  DrawnTensors drawn{.seed = static_cast<std::uint64_t>(list.require_int("seed", 0, 1LL << 40)),
                     .tensors = {}};
  for (const JsonObject& object : list.get_objects("tensors")) {
    drawn.tensors.push_back(parse_tensor(object));
  }
  return drawn;
}

std::vector<float> draw_values(const DrawnTensor& tensor, std::uint64_t seed) {
  const float unit = std::ldexp(1.0F, static_cast<int>(tensor.scale) - 7);
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(tensor.shape.num_elements()));
  for_each_draw(tensor, seed, [&](std::uint64_t bits) {
    const auto j = static_cast<std::int8_t>(bits >> 56);
    const float value = tensor.center == 1
                            ? 1.0F + std::floor(static_cast<float>(j) / 2.0F) / 128.0F
                            : static_cast<float>(j) * unit;
    values.push_back(std::ldexp(value, static_cast<int>(tensor.power)));
  });
  return values;
}

void append_values(const std::vector<float>& values, const std::string& dtype, std::string& bytes) {
  for (const float value : values) append_number(dtype, static_cast<double>(value), bytes);
}

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
