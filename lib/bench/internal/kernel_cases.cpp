#include "bench/internal/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/math.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/vision_embed.h"
#include "kv/page_pool.h"
#include "plan/kv_dtype_name.h"

namespace caption::bench {
namespace {

constexpr float kEpsilon = 1e-6F;

float attention_scale(std::int64_t head_dim) {
  return 1.0F / std::sqrt(static_cast<float>(head_dim));
}

Tensor ascending(std::int64_t count, std::int64_t step) {
  Tensor tensor(DType::kI32, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * step);
  }
  return tensor;
}

Tensor filled(std::int64_t count, std::int64_t value) {
  Tensor tensor(DType::kI32, {count});
  std::fill_n(tensor.as<std::int32_t>(), count, static_cast<std::int32_t>(value));
  return tensor;
}

// The KV pages of several sequences, written once; each copy is another layer.
class Pages {
 public:
  Pages(KernelTimer& timer, const model::DecoderSpec& shape, DType dtype, std::int64_t batch)
      : context_tokens_(timer.options().context_tokens),
        pages_each_(kv::pages_for_tokens(context_tokens_)),
        batch_(batch),
        lens_(filled(batch, context_tokens_)),
        tables_(ascending(batch * pages_each_, 1)) {
    const Shape extents = {batch * pages_each_, kv::kPageTokens, shape.num_kv_heads,
                           shape.head_dim};
    const Shape scales = {extents[0], extents[1], extents[2]};
    const std::int64_t copies = timer.num_copies(static_cast<std::int64_t>(bytes(shape, dtype)));
    const std::int64_t num_slots = extents[0] * extents[1];
    const Tensor vectors =
        random_tensor(DType::kF32, {num_slots, shape.num_kv_heads, shape.head_dim});
    const Tensor slots = ascending(num_slots, 1);
    tensors_.reserve(static_cast<std::size_t>(4 * copies));
    for (std::int64_t i = 0; i < copies; ++i) {
      kernels::KvLayer layer;
      layer.k = tensors_.emplace_back(dtype, extents).view();
      layer.v = tensors_.emplace_back(dtype, extents).view();
      if (dtype == DType::kI8) {
        layer.k_scales = tensors_.emplace_back(DType::kBF16, scales).view();
        layer.v_scales = tensors_.emplace_back(DType::kBF16, scales).view();
      }
      kernels::kv_write(timer.stream(), vectors.view(), vectors.view(), slots.view(), layer);
      layers_.push_back(layer);
    }
  }

  // Bytes of K and V of all contexts in one layer, scales included.
  double bytes(const model::DecoderSpec& shape, DType dtype) const {
    const std::int64_t vector_bytes =
        shape.head_dim * static_cast<std::int64_t>(dtype_size_bytes(dtype)) +
        (dtype == DType::kI8 ? 2 : 0);
    return as_double(2 * batch_ * context_tokens_ * shape.num_kv_heads * vector_bytes);
  }
  // The attention context of the layer chosen by `turn`; each sequence has the same number of new
  // rows.
  kernels::PagedContext context(std::int64_t turn, const Tensor& cu_seqlens) const {
    const kernels::KvLayer& layer = layers_[static_cast<std::size_t>(turn % std::ssize(layers_))];
    return {.k_pages = layer.k,
            .v_pages = layer.v,
            .cu_seqlens = cu_seqlens.view(),
            .context_lens = lens_.view(),
            .block_tables = tables_.view().reshape({batch_, pages_each_}),
            .k_scales = layer.k_scales,
            .v_scales = layer.v_scales};
  }

