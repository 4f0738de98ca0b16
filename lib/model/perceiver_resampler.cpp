#include "model/internal/perceiver_resampler.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/norm.h"
#include "model/internal/activate.h"
#include "model/internal/projector.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

constexpr std::string_view kLatents = "latents";
constexpr std::int64_t kFlamingoHeadDim = 64;
constexpr std::int64_t kIdefics2HeadDim = 96;
constexpr std::int64_t kMaxHeadDim = 256;  // limit of kernels/attention.h
constexpr float kLayerNormEps = 1e-5F;     // torch's default
constexpr float kRmsNormEps = 1e-6F;       // Idefics2PerceiverConfig's default
constexpr const char* kModalityProjection = "modality_projection.";

std::string layer_stem(const std::string& prefix, std::size_t index) {
  return prefix + "layers." + std::to_string(index) + ".";
}

// The name of the module that holds the resampler: "a.b." of "a.b.perceiver_resampler.".
std::string parent_of(std::string_view prefix) {
  if (prefix.empty()) return {};
  const std::size_t dot = prefix.rfind('.', prefix.size() - 2);
  return dot == std::string_view::npos ? std::string() : std::string(prefix.substr(0, dot + 1));
}

[[noreturn]] void fail(const ProjectorFile& file, const std::string& what) {
  fail_bad_file(file.path() + ": " + what);
}

// Sets the heads by the rows of the projections of queries and keys.
void set_heads(const ProjectorFile& file, std::int64_t head_dim, std::int64_t q_rows,
               std::int64_t k_rows, PerceiverSpec& spec) {
  spec.head_dim = head_dim;
  spec.num_heads = q_rows / head_dim;
  spec.num_kv_heads = k_rows / head_dim;
  if (head_dim <= kMaxHeadDim && spec.num_kv_heads > 0 && spec.q_dim() == q_rows &&
      spec.kv_dim() == k_rows && spec.num_heads % spec.num_kv_heads == 0) {
    return;
  }
  fail(file, "queries of " + std::to_string(q_rows) + " and keys of " + std::to_string(k_rows) +
                 " numbers are no heads of " + std::to_string(head_dim) +
                 "; model.projector_head_dim says how many numbers a head has");
}

void read_flamingo(const ProjectorFile& file, const std::string& prefix,
                   const ProjectorOptions& options, PerceiverSpec& spec) {
  if (file.has(prefix + "proj_in.weight")) {
    spec.input = file.require_linear(prefix + "proj_in.");
    spec.input->out = spec.hidden;
  }
  for (std::size_t i = 0; file.has(layer_stem(prefix, i) + "0.to_q.weight"); ++i) {
    spec.intermediates.push_back(file.require(layer_stem(prefix, i) + "1.1.weight", 2)[0]);
  }
  const std::string first = layer_stem(prefix, 0) + "0.";
  const std::int64_t kv_rows = file.require(first + "to_kv.weight", 2)[0];
  set_heads(file, options.head_dim > 0 ? options.head_dim : kFlamingoHeadDim,
            file.require(first + "to_q.weight", 2)[0], kv_rows / 2, spec);
}

void read_idefics2(const ProjectorFile& file, const std::string& prefix,
                   const ProjectorOptions& options, PerceiverSpec& spec) {
  spec.variant = PerceiverVariant::kIdefics2;
  const std::string gate = parent_of(prefix) + kModalityProjection + "gate_proj.weight";
  if (file.has(gate)) spec.input_intermediate = file.require(gate, 2)[0];
  for (std::size_t i = 0; file.has(layer_stem(prefix, i) + "self_attn.q_proj.weight"); ++i) {
    spec.intermediates.push_back(file.require(layer_stem(prefix, i) + "mlp.up_proj.weight", 2)[0]);
  }
  const std::string first = layer_stem(prefix, 0) + "self_attn.";
  set_heads(file, options.head_dim > 0 ? options.head_dim : kIdefics2HeadDim,
            file.require(first + "q_proj.weight", 2)[0],
            file.require(first + "k_proj.weight", 2)[0], spec);
  if (options.activation.value_or(Activation::kSilu) != Activation::kSilu) {
    throw Error(ErrorCode::kUnavailable,
                file.path() + ": a gated MLP; model.projector_hidden_act must be silu for it");
  }
}

