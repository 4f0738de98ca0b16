// kernels/cpu/attention_tier.h: the inner loops of attention that have one version per instruction
// set. A part of Tier (kernels/cpu/tier.h), and like it includes nothing but <cstdint>.
//
// Keys and values are gathered out of their pages into panels of kPanelColumns columns, so that
// both products of attention are the products of dense layers:
//   scores   a column is a key, the depth runs over head_dim
//   outputs  a column is a dimension of the head, the depth runs over keys
// A panel of f32 is [depth, 32]. One of pairs of bf16 is [ceil(depth / 2), 32, 2], as that of
// packed weights; Tier::panel_gemm takes it.
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

// Rows of pages: row j begins slots[j] * row_bytes behind base.
struct PackArgs {
  const void* base = nullptr;
  std::int64_t row_bytes = 0;
  const std::int64_t* slots = nullptr;  // [count]
  std::int64_t count = 0;               // keys
  std::int64_t dim = 0;                 // elements of a row
  // Written whole: zeros where a value panel has no dimension or no second key of a pair; anything
  // finite or of the last key where a key panel has no key.
  void* panels = nullptr;
  // Rows that will be wanted soon, [count] too, or null: they are asked for along the way, so that
  // memory works while the arithmetic does.
  const void* next_base = nullptr;
  const std::int64_t* next_slots = nullptr;
};

struct FloatPanelArgs {
  const float* a = nullptr;  // [m, depth]
  std::int64_t a_stride = 0;
  const float* panels = nullptr;  // [num_panels, depth, 32]
  std::int64_t depth = 0;
  std::int64_t num_panels = 0;
  float* c = nullptr;  // [m, num_panels * 32]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};

// One row's scores of one block of keys.
struct SoftmaxArgs {
  float* scores = nullptr;          // [count]: to probabilities, not normalised
  const float* factors = nullptr;   // [num_visible]: of the scores
  const float* v_scales = nullptr;  // [num_visible]: of the probabilities after they are summed
  std::int64_t num_visible = 0;     // at least 1; beyond it the probability is 0
  std::int64_t count = 0;
  float max = 0;  // of the blocks before
};
struct SoftmaxResult {
  float max;  // of this block and those before
  float sum;  // of this block's probabilities, exp(score - max)
};

struct PagePacker {
  void (*keys)(const PackArgs& args) = nullptr;    // [ceil(count / 32)] panels, depth dim
  void (*values)(const PackArgs& args) = nullptr;  // [ceil(dim / 32)] panels, depth count
  bool to_pairs = false;                           // panels of pairs of bf16; else of f32
};

struct AttentionTier {  // NOLINT(cppcoreguidelines-pro-type-member-init): as Tier
  PagePacker pack[4];   // by Element
  // c = a * panels^T; every sum runs over the depth in its order.
  void (*float_panel_gemm)(const FloatPanelArgs& args);
  SoftmaxResult (*softmax)(const SoftmaxArgs& args);
  // y = y * factor + x
  void (*scale_add)(float* y, float factor, const float* x, std::int64_t n);
};

// The plain loops.
const AttentionTier& reference_attention();

}  // namespace caption::kernels::cpu
