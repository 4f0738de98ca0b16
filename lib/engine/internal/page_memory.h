// engine/internal/page_memory.h: the memory of the KV pages, K and V of every layer.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/buffer.h"
#include "engine/options.h"
#include "kv/page_pool.h"
#include "model/decoder.h"
#include "tensor/tensor.h"

namespace caption::engine {

// Bytes of one page: K and V of all layers; with i8 also a bf16 scale per token and head, for both.
//   2 * num_layers * kPageTokens * num_kv_heads * (head_dim * sizeof(dtype) + (i8 ? 2 : 0))
std::int64_t page_bytes(const model::DecoderSpec& spec, DType dtype);

// Returns the number of pages that fit the options' budget, at most what max_num_seqs sequences of
// max_positions can fill. Throws Error(kOutOfMemory) with the numbers if it is less than two;
// Error(kUsage) for a dtype that pages cannot have.
std::int64_t num_affordable_pages(const model::DecoderSpec& spec, const EngineOptions& options);

// The memory of one page in all layers, on the pages' device.
struct PageParts {
  View kv;      // [2 * num_layers, elements of K or V]: K of each layer, then V of each
  View scales;  // likewise for the scales; empty if the pages have none
};

// Owns K and V, tensors [num_pages, kPageTokens, num_kv_heads, head_dim], and, with i8, their
// scales [num_pages, kPageTokens, num_kv_heads] bf16. The tensors of a kind are in one buffer at
// equal distances, so that one strided copy takes a page of all layers. Contents are uninitialised;
// the system commits memory when it is first written.
class PageMemory {
 public:
  PageMemory(Device device, const model::DecoderSpec& spec, DType dtype, std::int64_t num_pages);
  const model::KvPages& views() const { return views_; }
  PageParts parts_of(kv::PageId page) const;
  // Bytes of a page's parts.
  std::int64_t page_bytes() const { return page_bytes_; }

 private:
  // A buffer of 2 * num_layers tensors.
  struct Tensors {
    Buffer buffer;
    DType dtype = DType::kF32;
    std::int64_t num_tensors = 0;
    std::int64_t page_elements = 0;
    std::int64_t stride = 0;  // elements from a tensor to the next

    View page(std::int64_t page) const;
  };
  static Tensors allocate(Device device, DType dtype, std::int64_t num_tensors, const Shape& shape);
  static std::vector<View> views_of(const Tensors& tensors, std::int64_t first, const Shape& shape);

  Tensors kv_;
  Tensors scales_;
  std::int64_t page_bytes_ = 0;
  model::KvPages views_;
};

}  // namespace caption::engine
