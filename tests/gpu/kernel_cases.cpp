#include "tests/gpu/kernel_cases.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/attention.h"
#include "kernels/beam_candidates.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/paged_attention.h"
#include "kernels/rope.h"
#include "kernels/sample_rows.h"
#include "kernels/swiglu.h"
#include "kernels/vision_embed.h"
#include "tests/gpu/operands.h"

namespace caption::testing {
namespace {

using kernels::Weight;
using kernels::cuda::kGpusOfE4M3;

std::string text(std::int64_t number) { return std::to_string(number); }

Tensor f32_on_device(Stream& stream, const Shape& shape) {
  return Tensor(DType::kF32, shape, stream.device());
}

// ---- dense layers ----

constexpr std::int64_t kFeatures = 83;
constexpr std::int64_t kColumns = 1090;  // a whole slice of 1,024 columns and a part of one

Tensor run_linear(Stream& stream, Form form, std::int64_t rows) {
  const Weight weight = place(stream, form, kFeatures, kColumns);
  const Tensor x = to_device(stream, numbers({rows, kColumns}, 21));
  const Tensor bias = to_device(stream, numbers({kFeatures}, 22));
  Tensor y = f32_on_device(stream, {rows, kFeatures});
  kernels::linear(stream, x.view(), weight, bias.view(), y.view());
  return to_host(stream, y);
}

void add_linear(int compute_capability, std::vector<KernelCase>& cases) {
  for (const NamedForm& form : kForms) {
    if (!form.gpus.contains(compute_capability)) continue;
    for (const std::int64_t rows : {1, 7, 33, 70}) {
      cases.push_back({"linear " + std::string(form.name) + ", " + text(rows) + " rows",
                       [form, rows](Stream& s) { return run_linear(s, form.form, rows); }});
    }
  }
}

// So many features and rows that blocks of many rows are the large ones, of 16 bits on Hopper those
// of warpgroups.
struct ManyFeatures {
  NamedForm form;
  std::int64_t rows;
  std::int64_t columns;
};
constexpr ManyFeatures kManyFeatures[] = {
    {{Form::kTiles, "16 bits"}, 380, 29}, {{Form::kInt8, "int8"}, 98, 61},
    {{Form::kInt4, "int4"}, 98, 61},      {{Form::kNf4, "nf4"}, 98, 61},
    {{Form::kInt8Row, "w8a8"}, 390, 29},  {{Form::kE4M3Row, "fp8", kGpusOfE4M3}, 390, 29}};

Tensor run_many_features(Stream& stream, const ManyFeatures& many) {
  constexpr std::int64_t kFeaturesOfLarge = 6100;
  const Weight weight = place(stream, many.form.form, kFeaturesOfLarge, many.columns);
  const Tensor x = to_device(stream, numbers({many.rows, many.columns}, 29));
  Tensor y = f32_on_device(stream, {many.rows, kFeaturesOfLarge});
  kernels::linear(stream, x.view(), weight, ConstView{}, y.view());
  return to_host(stream, y);
}

void add_many_features(int compute_capability, std::vector<KernelCase>& cases) {
  for (const ManyFeatures& many : kManyFeatures) {
    if (!many.form.gpus.contains(compute_capability)) continue;
    cases.push_back({"linear " + std::string(many.form.name) + " of 6,100 features",
                     [many](Stream& s) { return run_many_features(s, many); }});
  }
}

using Epilogue = void (*)(Stream&, ConstView, const Weight&, ConstView, View);
struct NamedEpilogue {
  const char* name;
  Epilogue apply;
};
constexpr NamedEpilogue kEpilogues[] = {{"add", kernels::linear_add},
                                        {"gelu", kernels::linear_gelu},
                                        {"gelu tanh", kernels::linear_gelu_tanh},
                                        {"quick gelu", kernels::linear_quick_gelu},
                                        {"silu", kernels::linear_silu},
                                        {"relu", kernels::linear_relu}};

Tensor run_epilogue(Stream& stream, const NamedEpilogue& epilogue, Form form) {
  constexpr std::int64_t kRows = 20;
  const Weight weight = place(stream, form, kFeatures, kColumns);
  const Tensor x = to_device(stream, numbers({kRows, kColumns}, 23));
  const Tensor bias = to_device(stream, numbers({kFeatures}, 24));
  Tensor y = to_device(stream, numbers({kRows, kFeatures}, 25));
  epilogue.apply(stream, x.view(), weight, bias.view(), y.view());
  return to_host(stream, y);
}

Tensor run_swiglu_layer(Stream& stream, Form form) {
  constexpr std::int64_t kRows = 20;
  const Weight weight = place(stream, form, kFeatures, kColumns);
  const Tensor x = to_device(stream, numbers({kRows, kColumns}, 26));
  const Tensor biases[] = {to_device(stream, numbers({kFeatures}, 27)),
                           to_device(stream, numbers({kFeatures}, 28))};
  Tensor y = f32_on_device(stream, {kRows, kFeatures});
  kernels::linear_swiglu(stream, x.view(), {weight, biases[0].view()}, {weight, biases[1].view()},
                         y.view());
  return to_host(stream, y);
}

void add_epilogues(std::vector<KernelCase>& cases) {
  for (const NamedForm& form : {NamedForm{Form::kTiles, "16 bits"}, {Form::kInt4, "int4"}}) {
    const std::string ending = " " + std::string(form.name);
    for (const NamedEpilogue& epilogue : kEpilogues) {
      cases.push_back({"linear " + std::string(epilogue.name) + ending,
                       [=](Stream& s) { return run_epilogue(s, epilogue, form.form); }});
    }
    cases.push_back(
        {"linear swiglu" + ending, [=](Stream& s) { return run_swiglu_layer(s, form.form); }});
  }
}

// ---- norms, rotation, activation, look-up ----

Tensor run_rms_norm(Stream& stream, const Shape& shape) {
  const Tensor x = to_device(stream, numbers(shape, 31));
  const Tensor weight = to_device(stream, numbers_of(DType::kBF16, {shape[shape.rank() - 1]}, 32));
  Tensor y = f32_on_device(stream, shape);
  kernels::rms_norm(stream, x.view(), weight.view(), 1e-6F, y.view());
  return to_host(stream, y);
}

Tensor run_layer_norm(Stream& stream) {
  const Tensor x = to_device(stream, numbers({5, 1031}, 33));
  const Tensor weight = to_device(stream, numbers({1031}, 34));
  const Tensor bias = to_device(stream, numbers({1031}, 35));
  Tensor y = f32_on_device(stream, {5, 1031});
  kernels::layer_norm(stream, x.view(), weight.view(), bias.view(), 1e-5F, y.view());
  return to_host(stream, y);
}

Tensor run_rope(Stream& stream) {
  constexpr std::int64_t kTokens = 9;
  constexpr std::int64_t kHalf = 48;
  std::vector<std::int32_t> at;
  for (std::int32_t i = 0; i < kTokens; ++i) at.push_back(i * i * 577);
  Tensor frequencies(DType::kF32, {kHalf});
  for (std::int64_t i = 0; i < kHalf; ++i) {
    frequencies.as<float>()[i] = std::ldexp(1.0F, -static_cast<int>(i) / 3);
  }
  const Tensor positions = to_device(stream, indices(at));
  const Tensor inv_freq = to_device(stream, frequencies);
  Tensor table = f32_on_device(stream, {kTokens, 2 * kHalf});
  kernels::rope_table(stream, {.positions = positions.view(), .inv_freq = inv_freq.view()},
                      table.view());
  Tensor x = to_device(stream, numbers({kTokens, 3, 2 * kHalf}, 36));
  kernels::rope(stream, std::as_const(table).view(), x.view());
  return to_host(stream, x);
}

Tensor run_swiglu(Stream& stream) {
  const Tensor gate = to_device(stream, numbers({7, 333}, 37));
  const Tensor up = to_device(stream, numbers({7, 333}, 38));
  Tensor y = f32_on_device(stream, {7, 333});
  kernels::swiglu(stream, gate.view(), up.view(), y.view());
  return to_host(stream, y);
}

Tensor run_embedding(Stream& stream) {
  const Tensor ids = to_device(stream, indices({3, 0, 70, 3}));
  const Weight table =
      kernels::place_stored(stream, numbers_of(DType::kBF16, {71, 333}, 39).view());
  Tensor y = f32_on_device(stream, {4, 333});
  kernels::embedding(stream, ids.view(), table, y.view());
  return to_host(stream, y);
}

Tensor run_patches(Stream& stream) {
  const Tensor pixels = to_device(stream, numbers({2, 3, 30, 45}, 40));
  Tensor y = f32_on_device(stream, {2 * 2 * 3, 3 * 14 * 14});
  kernels::im2col_patches(stream, pixels.view(), 14, y.view());
  return to_host(stream, y);
}

// ---- attention ----

Tensor run_vision_attention(Stream& stream, DType dtype, std::int64_t head_dim) {
  constexpr std::int64_t kTokens = 71;
  const Shape shape = {2 * kTokens, 3, head_dim};
  const Tensor q = to_device(stream, numbers(shape, 41));
  const Tensor k = to_device(stream, numbers_of(dtype, shape, 42));
  const Tensor v = to_device(stream, numbers_of(dtype, shape, 43));
  Tensor y = f32_on_device(stream, shape);
  kernels::attention(stream,
                     {.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .seq_len = kTokens,
                      .scale = 1 / std::sqrt(static_cast<float>(head_dim))},
                     y.view());
  return to_host(stream, y);
}

// A chunk of a prompt, a decoding row past 256 positions and a short one, with the pages in
// reverse order.
struct PagedBatch {
  static constexpr std::int64_t kPageTokens = 16;
  static constexpr std::int64_t kMaxPages = 19;
  std::vector<std::int32_t> cu_seqlens = {0, 37, 38, 40};
  std::vector<std::int32_t> context_lens = {53, 301, 2};
  std::vector<std::int32_t> all_slots;  // the slot of every token of every sequence
  Tensor block_tables{DType::kI32, {3, kMaxPages}};

