// Writes GGUF files for tests, valid and invalid ones.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/ggml_type.h"
#include "weights/gguf_metadata.h"

namespace caption::weights {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::string gguf_text(std::string_view text) {
  return bytes_of<std::uint64_t>(text.size()) + std::string(text);
}

inline std::string gguf_array(GgufType type, std::uint64_t count, std::string_view elements) {
  return bytes_of(static_cast<std::uint32_t>(type)) + bytes_of(count) + std::string(elements);
}

inline std::string gguf_strings(std::initializer_list<std::string_view> texts) {
  std::string elements;
  for (const std::string_view text : texts) elements += gguf_text(text);
  return gguf_array(GgufType::kString, texts.size(), elements);
}

// Collects keys and tensors; public members may be set to false values before text().
class GgufBytes {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t extra_tensors = 0;  // added to the count in the header
  std::uint64_t extra_pairs = 0;
  std::uint64_t alignment = 32;
  std::string tail;  // bytes after the last tensor and its padding

  GgufBytes& add(std::string_view key, std::uint32_t type, std::string_view value) {
    pairs_ += gguf_text(key) + bytes_of(type) + std::string(value);
    ++num_pairs_;
    return *this;
  }
  GgufBytes& add(std::string_view key, GgufType type, std::string_view value) {
    return add(key, static_cast<std::uint32_t>(type), value);
  }
  GgufBytes& add_string(std::string_view key, std::string_view value) {
    return add(key, GgufType::kString, gguf_text(value));
  }
  GgufBytes& add_u32(std::string_view key, std::uint32_t value) {
    return add(key, GgufType::kU32, bytes_of(value));
  }
  GgufBytes& add_f32(std::string_view key, float value) {
    return add(key, GgufType::kF32, bytes_of(value));
  }

  // `extents` are slowest first. The offset is where the data ends so far, plus `shift`.
  GgufBytes& add_tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                        std::uint32_t type, std::string_view bytes, std::uint64_t shift = 0) {
    infos_ += gguf_text(name) + bytes_of(static_cast<std::uint32_t>(extents.size()));
    for (auto it = extents.rbegin(); it != extents.rend(); ++it) infos_ += bytes_of(*it);
    infos_ += bytes_of(type) + bytes_of<std::uint64_t>(data_.size() + shift);
    data_ += bytes;
    pad(data_);
    ++num_tensors_;
    return *this;
  }
  GgufBytes& add_tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                        GgmlType type, std::string_view bytes) {
    return add_tensor(name, extents, static_cast<std::uint32_t>(type), bytes);
  }

  std::string text() const {
    std::string file = magic + bytes_of(version) + bytes_of(num_tensors_ + extra_tensors) +
                       bytes_of(num_pairs_ + extra_pairs) + pairs_ + infos_;
    pad(file);
    return file + data_ + tail;
  }

 private:
  void pad(std::string& bytes) const {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }

  std::string pairs_;
  std::string infos_;
  std::string data_;
  std::uint64_t num_pairs_ = 0;
  std::uint64_t num_tensors_ = 0;
};

}  // namespace caption::weights
