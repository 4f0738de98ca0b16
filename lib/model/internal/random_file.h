// model/internal/random_file.h: an anonymous checkpoint file in memory with random weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/internal/weight_store.h"
#include "tensor/tensor.h"

namespace caption::model {

enum class Fill { kNormal, kOne, kZero };

struct NewTensor {
  std::string name;
  Shape shape;
  Fill fill = Fill::kNormal;
};

// Contains the tensors one after another behind a safetensors header. kNormal tensors are ~ N(0,
// 0.02), the same for the same seed with any number of threads. The file exists as long as
// something maps it or holds it open.
class RandomFile {
 public:
  // `dtype` is f32 or bf16. Throws Error(kOutOfMemory) with the size when the system refuses the
  // memory.
  RandomFile(const std::vector<NewTensor>& tensors, DType dtype, std::uint64_t seed);
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  std::filesystem::path path() const;
  // Frees the memory of the tensors that `store`, which was opened from path(), has packed, by
  // punching holes over them; they then read as zeros. Without this, weights would be held twice.
  void forget_packed(const WeightStore& store) const;

 private:
  int descriptor_ = -1;
  std::string first_name_;
  std::size_t header_bytes_ = 0;
};

}  // namespace caption::model
