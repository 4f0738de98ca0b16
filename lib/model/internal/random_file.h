// model/internal/random_file.h: a checkpoint of random weights, in memory only.
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

// The tensors one after another behind their header, as a safetensors file has them; kNormal is
// ~ N(0, 0.02), the same for the same seed on any number of threads. The file lives as long as
// something maps or holds it.
class RandomFile {
 public:
  // f32 or bf16. Throws Error(kOutOfMemory) with the size when the system does not give that
  // memory.
  RandomFile(const std::vector<NewTensor>& tensors, DType dtype, std::uint64_t seed);
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  std::filesystem::path path() const;
  // What `store`, opened from path(), has packed becomes zeros that take no memory: weights are
  // held once.
  void forget_packed(const WeightStore& store) const;

 private:
  int descriptor_ = -1;
  std::string first_name_;
  std::size_t header_bytes_ = 0;
};

}  // namespace caption::model
