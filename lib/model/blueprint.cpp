#include "model/blueprint.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/weight.h"
#include "model/file_codes.h"
#include "weights/code_format.h"

namespace caption::model {

void Blueprint::add_group(ParameterGroup group) { groups.push_back(std::move(group)); }

void Blueprint::set_stored(DType dtype, std::int32_t source) {
  for (ParameterGroup& group : groups) {
    if (group.source == source) group.stored = dtype;
  }
}

bool Blueprint::is_stored_in_16_bits() const {
  return std::any_of(groups.begin(), groups.end(), [](const ParameterGroup& group) {
    return group.part == Part::kDecoder && group.stored != DType::kF32;
  });
}

ParameterId Blueprint::add(Parameter parameter) {
  CAPTION_CHECK(!groups.empty(), "blueprint: a parameter without a group");
  parameter.group = static_cast<std::int32_t>(groups.size()) - 1;
  parameters.push_back(std::move(parameter));
  return static_cast<ParameterId>(parameters.size()) - 1;
}

ParameterId Blueprint::add_vector(std::string full_name, std::int64_t size, Fill fill) {
  return add({.name = std::move(full_name), .shape = {size}, .fill = fill});
}

LinearIds Blueprint::add_linear(const std::string& stem, const LinearSpec& linear, Role role,
                                ShardAxis shard) {
  LinearIds ids;
  ids.weight = add(
      {.name = stem + "weight", .shape = {linear.out, linear.in}, .role = role, .shard = shard});
  if (linear.has_bias) ids.bias = add_vector(stem + "bias", linear.out, Fill::kZero);
  return ids;
}

NormIds Blueprint::add_norm(const std::string& stem, std::int64_t size) {
  return {.weight = add_vector(stem + "weight", size, Fill::kOne),
          .bias = add_vector(stem + "bias", size, Fill::kZero)};
}

void Blueprint::set_other_layout(ParameterId id, StoredName where) {
  parameters[static_cast<std::size_t>(id)].other_layout = std::move(where);
}

void Blueprint::set_other_layout(const LinearIds& ids, const StoredName& where) {
  const auto set = [&](ParameterId id, const char* suffix) {
    if (id != kNoParameter)
      set_other_layout(id, {where.name + suffix, where.first_row, where.tensor_rows});
  };
  set(ids.weight, "weight");
  set(ids.bias, "bias");
}

void Blueprint::set_other_layout(const NormIds& ids, const StoredName& where) {
  set_other_layout(LinearIds{.weight = ids.weight, .bias = ids.bias}, where);
}

namespace {

DecoderLayerIds add_decoder_layer(Blueprint& blueprint, const DecoderSpec& spec,
                                  const std::string& stem) {
  const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, bool has_bias,
                          ShardAxis shard) {
    return blueprint.add_linear(stem + name + ".", {.out = out, .in = in, .has_bias = has_bias},
                                Role::kDecoderLinear, shard);
  };
  const auto norm = [&](const char* name, std::int64_t size) {
    return blueprint.add_vector(stem + name + ".weight", size, Fill::kOne);
  };
  DecoderLayerIds layer{
      .input_norm = norm("input_layernorm", spec.hidden),
      .q = linear("self_attn.q_proj", spec.q_dim(), spec.hidden, spec.qkv_bias, ShardAxis::kRows),
      .k = linear("self_attn.k_proj", spec.kv_dim(), spec.hidden, spec.qkv_bias, ShardAxis::kRows),
      .v = linear("self_attn.v_proj", spec.kv_dim(), spec.hidden, spec.qkv_bias, ShardAxis::kRows),
      .o = linear("self_attn.o_proj", spec.hidden, spec.q_dim(), spec.o_bias, ShardAxis::kColumns),
      .post_attention_norm = norm("post_attention_layernorm", spec.hidden),
      .gate =
          linear("mlp.gate_proj", spec.intermediate, spec.hidden, spec.mlp_bias, ShardAxis::kRows),
      .up = linear("mlp.up_proj", spec.intermediate, spec.hidden, spec.mlp_bias, ShardAxis::kRows),
      .down = linear("mlp.down_proj", spec.hidden, spec.intermediate, spec.mlp_bias,
                     ShardAxis::kColumns)};
  if (spec.qk_norm) {
    layer.q_norm = norm("self_attn.q_norm", spec.head_dim);
    layer.k_norm = norm("self_attn.k_norm", spec.head_dim);
  }
  return layer;
}

}  // namespace

