// weights/gguf_writer.h: writes a file in llama.cpp's format, version 3, little-endian.
//
// The file has its name only when it is complete: the bytes go to NAME.part, which is synced and
// renamed by finish(), and removed by a destructor without finish() or keep(). A process that is
// killed leaves the .part file behind, which the next writer of the name replaces or goes on with.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/file_descriptor.h"
#include "weights/ggml_type.h"
#include "weights/gguf_metadata.h"

namespace caption::weights {

// Keys and values in the order in which they are added. Throws Error(kInternal) for a key that is
// added twice.
class GgufFields {
 public:
  // T is bool, a number of 8 to 64 bits, or double.
  template <class T>
  GgufFields& add(std::string_view key, T value) {
    begin(key, type_of<T>());
    put(value);
    return *this;
  }
  GgufFields& add_text(std::string_view key, std::string_view text);
  template <class T>
  GgufFields& add_list(std::string_view key, const std::vector<T>& values) {
    begin_list(key, type_of<T>(), values.size());
    for (const T value : values) put(value);
    return *this;
  }
  GgufFields& add_texts(std::string_view key, const std::vector<std::string>& texts);

  // Adds the keys of another list after these.
  GgufFields& append(const GgufFields& fields);

  bool has(std::string_view key) const;
  std::int64_t count() const { return std::ssize(keys_); }
  const std::string& bytes() const { return bytes_; }  // as they are in a file

 private:
  template <class T>
  static constexpr GgufType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufType::kBool;
    if constexpr (std::is_same_v<T, float>) return GgufType::kF32;
    if constexpr (std::is_same_v<T, double>) return GgufType::kF64;
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1: return kSigned ? GgufType::kI8 : GgufType::kU8;
      case 2: return kSigned ? GgufType::kI16 : GgufType::kU16;
      case 4: return kSigned ? GgufType::kI32 : GgufType::kU32;
      default: return kSigned ? GgufType::kI64 : GgufType::kU64;
    }
  }
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(std::string_view text);
  void begin(std::string_view key, GgufType type);
  void begin_list(std::string_view key, GgufType type, std::size_t count);

  std::vector<std::string> keys_;
  std::string bytes_;
};

struct GgufTensorHeader {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> extents;  // slowest first, 1 to 4 of them

  std::size_t size_bytes() const;  // throws Error(kInternal) unless the rows are whole blocks
};

// For one thread. Every function throws Error(kIo) or, where the system has no memory or descriptor
// left, Error(kOutOfMemory), "PATH: ..." with the system's reason; a message about a tensor's bytes
// names it.
class GgufWriter {
 public:
  static constexpr const char* kUnfinished = ".part";  // appended to the name of an unfinished file

  // Creates PATH.part and writes all that stands before the first tensor. Or goes on with the first
  // `kept_bytes` of the PATH.part that is there, if they end with a tensor, and fields and tensors
  // in them are these.
  GgufWriter(std::filesystem::path path, const GgufFields& fields,
             std::vector<GgufTensorHeader> tensors, std::int64_t kept_bytes = 0);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Writes the next bytes of the tensors, which follow one another in the order of the headers; one
  // call never exceeds the end of a tensor. Pads the end of each to 32 bytes.
  void write(std::span<const std::byte> bytes);
  // Hands all bytes to the system. The destructor then leaves the unfinished file.
  void keep();
  // Syncs the file and its folder and gives the file its name. Throws Error(kInternal) when bytes
  // of a tensor are missing.
  void finish();

  std::int64_t size_bytes() const { return size_bytes_; }  // written so far
  std::size_t num_kept() const { return num_kept_; }       // tensors in the bytes that were kept

  // Whether a file begins with these fields and tensors.
  static bool is_begun(const std::filesystem::path& path, const GgufFields& fields,
                       const std::vector<GgufTensorHeader>& tensors);

 private:
  std::string where() const;
  // Returns whether PATH.part has such a beginning of kept bytes, and then takes its place.
  bool take_place(const std::string& header, std::int64_t kept_bytes);
  void put(const void* bytes, std::size_t size);
  void flush();
  void pad();
  void skip_empty();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
  std::vector<GgufTensorHeader> tensors_;
  std::size_t num_kept_ = 0;
  std::size_t current_ = 0;    // index of the tensor whose bytes come next
  std::size_t remaining_ = 0;  // bytes of it that are missing
  std::string buffer_;
  std::int64_t size_bytes_ = 0;
  bool is_left_ = false;  // whether the destructor leaves the unfinished file
};

}  // namespace caption::weights