 private:
  std::int64_t context_tokens_;
  std::int64_t pages_each_;
  std::int64_t batch_;
  Tensor lens_;
  Tensor tables_;
  std::vector<Tensor> tensors_;
  std::vector<kernels::KvLayer> layers_;
};

// Times attention with `rows` new rows in each of `batch` sequences.
void bench_paged_attention(KernelTimer& timer, const model::DecoderSpec& shape, DType dtype,
                           std::int64_t batch, std::int64_t rows) {
  const Pages pages(timer, shape, dtype, batch);
  const std::int64_t tokens = batch * rows;
  const std::int64_t context = timer.options().context_tokens;
  const Tensor q = random_tensor(DType::kF32, {tokens, shape.num_heads, shape.head_dim});
  Tensor y(DType::kF32, q.shape());
  const Tensor cu_seqlens = ascending(batch + 1, rows);
  // Row i of the last `rows` rows attends to context - rows + i + 1 keys.
  const double attended = as_double(batch * rows) * as_double(2 * context - rows + 1) / 2;
  KernelRow row{.operation = rows == 1 ? "attention, decoding" : "attention, prompt",
                .setting = std::string(plan::kv_dtype_name(dtype)) + " KV, batch " +
                           std::to_string(batch) + " of " + std::to_string(context),
                .tokens = tokens};
  row.bytes = pages.bytes(shape, dtype) + as_double(2 * 4 * tokens * shape.q_dim());
  row.flops = 4 * as_double(shape.q_dim()) * attended;
  row.operands = Operands::k16Bits;
  timer.add(std::move(row), [&](std::int64_t turn) {
    kernels::paged_attention(timer.stream(), q.view(), pages.context(turn, cu_seqlens),
                             attention_scale(shape.head_dim), y.view());
  });
}

// Times the operations between the matrices, over activations of `tokens` rows.
void bench_element_wise(KernelTimer& timer, const model::DecoderSpec& shape, std::int64_t tokens) {
  Stream& stream = timer.stream();
  const auto row = [&](const char* operation, double bytes, double flops) {
    return KernelRow{
        .operation = operation, .setting = "f32", .tokens = tokens, .bytes = bytes, .flops = flops};
  };
  const double hidden = as_double(tokens * shape.hidden);
  const double heads = as_double(tokens * shape.q_dim());

  const Tensor x = random_tensor(DType::kF32, {tokens, shape.hidden});
  const Tensor weight = random_tensor(DType::kBF16, {shape.hidden});
  Tensor y(DType::kF32, x.shape());
  timer.add(row("rms_norm", 8 * hidden + 2 * as_double(shape.hidden), 4 * hidden),
            [&](std::int64_t) {
              kernels::rms_norm(stream, x.view(), weight.view(), kEpsilon, y.view());
            });

  Tensor q = random_tensor(DType::kF32, {tokens, shape.num_heads, shape.head_dim});
  Tensor table(DType::kF32, {tokens, shape.head_dim});
  const Tensor frequencies = random_tensor(DType::kF32, {shape.head_dim / 2});
  kernels::rope_table(stream,
                      {.positions = ascending(tokens, 1).view(), .inv_freq = frequencies.view()},
                      table.view());
  timer.add(row("rope", 8 * heads + 4 * as_double(tokens * shape.head_dim), 3 * heads),
            [&](std::int64_t) { kernels::rope(stream, table.view(), q.view()); });
}

// Sets of ids, each of `tokens` rows of a table: all rows in a random order, so that none comes
// again before every other one has.
Tensor draw_ids(std::int64_t rows, std::int64_t tokens) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  Tensor ids(DType::kI32, {rows / tokens, tokens});
  std::copy_n(order.begin(), ids.num_elements(), ids.as<std::int32_t>());
  return ids;
}

void bench_embedding(KernelTimer& timer, const model::DecoderSpec& shape, std::int64_t tokens) {
  // The rows exceed the caches together if the vocabulary has as many.
  const std::int64_t row_bytes = 2 * shape.hidden;
  const std::int64_t rows = std::max(
      tokens, std::min(shape.vocab, divide_up(timer.options().working_set_bytes, row_bytes)));
  const Tensor table = random_tensor(DType::kBF16, {rows, shape.hidden});
  const Tensor ids = draw_ids(rows, tokens);
  Tensor y(DType::kF32, {tokens, shape.hidden});
  KernelRow row{.operation = "embedding", .setting = "bf16", .tokens = tokens};
  row.bytes = 6 * as_double(tokens * shape.hidden);
  timer.add(std::move(row), [&](std::int64_t turn) {
    const ConstView set = ids.view().rows(turn % ids.dim(0), 1).reshape({tokens});
    kernels::embedding(timer.stream(), set, table.view(), y.view());
  });
}