  PagedBatch() {
    auto* const tables = block_tables.as<std::int32_t>();
    for (std::int32_t s = 0; s < 3; ++s) {
      for (std::int32_t p = 0; p < kMaxPages; ++p) {
        tables[s * kMaxPages + p] = static_cast<std::int32_t>(3 * kMaxPages - 1) - (3 * p + s);
      }
      for (std::int32_t i = 0; i < context_lens[static_cast<std::size_t>(s)]; ++i) {
        const std::int64_t first = tables[s * kMaxPages + i / kPageTokens] * kPageTokens;
        all_slots.push_back(static_cast<std::int32_t>(first + i % kPageTokens));
      }
    }
  }
};

Tensor run_paged_attention(Stream& stream, DType dtype, std::int64_t head_dim) {
  constexpr std::int64_t kHeads = 6;
  constexpr std::int64_t kKvHeads = 2;
  const PagedBatch batch;
  const std::int64_t pages = 3 * PagedBatch::kMaxPages;
  const Shape of_pages = {pages, PagedBatch::kPageTokens, kKvHeads, head_dim};
  const bool is_scaled = dtype == DType::kI8;
  const auto zeros = [&](DType of, const Shape& shape) {
    return Tensor::zeros(of, shape, stream.device());
  };
  Tensor k_pages = zeros(dtype, of_pages);
  Tensor v_pages = zeros(dtype, of_pages);
  const Shape of_scales = {pages, PagedBatch::kPageTokens, kKvHeads};
  Tensor k_scales = is_scaled ? zeros(DType::kBF16, of_scales) : Tensor();
  Tensor v_scales = is_scaled ? zeros(DType::kBF16, of_scales) : Tensor();
  const auto scales_of = [&](Tensor& scales) { return is_scaled ? scales.view() : View(); };
  const auto tokens = static_cast<std::int64_t>(batch.all_slots.size());
  const Tensor k = to_device(stream, numbers({tokens, kKvHeads, head_dim}, 51));
  const Tensor v = to_device(stream, numbers({tokens, kKvHeads, head_dim}, 52));
  const Tensor slots = to_device(stream, indices(batch.all_slots));
  kernels::kv_write(stream, k.view(), v.view(), slots.view(),
                    {.k = k_pages.view(),
                     .v = v_pages.view(),
                     .k_scales = scales_of(k_scales),
                     .v_scales = scales_of(v_scales)});
  const Tensor cu_seqlens = to_device(stream, indices(batch.cu_seqlens));
  const Tensor context_lens = to_device(stream, indices(batch.context_lens));
  const Tensor block_tables = to_device(stream, batch.block_tables);
  const Shape of_rows = {batch.cu_seqlens.back(), kHeads, head_dim};
  const Tensor q = to_device(stream, numbers(of_rows, 53));
  Tensor y = f32_on_device(stream, of_rows);
  kernels::paged_attention(stream, q.view(),
                           {.k_pages = k_pages.view(),
                            .v_pages = v_pages.view(),
                            .cu_seqlens = cu_seqlens.view(),
                            .context_lens = context_lens.view(),
                            .block_tables = block_tables.view(),
                            .k_scales = scales_of(k_scales),
                            .v_scales = scales_of(v_scales)},
                           1 / std::sqrt(static_cast<float>(head_dim)), y.view());
  return to_host(stream, y);
}

void add_attention(std::vector<KernelCase>& cases) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::int64_t head_dim : {64, 72, 80, 96, 128}) {
      cases.push_back(
          {"attention of frames " + std::string(dtype_name(dtype)) + ", head_dim " + text(head_dim),
           [=](Stream& s) { return run_vision_attention(s, dtype, head_dim); }});
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const std::int64_t head_dim : {64, 128}) {
      cases.push_back({"attention over pages " + std::string(dtype_name(dtype)) + ", head_dim " +
                           text(head_dim),
                       [=](Stream& s) { return run_paged_attention(s, dtype, head_dim); }});
    }
  }
}

