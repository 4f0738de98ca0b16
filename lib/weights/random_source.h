// weights/random_source.h: random weights of any shape, for measuring speed without downloads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/thread_pool.h"
#include "weights/source.h"

namespace caption::weights {

// Values of a new tensor.
enum class Fill {
  kNormal,  // ~ N(0, 0.02), a sum of four uniform numbers
  kOne,
  kZero,
  kFaint,  // ~ N(0, 0.0002)
};

struct NewTensor {
  std::string name;
  Shape shape;
  Fill fill = Fill::kNormal;
};

// Generates a tensor when it is read: the same numbers for the same seed and name with any number
// of threads. read() throws Error(kInternal) for a tensor that is not in the list. One thread at a
// time.
class RandomSource final : public Source {
 public:
  // All tensors have the dtype `dtype`, f32 or bf16. read() uses `pool`, which must
  // outlive the last read().
  RandomSource(ThreadPool& pool, std::vector<NewTensor> tensors, DType dtype, std::uint64_t seed);

  std::string name() const override { return "random weights"; }
  bool has(std::string_view tensor) const override { return tensors_.contains(tensor); }
  std::vector<std::string> names() const override;
  std::optional<Shape> shape(std::string_view tensor) const override;
  ConstView read(std::string_view tensor, const Shape& shape) override;
  void release(std::string_view tensor) override;
  Sha256 content_hash(const DigestCache& digests) const override;
  std::optional<std::string> find_changed_file() const override { return std::nullopt; }

 private:
  struct Entry {
    Shape shape;
    Fill fill = Fill::kNormal;
    Tensor made;  // empty until it is read, and after release()
  };

  std::map<std::string, Entry, std::less<>> tensors_;
  ThreadPool* pool_;
  DType dtype_;
  std::uint64_t seed_;
};

}  // namespace caption::weights