void bench_patches(KernelTimer& timer, const model::VisionSpec& shape) {
  const Tensor pixels = random_tensor(DType::kF32, {1, 3, shape.image_px, shape.image_px});
  const std::int64_t grid = shape.image_px / shape.patch_px;
  Tensor columns(DType::kF32, {grid * grid, 3 * shape.patch_px * shape.patch_px});
  KernelRow row{.operation = "im2col_patches", .setting = "f32", .tokens = grid * grid};
  row.bytes = 8 * as_double(columns.num_elements());
  timer.add(std::move(row), [&](std::int64_t) {
    kernels::im2col_patches(timer.stream(), pixels.view(), shape.patch_px, columns.view());
  });
}

void bench_dense_attention(KernelTimer& timer, const model::VisionSpec& shape,
                           std::int64_t tokens) {
  const Shape extents = {tokens, shape.num_heads, shape.hidden / shape.num_heads};
  const Tensor qkv = random_tensor(DType::kF32, extents);
  const Tensor keys = qkv.clone();
  const Tensor values = qkv.clone();
  Tensor y(DType::kF32, extents);
  KernelRow row{.operation = "attention, image", .setting = "f32", .tokens = tokens};
  row.bytes = 16 * as_double(tokens * shape.hidden);
  row.flops = 4 * as_double(shape.hidden) * as_double(tokens * tokens);
  timer.add(std::move(row), [&](std::int64_t) {
    kernels::attention(timer.stream(),
                       {.q = qkv.view(),
                        .k = keys.view(),
                        .v = values.view(),
                        .seq_len = tokens,
                        .scale = attention_scale(extents[2])},
                       y.view());
  });
}

void bench_layer_norm(KernelTimer& timer, const model::VisionSpec& shape, std::int64_t tokens) {
  const Tensor x = random_tensor(DType::kF32, {tokens, shape.hidden});
  const Tensor weight = random_tensor(DType::kBF16, {shape.hidden});
  Tensor y(DType::kF32, x.shape());
  KernelRow row{.operation = "layer_norm", .setting = "f32", .tokens = tokens};
  row.bytes = 8 * as_double(x.num_elements()) + 4 * as_double(shape.hidden);
  row.flops = 7 * as_double(x.num_elements());
  timer.add(std::move(row), [&](std::int64_t) {
    kernels::layer_norm(timer.stream(), x.view(), weight.view(), weight.view(), kEpsilon, y.view());
  });
}

}  // namespace

void bench_text(KernelTimer& timer, const model::DecoderSpec& shape) {
  const std::vector<std::int64_t>& rows = timer.options().tokens;
  const model::LinearSpec of_attention{.out = shape.q_dim() + 2 * shape.kv_dim(),
                                       .in = shape.hidden};
  bench_linear(timer, "q, k, v", of_attention, rows);
  bench_linear(timer, "o", {.out = shape.hidden, .in = shape.q_dim()}, rows);
  bench_swiglu(timer, {.out = shape.intermediate, .in = shape.hidden}, rows);
  bench_linear(timer, "down", {.out = shape.hidden, .in = shape.intermediate}, rows);
  bench_linear(timer, "lm_head", {.out = shape.vocab, .in = shape.hidden}, rows);
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    for (const std::int64_t batch : timer.options().batches) {
      bench_paged_attention(timer, shape, dtype, batch, 1);
    }
    bench_paged_attention(timer, shape, dtype, 1, timer.options().context_tokens);
  }
  for (const std::int64_t tokens : timer.options().tokens) {
    bench_element_wise(timer, shape, tokens);
    bench_embedding(timer, shape, tokens);
  }
}

bool takes_fixed_frames(const model::VisionSpec& shape) {
  return shape.image_px > 0 && shape.frames_per_image == 1;
}

void bench_vision(KernelTimer& timer, const model::VisionSpec& shape) {
  const std::int64_t tokens = model::tower_tokens(shape, {});
  bench_patches(timer, shape);
  bench_linear(timer, "patches", {.out = shape.hidden, .in = shape.patch_values()},
               {tokens - shape.class_tokens});
  bench_linear(timer, "q, k, v", {.out = 3 * shape.hidden, .in = shape.hidden}, {tokens});
  bench_linear(timer, "o", {.out = shape.hidden, .in = shape.hidden}, {tokens});
  bench_linear(timer, "fc1", {.out = shape.intermediate, .in = shape.hidden}, {tokens});
  bench_linear(timer, "fc2", {.out = shape.hidden, .in = shape.intermediate}, {tokens});
  bench_dense_attention(timer, shape, tokens);
  bench_layer_norm(timer, shape, tokens);
}

}  // namespace caption::bench