NormIds add_norm(Blueprint& blueprint, const PerceiverSpec& spec, const std::string& stem) {
  if (spec.variant == PerceiverVariant::kFlamingo) return blueprint.add_norm(stem, spec.hidden);
  return {.weight = blueprint.add_vector(stem + "weight", spec.hidden, Fill::kOne)};
}

LinearIds add_linear(Blueprint& blueprint, const std::string& stem, std::int64_t out,
                     std::int64_t in) {
  return blueprint.add_linear(stem, {.out = out, .in = in, .has_bias = false},
                              Role::kEncoderLinear);
}

PerceiverLayerIds add_flamingo_layer(Blueprint& blueprint, const PerceiverSpec& spec,
                                     const std::string& stem, std::int64_t intermediate) {
  PerceiverLayerIds ids;
  ids.norm_context = add_norm(blueprint, spec, stem + "0.norm_media.");
  ids.norm_latents = add_norm(blueprint, spec, stem + "0.norm_latents.");
  ids.q = add_linear(blueprint, stem + "0.to_q.", spec.q_dim(), spec.hidden);
  ids.kv = add_linear(blueprint, stem + "0.to_kv.", 2 * spec.kv_dim(), spec.hidden);
  ids.out = add_linear(blueprint, stem + "0.to_out.", spec.hidden, spec.q_dim());
  ids.norm_mlp = add_norm(blueprint, spec, stem + "1.0.");
  ids.fc1 = add_linear(blueprint, stem + "1.1.", intermediate, spec.hidden);
  ids.fc2 = add_linear(blueprint, stem + "1.3.", spec.hidden, intermediate);
  return ids;
}

PerceiverLayerIds add_idefics2_layer(Blueprint& blueprint, const PerceiverSpec& spec,
                                     const std::string& stem, std::int64_t intermediate) {
  const std::string attention = stem + "self_attn.";
  PerceiverLayerIds ids;
  ids.norm_latents = add_norm(blueprint, spec, stem + "input_latents_norm.");
  ids.norm_context = add_norm(blueprint, spec, stem + "input_context_norm.");
  ids.q = add_linear(blueprint, attention + "q_proj.", spec.q_dim(), spec.hidden);
  ids.k = add_linear(blueprint, attention + "k_proj.", spec.kv_dim(), spec.hidden);
  ids.v = add_linear(blueprint, attention + "v_proj.", spec.kv_dim(), spec.hidden);
  ids.out = add_linear(blueprint, attention + "o_proj.", spec.hidden, spec.q_dim());
  ids.norm_mlp = add_norm(blueprint, spec, stem + "post_attention_layernorm.");
  ids.gate = add_linear(blueprint, stem + "mlp.gate_proj.", intermediate, spec.hidden);
  ids.fc1 = add_linear(blueprint, stem + "mlp.up_proj.", intermediate, spec.hidden);
  ids.fc2 = add_linear(blueprint, stem + "mlp.down_proj.", spec.hidden, intermediate);
  return ids;
}

void add_input(Blueprint& blueprint, const VisionSpec& vision, const std::string& prefix) {
  const PerceiverSpec& spec = *vision.perceiver;
  PerceiverIds& ids = blueprint.perceiver;
  if (spec.input) {
    LinearSpec input = *spec.input;
    input.in = vision.merged_columns();
    ids.input = blueprint.add_linear(prefix + "proj_in.", input, Role::kEncoderLinear);
  }
  if (spec.input_intermediate == 0) return;
  const std::string stem = parent_of(prefix) + kModalityProjection;
  const std::int64_t columns = vision.merged_columns();
  ids.input_gate = add_linear(blueprint, stem + "gate_proj.", spec.input_intermediate, columns);
  ids.input_up = add_linear(blueprint, stem + "up_proj.", spec.input_intermediate, columns);
  ids.input_down = add_linear(blueprint, stem + "down_proj.", spec.hidden, spec.input_intermediate);
}

}  // namespace

std::optional<std::string> find_perceiver(const ProjectorFile& file) {
  for (const auto& [name, shape] : file.tensors()) {
    if (name != kLatents && !name.ends_with(".latents")) continue;
    return name.substr(0, name.size() - kLatents.size());
  }
  return std::nullopt;
}