// ---- sampling ----

Tensor run_sampling(Stream& stream) {
  constexpr std::int64_t kVocab = 1501;
  using kernels::RowSampling;
  const std::vector<RowSampling> rows = {{},  // the largest logit
                                         {.seed = 20, .draw = 3, .temperature = 0.7F, .top_k = 50},
                                         {.seed = 20, .draw = 4, .top_p = 0.9, .temperature = 1.3F},
                                         {.seed = 7,
                                          .draw = 9,
                                          .top_p = 0.8,
                                          .temperature = 0.9F,
                                          .repetition_penalty = 1.1F,
                                          .top_k = 200,
                                          .no_repeat_ngram_size = 2,
                                          .num_ids = 6},
                                         {.seed = 99, .temperature = 1.0F}};
  const auto count = static_cast<std::int64_t>(rows.size());
  Tensor bytes(DType::kI8, {count, kernels::kRowSamplingBytes});
  std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
  Tensor wide = numbers({count, kVocab}, 61);
  for (std::int64_t i = 0; i < wide.num_elements(); ++i) wide.as<float>()[i] *= 6;
  const Tensor logits = to_device(stream, wide);
  const Tensor of_rows = to_device(stream, bytes);
  const Tensor ids = to_device(stream, indices({5, 9, 5, 1300, 9, 5}));
  Tensor tokens(DType::kI32, {count}, stream.device());
  kernels::sample_rows(stream, {.logits = logits.view(), .rows = of_rows.view(), .ids = ids.view()},
                       tokens.view());
  return to_host(stream, tokens);
}

