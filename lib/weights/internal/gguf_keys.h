// weights/internal/gguf_keys.h: what the configurations of GGUF files are made with.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "weights/gguf_file.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {

// The largest dimension or id.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

[[noreturn]] inline void fail_unavailable(const GgufFile& file, const std::string& what) {
  throw Error(ErrorCode::kUnavailable, file.path().string() + ": " + what);
}

[[noreturn]] inline void fail_bad(const GgufFile& file, const std::string& what,
                                  const std::string& remedy = kConvertAgain) {
  throw Error(ErrorCode::kBadModel, file.path().string() + ": " + what + "; " + remedy);
}

// A JSON object that is written member by member.
class GgufJson {
 public:
  GgufJson& add_json(std::string_view key, const std::string& json) {
    if (!members_.empty()) members_ += ",";
    members_ += json_quote(key) + ":" + json;
    return *this;
  }
  GgufJson& add(std::string_view key, std::int64_t value) {
    return add_json(key, std::to_string(value));
  }
  GgufJson& add(std::string_view key, double value) { return add_json(key, json_number(value)); }
  GgufJson& add_text(std::string_view key, std::string_view value) {
    return add_json(key, json_quote(value));
  }
  GgufJson& add_bool(std::string_view key, bool value) {
    return add_json(key, value ? "true" : "false");
  }
  GgufJson& add_list(std::string_view key, const std::vector<std::int64_t>& values) {
    std::string list;
    for (const std::int64_t value : values) {
      list += (list.empty() ? "" : ",") + std::to_string(value);
    }
    return add_json(key, "[" + list + "]");
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

// The keys of an architecture, "llama." or "clip.vision.".
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::string operator()(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return metadata().has((*this)(key)); }
  std::int64_t require_extent(std::string_view key) const {
    return metadata().require_int((*this)(key), 1, kMaxExtent);
  }
  std::int64_t get_extent(std::string_view key, std::int64_t fallback) const {
    return metadata().get_int((*this)(key), fallback, 1, kMaxExtent);
  }
  // The number of layers. Each has tensors of its own, so that the file bounds what a list of them
  // takes.
  std::int64_t require_layers() const {
    const std::int64_t layers = require_extent("block_count");
    const std::int64_t tensors = std::ssize(file_.tensors());
    if (layers <= tensors) return layers;
    fail_bad(file_, (*this)("block_count") + " is " + std::to_string(layers) +
                        ", but the file has " + counted(tensors, "tensor"));
  }
  double get_double(std::string_view key, double fallback) const {
    return metadata().get_double((*this)(key), fallback);
  }
  const GgufMetadata& metadata() const { return file_.metadata(); }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

inline const GgufTensor& require_tensor(const GgufFile& file, std::string_view name) {
  const GgufTensor* const tensor = file.find(name);
  if (tensor == nullptr) fail_bad(file, "tensor " + quote_name(name) + " is missing");
  return *tensor;
}

}  // namespace caption::weights