ProjectorNames read_perceiver(const ProjectorFile& file, const ProjectorOptions& options,
                              std::int64_t text_hidden, VisionSpec& vision) {
  ProjectorNames names{.prefix = find_perceiver(file).value(), .stems = {}};
  PerceiverSpec spec;
  const Shape latents = file.require(names.prefix + std::string(kLatents), 2);
  spec.latents = latents[0];
  spec.hidden = latents[1];
  if (file.has(layer_stem(names.prefix, 0) + "self_attn.q_proj.weight")) {
    read_idefics2(file, names.prefix, options, spec);
  } else {
    read_flamingo(file, names.prefix, options, spec);
  }
  const bool has_input = spec.input || spec.input_intermediate > 0;
  if (!has_input && spec.hidden != vision.merged_columns()) {
    fail(file, "the latents have " + std::to_string(spec.hidden) + " numbers, the tower's rows " +
                   std::to_string(vision.merged_columns()) + ", and there is no " + names.prefix +
                   "proj_in.weight between them");
  }
  const std::string out = names.prefix + "proj_out.";
  if (file.has(out + "weight")) {
    vision.projector = {
        {.out = text_hidden, .in = spec.hidden, .has_bias = file.has(out + "bias")}};
    names.stems = {out};
  } else if (spec.hidden != text_hidden) {
    fail(file, "the latents have " + std::to_string(spec.hidden) +
                   " numbers, the language model's embeddings " + std::to_string(text_hidden) +
                   ", and there is no " + out + "weight between them");
  }
  vision.perceiver = std::move(spec);
  return names;
}

void add_perceiver(Blueprint& blueprint, const VisionSpec& vision, const ProjectorNames& names,
                   std::int32_t source) {
  const PerceiverSpec& spec = *vision.perceiver;
  const bool is_flamingo = spec.variant == PerceiverVariant::kFlamingo;
  blueprint.vision = vision;
  blueprint.add_group({.part = Part::kProjector, .prefixes = {""}, .source = source});
  PerceiverIds& ids = blueprint.perceiver;
  ids.latents = blueprint.add(
      {.name = names.prefix + std::string(kLatents), .shape = {spec.latents, spec.hidden}});
  add_input(blueprint, vision, names.prefix);
  for (std::size_t i = 0; i < spec.intermediates.size(); ++i) {
    const auto add_layer = is_flamingo ? add_flamingo_layer : add_idefics2_layer;
    ids.layers.push_back(
        add_layer(blueprint, spec, layer_stem(names.prefix, i), spec.intermediates[i]));
  }
  ids.norm = add_norm(blueprint, spec, names.prefix + "norm.");
}

PerceiverResampler::PerceiverResampler(const PlacedWeights& weights, const Blueprint& blueprint)
    : spec_(blueprint.vision->perceiver.value()),
      activation_(blueprint.vision->projector_activation),
      latents_(weights.vector(blueprint.perceiver.latents)),
      norm_(weights.norm(blueprint.perceiver.norm)),
      context_(weights.device()),
      wide_(weights.device()),
      hidden_(weights.device()),
      normed_(weights.device()),
      joined_(weights.device()),
      q_(weights.device()),
      kv_(weights.device()) {
  const PerceiverIds& all = blueprint.perceiver;
  for (const LinearIds& ids : {all.input, all.input_gate, all.input_up, all.input_down}) {
    if (ids.weight != kNoParameter) input_.push_back(weights.linear(ids));
  }
  for (const PerceiverLayerIds& ids : all.layers) {
    Layer layer{.norm_context = weights.norm(ids.norm_context),
                .norm_latents = weights.norm(ids.norm_latents),
                .q = weights.linear(ids.q),
                .kv = {},
                .out = weights.linear(ids.out),
                .norm_mlp = weights.norm(ids.norm_mlp),
                .fc1 = weights.linear(ids.fc1),
                .fc2 = weights.linear(ids.fc2),
                .gate = std::nullopt};
    for (const LinearIds& kv : {ids.kv, ids.k, ids.v}) {
      if (kv.weight != kNoParameter) layer.kv.push_back(weights.linear(kv));
    }
    if (ids.gate.weight != kNoParameter) layer.gate.emplace(weights.linear(ids.gate));
    layers_.push_back(std::move(layer));
  }
}

