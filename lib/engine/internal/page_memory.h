// engine/internal/page_memory.h: the memory of the KV pages, K and V of every layer.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/options.h"
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

// Owns the tensors [num_pages, kPageTokens, num_kv_heads, head_dim] and, with i8, their scales
// [num_pages, kPageTokens, num_kv_heads] bf16. Contents are uninitialised; the system commits
// memory when it is first written.
class PageMemory {
 public:
  PageMemory(Device device, const model::DecoderSpec& spec, DType dtype, std::int64_t num_pages);
  const model::KvPages& views() const { return views_; }

 private:
  std::vector<Tensor> tensors_;
  model::KvPages views_;
};

}  // namespace caption::engine