Tensor run_beams(Stream& stream) {
  constexpr std::int64_t kVocab = 1501;
  constexpr std::int64_t kCandidates = 9;
  using kernels::BeamRow;
  const std::vector<BeamRow> rows = {{.num_candidates = 5},
                                     {},  // a row without a beam
                                     {.score = -3.5F,
                                      .repetition_penalty = 1.1F,
                                      .no_repeat_ngram_size = 2,
                                      .num_ids = 6,
                                      .first_banned = 3,
                                      .num_banned = 1,
                                      .num_candidates = kCandidates}};
  const auto count = static_cast<std::int64_t>(rows.size());
  Tensor bytes(DType::kI8, {count, kernels::kBeamRowBytes});
  std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
  Tensor wide = numbers({count, kVocab}, 62);
  for (std::int64_t i = 0; i < wide.num_elements(); ++i) wide.as<float>()[i] *= 6;
  const Tensor logits = to_device(stream, wide);
  const Tensor of_rows = to_device(stream, bytes);
  const Tensor ids = to_device(stream, indices({5, 9, 5, 1300, 9, 5}));
  Tensor best(DType::kI8, {count, kCandidates, kernels::kBeamCandidateBytes}, stream.device());
  kernels::beam_candidates(
      stream, {.logits = logits.view(), .rows = of_rows.view(), .ids = ids.view()}, best.view());
  return to_host(stream, best);
}

}  // namespace