View PerceiverResampler::forward(Stream& stream, ConstView rows, std::int64_t frames) {
  const ConstView context = input(stream, rows);
  const View x = hidden_.view({frames * spec_.latents, spec_.hidden});
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    kernels::convert(stream, latents_, x.rows(frame * spec_.latents, spec_.latents));
  }
  for (const Layer& layer : layers_) {
    attend(stream, layer, context, frames, x);
    mlp(stream, layer, x);
  }
  normalise(stream, x, norm_, x);
  return x;
}

ConstView PerceiverResampler::input(Stream& stream, ConstView rows) {
  if (input_.empty()) return rows;
  const View context = context_.view({rows.dim(0), spec_.hidden});
  if (input_.size() == 1) {
    kernels::linear(stream, rows, input_[0].weight, input_[0].bias, context);
    return context;
  }
  const View inner = wide_.view({rows.dim(0), spec_.input_intermediate});
  kernels::linear_swiglu(stream, rows, input_[0], input_[1], inner);
  kernels::linear(stream, inner, input_[2].weight, input_[2].bias, context);
  return context;
}

void PerceiverResampler::normalise(Stream& stream, ConstView x, const NormWeights& norm,
                                   View y) const {
  if (spec_.variant == PerceiverVariant::kFlamingo) {
    return kernels::layer_norm(stream, x, norm.weight, norm.bias, kLayerNormEps, y);
  }
  kernels::rms_norm(stream, x, norm.weight, kRmsNormEps, y);
}

void PerceiverResampler::attend(Stream& stream, const Layer& layer, ConstView context,
                                std::int64_t frames, View x) {
  const std::int64_t latents = spec_.latents;
  const std::int64_t patches = context.dim(0) / frames;
  const std::int64_t keys = patches + latents;
  const View normed = normed_.view(x.shape());
  normalise(stream, x, layer.norm_latents, normed);
  const View joined = joined_.view({frames * keys, spec_.hidden});
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    normalise(stream, context.rows(frame * patches, patches), layer.norm_context,
              joined.rows(frame * keys, patches));
    copy(stream, normed.rows(frame * latents, latents),
         joined.rows(frame * keys + patches, latents));
  }
  const View q = q_.view({x.dim(0), spec_.q_dim()});
  kernels::linear(stream, normed, layer.q.weight, layer.q.bias, q);
  const View kv = kv_.view({joined.dim(0), 2 * spec_.kv_dim()});
  const View k = kv.columns(0, spec_.kv_dim());
  const View v = kv.columns(spec_.kv_dim(), spec_.kv_dim());
  if (layer.kv.size() == 1) {
    kernels::linear(stream, joined, layer.kv[0].weight, layer.kv[0].bias, kv);
  } else {
    const kernels::LinearPart parts[] = {{layer.kv[0].weight, layer.kv[0].bias, k},
                                         {layer.kv[1].weight, layer.kv[1].bias, v}};
    kernels::linear(stream, joined, parts);
  }
  const Shape key_heads = {joined.dim(0), spec_.num_kv_heads, spec_.head_dim};
  const Shape heads = {x.dim(0), spec_.num_heads, spec_.head_dim};
  const View attended = wide_.view(q.shape());
  kernels::attention(stream,
                     {.q = q.reshape(heads),
                      .k = k.reshape(key_heads),
                      .v = v.reshape(key_heads),
                      .seq_len = latents,
                      .kv_len = keys,
                      .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim))},
                     attended.reshape(heads));
  kernels::linear_add(stream, attended, layer.out.weight, layer.out.bias, x);
}

void PerceiverResampler::mlp(Stream& stream, const Layer& layer, View x) {
  const View normed = normed_.view(x.shape());
  normalise(stream, x, layer.norm_mlp, normed);
  const View inner = wide_.view({x.dim(0), layer.fc1.weight.num_features()});
  if (layer.gate) {
    kernels::linear_swiglu(stream, normed, *layer.gate, layer.fc1, inner);
  } else {
    linear_activated(stream, activation_, normed, layer.fc1, inner);
  }
  kernels::linear_add(stream, inner, layer.fc2.weight, layer.fc2.bias, x);
}

std::int64_t PerceiverResampler::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Scratch* const scratch :
       {&context_, &wide_, &hidden_, &normed_, &joined_, &q_, &kv_}) {
    sum += scratch->size_bytes();
  }
  return sum;
}

}  // namespace caption::model
