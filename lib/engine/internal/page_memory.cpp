#include "engine/internal/page_memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "base/math.h"
#include "base/units.h"
#include "engine/self_draft.h"
#include "kv/page_pool.h"
#include "scheduler/scheduler.h"

namespace caption::engine {
namespace {

// Slot numbers are int32 (kv/page_pool.h), also those of pages besides the pool's (StepRunner).
constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kv::kPageTokens - 1;
constexpr DType kScaleDType = DType::kBF16;
// A tensor begins at a multiple of so many bytes in its buffer, as memory that CUDA allocates does.
constexpr std::int64_t kTensorAlignment = 256;

bool can_hold_pages(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kI8;
}

}  // namespace

std::int64_t page_bytes(const model::DecoderSpec& spec, DType dtype) {
  return kv::kPageTokens * model::kv_token_bytes(spec, dtype);
}

std::int64_t num_affordable_pages(const model::DecoderSpec& spec, const EngineOptions& options) {
  if (!can_hold_pages(options.kv_dtype)) {
    throw Error(ErrorCode::kUsage, "engine: KV pages of " +
                                       std::string(dtype_name(options.kv_dtype)) +
                                       " are not known; use f32, bf16, f16 or i8");
  }
  const std::int64_t bytes = page_bytes(spec, options.kv_dtype);
  CAPTION_CHECK(bytes > 0 && spec.max_positions > 0,
                "engine: the model has no layers, heads or positions");
  const std::int64_t num_pages = options.kv_cache_bytes / bytes;
  if (num_pages < scheduler::kLeastPoolPages) {
    throw Error(ErrorCode::kOutOfMemory,
                "engine: a KV cache of " + format_bytes(options.kv_cache_bytes) + " holds " +
                    counted(std::max<std::int64_t>(num_pages, 0), "page") + " of " +
                    std::to_string(kv::kPageTokens) + " tokens (" + format_bytes(bytes) +
                    " each); at least " + std::to_string(scheduler::kLeastPoolPages) +
                    " are needed; raise --kv-cache-bytes");
  }
  const std::int64_t most_used = options.max_num_seqs * kv::pages_for_tokens(spec.max_positions);
  return std::min({num_pages, std::max(most_used, scheduler::kLeastPoolPages),
                   kMaxPages - num_guess_pages(options)});
}

std::int64_t kv_pool_bytes(const model::DecoderSpec& spec, const EngineOptions& options) {
  return num_affordable_pages(spec, options) * page_bytes(spec, options.kv_dtype);
}

PageMemory::Tensors PageMemory::allocate(Device device, DType dtype, std::int64_t num_tensors,
                                         const Shape& shape) {
  Tensors tensors;
  tensors.dtype = dtype;
  tensors.num_tensors = num_tensors;
  tensors.page_elements = shape.num_elements() / shape[0];
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(dtype));
  const std::int64_t alignment = kTensorAlignment / size;
  tensors.stride = divide_up(shape.num_elements(), alignment) * alignment;
  // Small pages: huge ones would commit megabytes in every layer for the first token.
  tensors.buffer =
      Buffer(device, static_cast<std::size_t>(num_tensors * tensors.stride * size), Paging::kSmall);
  return tensors;
}

std::vector<View> PageMemory::views_of(const Tensors& tensors, std::int64_t first,
                                       const Shape& shape) {
  std::vector<View> views;
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(tensors.dtype));
  for (std::int64_t i = first; i < first + tensors.num_tensors / 2; ++i) {
    views.emplace_back(tensors.buffer.begin() + i * tensors.stride * size, tensors.dtype, shape,
                       tensors.buffer.device());
  }
  return views;
}

View PageMemory::Tensors::page(std::int64_t page) const {
  const auto size = static_cast<std::int64_t>(dtype_size_bytes(dtype));
  return View(buffer.begin() + page * page_elements * size, dtype, {num_tensors, page_elements},
              stride, buffer.device());
}

PageMemory::PageMemory(Device device, const model::DecoderSpec& spec, DType dtype,
                       std::int64_t num_pages)
    : page_bytes_(engine::page_bytes(spec, dtype)) {
  const Shape shape{num_pages, kv::kPageTokens, spec.num_kv_heads, spec.head_dim};
  views_.page_tokens = kv::kPageTokens;
  kv_ = allocate(device, dtype, 2 * spec.num_layers, shape);
  views_.k = views_of(kv_, 0, shape);
  views_.v = views_of(kv_, spec.num_layers, shape);
  if (dtype != DType::kI8) return;
  const Shape scales{num_pages, kv::kPageTokens, spec.num_kv_heads};
  scales_ = allocate(device, kScaleDType, 2 * spec.num_layers, scales);
  views_.k_scales = views_of(scales_, 0, scales);
  views_.v_scales = views_of(scales_, spec.num_layers, scales);
}

PageParts PageMemory::parts_of(kv::PageId page) const {
  const auto idx = static_cast<std::int64_t>(page);
  return {.kv = kv_.page(idx), .scales = scales_.num_tensors > 0 ? scales_.page(idx) : View()};
}

}  // namespace caption::engine