std::vector<KernelCase> kernel_cases(int compute_capability) {
  std::vector<KernelCase> cases;
  add_linear(compute_capability, cases);
  add_many_features(compute_capability, cases);
  add_epilogues(cases);
  add_attention(cases);
  cases.push_back({"rms_norm", [](Stream& s) { return run_rms_norm(s, {5, 1030}); }});
  cases.push_back({"rms_norm of heads", [](Stream& s) { return run_rms_norm(s, {3, 7, 96}); }});
  cases.push_back({"layer_norm", run_layer_norm});
  cases.push_back({"rope", run_rope});
  cases.push_back({"swiglu", run_swiglu});
  cases.push_back({"embedding", run_embedding});
  cases.push_back({"im2col_patches", run_patches});
  cases.push_back({"sample_rows", run_sampling});
  cases.push_back({"beam_candidates", run_beams});
  return cases;
}

std::vector<TimedLayer> timed_layers(Stream& stream) {
  constexpr std::int64_t kWidth = 4096;
  std::vector<TimedLayer> layers;
  for (const NamedForm& form : {NamedForm{Form::kTiles, "16 bits"},
                                {Form::kInt8, "int8"},
                                {Form::kInt8Row, "w8a8"},
                                {Form::kInt4, "int4"},
                                {Form::kNf4, "nf4"},
                                {Form::kE4M3Row, "fp8", kGpusOfE4M3}}) {
    if (!form.gpus.contains(stream.context().compute_capability)) continue;
    const auto weight = std::make_shared<Weight>(place(stream, form.form, kWidth, kWidth));
    for (const std::int64_t rows : {1, 16, 64, 4096}) {
      const auto x = std::make_shared<Tensor>(to_device(stream, numbers({rows, kWidth}, 71)));
      const auto y = std::make_shared<Tensor>(DType::kF32, Shape{rows, kWidth}, stream.device());
      layers.push_back(
          {"linear " + std::string(form.name) + " [4096, 4096], " + text(rows) + " rows",
           static_cast<double>(weight->size_bytes()) +
               static_cast<double>(x->size_bytes() + y->size_bytes()),
           [weight, x, y](Stream& s) {
             kernels::linear(s, std::as_const(*x).view(), *weight, ConstView{}, y->view());
           }});
    }
  }
  return layers;
}

}  // namespace caption::testing
