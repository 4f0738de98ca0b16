// tests/support/drawn_gguf.h: GGUF files whose weights are drawn from a seed, equal to those that
// scripts/make_goldens_gguf_captioners.py wrote with gguf-py.
#pragma once

#include <filesystem>

#include "tests/support/drawn_checkpoint.h"

namespace caption::testing {

// Two folders of the same model: its GGUF files, and the checkpoint in the layout of transformers
// that they stand for, with a tokenizer that the files can describe. Removed with the object.
class DrawnGguf {
 public:
  explicit DrawnGguf(const std::filesystem::path& golden_case);
  ~DrawnGguf();
  DrawnGguf(const DrawnGguf&) = delete;
  DrawnGguf& operator=(const DrawnGguf&) = delete;

  // Holds model.gguf and mmproj-model.gguf.
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& checkpoint() const { return checkpoint_.path(); }
  // Whether the files are, byte for byte, those that gguf-py wrote.
  bool is_equal_to_original() const { return is_equal_; }

 private:
  DrawnCheckpoint checkpoint_;
  std::filesystem::path path_;
  bool is_equal_ = true;
};

}  // namespace caption::testing
