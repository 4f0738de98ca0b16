// backend/cublas_lt.h: products of matrices by cuBLASLt, NVIDIA's library, beside which the
// benchmarks time the project's own kernels. It is loaded when it is asked for; captions never
// depend on it.
//
// Interface: docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API", of CUDA 12 and 13.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "backend/stream.h"

namespace caption {

namespace internal {
struct CublasLtApi;
}

// y = x * weight^T of row-major matrices without padding: x [rows, columns] and weight [features,
// columns] of 16 bits, y [rows, features] of f32. Sums are of f32.
struct CublasLtShape {
  std::int64_t rows = 1;
  std::int64_t features = 1;
  std::int64_t columns = 1;
  bool is_bf16 = true;  // else f16
};

class CublasLt {
 public:
  // Names of the library, as dlopen() takes them, the newest first.
  static std::span<const char* const> library_names();

  // The library for the current GPU of the calling thread, with the first name that can be loaded.
  // Null when there is none, or when it refuses to start; then `why` is a sentence's end.
  static std::unique_ptr<CublasLt> load(std::span<const char* const> names, std::string* why);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // The algorithms that the library proposes for a shape, the best by its own estimate first.
  class Product;
  // Throws Error(kUnavailable) when it proposes none.
  Product plan(const CublasLtShape& shape) const;

 private:
  CublasLt();

  std::unique_ptr<internal::CublasLtApi> api_;
  void* handle_ = nullptr;
};

// Borrows its CublasLt.
class CublasLt::Product {
 public:
  ~Product();
  Product(Product&& other) noexcept;
  Product& operator=(Product&&) = delete;

  int num_algorithms() const;
  // Gives the GPU's stream a product of memory of the GPU by an algorithm, with a workspace that
  // the stream's next product uses as well. Throws Error(kUnavailable) when the library fails.
  void multiply(Stream& stream, int algorithm, const void* x, const void* weight, float* y) const;

 private:
  friend class CublasLt;
  struct State;
  explicit Product(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace caption
