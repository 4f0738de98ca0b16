#include "engine/internal/page_memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "base/units.h"
#include "kv/page_pool.h"
#include "scheduler/scheduler.h"

namespace caption::engine {
namespace {

// Slot numbers are int32 (kv/page_pool.h), also those of one page more (StepRunner).
constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kv::kPageTokens - 1;
constexpr DType kScaleDType = DType::kBF16;

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
  return std::min({num_pages, std::max(most_used, scheduler::kLeastPoolPages), kMaxPages});
}

PageMemory::PageMemory(Device device, const model::DecoderSpec& spec, DType dtype,
                       std::int64_t num_pages) {
  const Shape shape{num_pages, kv::kPageTokens, spec.num_kv_heads, spec.head_dim};
  views_.page_tokens = kv::kPageTokens;
  const Shape scales{num_pages, kv::kPageTokens, spec.num_kv_heads};
  tensors_.reserve(static_cast<std::size_t>(4 * spec.num_layers));
  // Small pages: a huge page per tensor would commit megabytes in every layer for the first token.
  const auto add = [&](std::vector<View>& views, DType element, const Shape& extents) {
    views.push_back(tensors_.emplace_back(element, extents, device, Paging::kSmall).view());
  };
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    add(views_.k, dtype, shape);
    add(views_.v, dtype, shape);
    if (dtype != DType::kI8) continue;
    add(views_.k_scales, kScaleDType, scales);
    add(views_.v_scales, kScaleDType, scales);
  }
}

}  // namespace caption::engine