void add_decoder(Blueprint& blueprint, const DecoderSpec& spec, std::vector<std::string> prefixes,
                 std::vector<std::string> head_prefixes, std::int32_t source) {
  blueprint.text = spec;
  blueprint.add_group({.part = Part::kDecoder, .prefixes = std::move(prefixes), .source = source});
  const Shape table = {spec.vocab, spec.hidden};
  DecoderIds& ids = blueprint.decoder;
  ids.embedding = blueprint.add({.name = "embed_tokens.weight",
                                 .shape = table,
                                 .role = spec.tied_embeddings ? Role::kHead : Role::kEmbedding,
                                 .shard = ShardAxis::kRows});
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    ids.layers.push_back(add_decoder_layer(blueprint, spec, "layers." + std::to_string(i) + "."));
  }
  ids.final_norm = blueprint.add_vector("norm.weight", spec.hidden, Fill::kOne);
  ids.head = ids.embedding;
  if (spec.tied_embeddings) {
    for (const std::string& prefix : head_prefixes) {
      blueprint.tied_heads.push_back({.source = source, .prefix = prefix + "lm_head.weight"});
    }
    return;
  }
  blueprint.add_group(
      {.part = Part::kHead, .prefixes = std::move(head_prefixes), .source = source});
  ids.head = blueprint.add(
      {.name = "lm_head.weight", .shape = table, .role = Role::kHead, .shard = ShardAxis::kRows});
}

void add_projector(Blueprint& blueprint, const VisionSpec& spec,
                   const std::vector<std::string>& stems, std::vector<std::string> prefixes,
                   std::int32_t source) {
  CAPTION_CHECK(stems.size() == spec.projector.size(), "blueprint: a name for each layer");
  blueprint.vision = spec;
  blueprint.add_group(
      {.part = Part::kProjector, .prefixes = std::move(prefixes), .source = source});
  for (std::size_t i = 0; i < stems.size(); ++i) {
    blueprint.projector.push_back(
        blueprint.add_linear(stems[i], spec.projector[i], Role::kEncoderLinear));
  }
}

Blueprint decoder_blueprint(const DecoderSpec& spec) {
  Blueprint blueprint;
  add_decoder(blueprint, spec, {""}, {""});
  return blueprint;
}

std::vector<weights::NewTensor> new_tensors(const Blueprint& blueprint) {
  std::vector<weights::NewTensor> tensors;
  for (const Parameter& parameter : blueprint.parameters) {
    tensors.push_back({parameter.name, parameter.shape, parameter.fill});
  }
  return tensors;
}

ParameterCounts count_parameters(const Blueprint& blueprint) {
  ParameterCounts counts;
  for (const Parameter& parameter : blueprint.parameters) {
    const std::int64_t count = parameter.shape.num_elements();
    switch (blueprint.groups[static_cast<std::size_t>(parameter.group)].part) {
      case Part::kTower: counts.tower += count; break;
      case Part::kProjector: counts.projector += count; break;
      case Part::kHead: counts.lm_head += count; break;
      case Part::kDecoder:
        if (parameter.role == Role::kDecoderLinear) {
          counts.projections += count;
        } else if (parameter.role == Role::kVector) {
          counts.text_other += count;
        } else {
          counts.embedding += count;
        }
        break;
    }
  }
  return counts;
}

namespace {

// Whether a model in `format` multiplies by the parameter's numbers of e4m3 as they are.
bool keeps_e4m3(const Context& context, weights::WeightFormat format, const Parameter& parameter) {
  if (!parameter.e4m3) return false;
  if (format == weights::WeightFormat::kFp8) return parameter.role == Role::kDecoderLinear;
  return format == weights::WeightFormat::kBF16 &&
         kernels::takes_e4m3(context, parameter.columns(), parameter.e4m3->layout);
}

// Returns the codes of its file as which a model in `format`, but for kFp8, holds the parameter;
// null where it holds other numbers.
const weights::StoredCodes* kept_codes(const Context& context, weights::WeightFormat format,
                                       const Parameter& parameter) {
  if (parameter.codes) {
    return weights::keeps_codes(format, *parameter.codes) ? &*parameter.codes : nullptr;
  }
  const bool is_of_gpu = format == weights::WeightFormat::kFp8;
  return !is_of_gpu && keeps_e4m3(context, format, parameter) ? &*parameter.e4m3 : nullptr;
}

// The format in which parameters without codes are counted: in a file format those of a blueprint
// without files count as the codes that files would have.
weights::WeightFormat counted_format(const Blueprint& blueprint, weights::WeightFormat format) {
  const bool has_codes =
      std::any_of(blueprint.parameters.begin(), blueprint.parameters.end(),
                  [](const Parameter& parameter) { return parameter.codes.has_value(); });
  return has_codes ? format_beside_codes(format) : format;
}

// Bytes without padding.
std::int64_t dense_bytes(const Parameter& parameter, weights::WeightFormat format) {
  const std::int64_t rows = parameter.rows();
  const std::int64_t columns = parameter.columns();
  if (const weights::StoredCodes* const codes = kept_codes(Context{}, format, parameter)) {
    return codes_bytes(rows, columns, codes->layout);
  }
  return matrix_bytes(rows, columns, weights::matrix_format(format, parameter.role));
}

}  // namespace

void keep_e4m3(const Context& context, weights::WeightFormat format, Blueprint& blueprint) {
  for (Parameter& parameter : blueprint.parameters) {
    if (keeps_e4m3(context, format, parameter)) parameter.codes = parameter.e4m3;
  }
}

void hold_on_gpu(Blueprint& blueprint) {
  for (Parameter& parameter : blueprint.parameters) {
    if (parameter.codes) parameter.codes->layout.numbers = {};
    parameter.e4m3.reset();
  }
}

std::int64_t weight_bytes(const Blueprint& blueprint, weights::WeightFormat format) {
  const weights::WeightFormat counted = counted_format(blueprint, format);
  std::int64_t bytes = 0;
  for (const Parameter& parameter : blueprint.parameters) bytes += dense_bytes(parameter, counted);
  return bytes;
}

std::int64_t weight_bytes(const Blueprint& blueprint, weights::WeightFormat format, Role role) {
  const weights::WeightFormat counted = counted_format(blueprint, format);
  std::int64_t bytes = 0;
  for (const Parameter& parameter : blueprint.parameters) {
    if (parameter.role == role) bytes += dense_bytes(parameter, counted);
  }
  return bytes;
}

std::int64_t placed_bytes(const Context& context, const Blueprint& blueprint,
                          weights::WeightFormat asked) {
  const weights::WeightFormat format = counted_format(blueprint, asked);
  std::int64_t bytes = 0;
  for (const Parameter& parameter : blueprint.parameters) {
    const std::int64_t rows = parameter.rows();
    const std::int64_t columns = parameter.columns();
    const MatrixFormat held = weights::matrix_format(format, parameter.role);
    const bool is_packed = parameter.role != Role::kVector && parameter.role != Role::kEmbedding;
    const DType of_group = blueprint.groups[static_cast<std::size_t>(parameter.group)].stored;
    const DType stored = parameter.stored.value_or(of_group);
    const weights::StoredCodes* const codes =
        is_packed ? kept_codes(context, format, parameter) : nullptr;
    if (codes != nullptr && weights::code_format(format, *codes) != MatrixFormat::kInt8Row) {
      bytes += kernels::placed_bytes(context, rows, columns, codes->layout);
    } else if (codes != nullptr) {
      bytes += kernels::placed_bytes(context, rows, columns, MatrixFormat::kInt8Row, stored);
    } else {
      bytes += is_packed ? kernels::placed_bytes(context, rows, columns, held, stored)
                         : matrix_bytes(rows, columns, held, stored);
    }
  }
  return bytes;
}

}  // namespace caption::model
