// model/blueprint.h: the description of a model: its dimensions and the list of all its parameters.
// Loading, counting, planning and random models use this list. A blueprint holds no weights, and
// nothing here does I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder.h"
#include "model/vision_spec.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "weights/format.h"
#include "weights/random_source.h"
#include "weights/source.h"

namespace caption::model {

using weights::Fill;
using weights::Role;

enum class Part { kTower, kProjector, kDecoder, kHead };

// The axis along which tensor parallelism splits a parameter (arXiv:1909.08053).
enum class ShardAxis { kNone, kRows, kColumns };

using ParameterId = std::int32_t;
inline constexpr ParameterId kNoParameter = -1;

// The place of a parameter in files of the second of a model's two layouts (ParameterGroup): a
// tensor of the parameter's shape, or a range of rows of a larger tensor.
struct StoredName {
  std::string name;              // name without the group's prefix
  std::int64_t first_row = 0;    // row of the tensor at which the parameter begins
  std::int64_t tensor_rows = 0;  // rows of the tensor; 0: those of the parameter
};

struct Parameter {
  std::string name;  // name without the group's prefix
  Shape shape;       // shape in the file
  Role role = Role::kVector;
  Fill fill = Fill::kNormal;  // values in a random model
  ShardAxis shard = ShardAxis::kNone;
  std::int32_t group = 0;
  // The parameter's place in files of the second layout; std::nullopt: it is that of the first.
  std::optional<StoredName> other_layout = {};
  // Set if the file holds the matrix as codes, which are kept in every format that it can be held
  // in.
  std::optional<weights::StoredCodes> codes = {};
  // Set if the file holds the matrix as e4m3 numbers (weights::Source::e4m3_of()); keep_e4m3() says
  // which models multiply by these.
  std::optional<weights::StoredCodes> e4m3 = {};
  // The dtype in the file, if it is another than that of the group.
  std::optional<DType> stored = {};

  // Dimensions of the parameter as a matrix [rows, columns] for the kernels; a vector has one
  // column.
  std::int64_t rows() const { return shape[0]; }
  std::int64_t columns() const { return shape.num_elements() / shape[0]; }
};

// Parameters whose names in the file have the same prefix. Files differ in this prefix, and in the
// layout of the names after it: the first of `prefixes` is used under which the file has the
// group's first parameter, by its name or, if it has none, by its name in the other layout.
struct ParameterGroup {
  Part part = Part::kDecoder;
  std::vector<std::string> prefixes = {""};
  std::int32_t source = 0;     // index of the model's weight file
  DType stored = DType::kF32;  // expected dtype of the tensors in the file
};

// A weight [out, in] and its bias [out], which may be absent.
struct LinearIds {
  ParameterId weight = kNoParameter;
  ParameterId bias = kNoParameter;
};
struct NormIds {
  ParameterId weight = kNoParameter;
  ParameterId bias = kNoParameter;
};

struct DecoderLayerIds {
  ParameterId input_norm;
  LinearIds q, k, v, o;
  ParameterId q_norm = kNoParameter, k_norm = kNoParameter;
  ParameterId post_attention_norm;
  LinearIds gate, up, down;
};
struct DecoderIds {
  ParameterId embedding = kNoParameter;  // with tied embeddings also the LM head
  ParameterId head = kNoParameter;
  ParameterId final_norm = kNoParameter;
  std::vector<DecoderLayerIds> layers;
};

struct VitLayerIds {
  NormIds norm_1;
  LinearIds q, k, v, out;
  ParameterId q_norm = kNoParameter, k_norm = kNoParameter;
  // The factors by which LayerScale (arXiv:2103.17239) multiplies the outputs of attention and MLP.
  ParameterId scale_1 = kNoParameter, scale_2 = kNoParameter;
  NormIds norm_2;
  LinearIds fc1, fc2;
};
struct VitTowerIds {
  ParameterId class_embedding = kNoParameter;
  LinearIds patch_embedding;  // the weight as [hidden, 3, patch, patch]
  ParameterId positions = kNoParameter;
  NormIds pre_norm;
  std::vector<VitLayerIds> layers;
};

struct QwenBlockIds {
  NormIds norm_1;
  LinearIds qkv, proj;  // the rows of qkv are those of q, then k, then v
  NormIds norm_2;
  LinearIds fc1, fc2;  // in a gated MLP they are up_proj and down_proj
  LinearIds gate = {};
};
// Makes one token of the patches of a window: two layers with an activation between them.
struct QwenMergerIds {
  NormIds norm;
  LinearIds fc1, fc2;
};
struct QwenTowerIds {
  LinearIds patch_embedding;
  ParameterId positions = kNoParameter;  // kNoParameter: no table of positions
  std::vector<QwenBlockIds> blocks;
  QwenMergerIds merger;
  std::vector<QwenMergerIds> deepstack;  // one for each of VisionSpec::deepstack_layers
};

struct PerceiverLayerIds {
  NormIds norm_context, norm_latents;
  LinearIds q;
  LinearIds kv;    // kFlamingo: the rows of k, then of v
  LinearIds k, v;  // kIdefics2
  LinearIds out;
  NormIds norm_mlp;
  LinearIds fc1, fc2;  // in a gated MLP they are up_proj and down_proj
  LinearIds gate = {};
};
struct PerceiverIds {
  LinearIds input;                             // kFlamingo, may be absent
  LinearIds input_gate, input_up, input_down;  // kIdefics2
  ParameterId latents = kNoParameter;
  std::vector<PerceiverLayerIds> layers;
  NormIds norm;
};

struct RegBlockIds {
  LinearIds conv_1;
  NormIds norm_1;
  ParameterId depthwise = kNoParameter;  // [inner, 1, kernel, kernel]
  NormIds norm_2;
  LinearIds squeeze, excite;
  LinearIds conv_3;
  NormIds norm_3;
  LinearIds shortcut;  // may be absent
  NormIds shortcut_norm;
};
struct CAbstractorIds {
  NormIds norm;
  ParameterId positions = kNoParameter;
  std::vector<RegBlockIds> before, after;
};

// Tensors of a weight file that the model does not use, and whose presence is no contradiction.
struct IgnoredTensors {
  std::int32_t source = 0;
  std::string prefix;       // the beginning of their names
  std::string suffix = {};  // the end of their names
};

struct Blueprint {
  std::string name;
  std::optional<DecoderSpec> text;
  std::optional<VisionSpec> vision;
  std::vector<ParameterGroup> groups;
  std::vector<Parameter> parameters;
  DecoderIds decoder;
  VitTowerIds tower;
  QwenTowerIds qwen_tower;  // it has no blocks if the tower is another one
  // The layer of PatchMerge::kConvolution; its weight is [hidden, hidden, stride, stride].
  LinearIds merge;
  NormIds projector_norm;
  std::vector<LinearIds> projector;
  ParameterId newline = kNoParameter;
  PerceiverIds perceiver;       // it has no latents if there is no resampler
  CAbstractorIds c_abstractor;  // where VisionSpec::c_abstractor is set
  std::vector<IgnoredTensors> ignored;
  // Where files may hold an LM head although it is tied to the embedding; the head is then ignored.
  std::vector<IgnoredTensors> tied_heads;

  // Sets ParameterGroup::stored of all groups of the weight file `source`.
  void set_stored(DType dtype, std::int32_t source = 0);
  // Returns whether the decoder's tensors are stored in 16 bits.
  bool is_stored_in_16_bits() const;

  // Starts a group: parameters that are added afterwards belong to it.
  void add_group(ParameterGroup group);
  ParameterId add(Parameter parameter);
  ParameterId add_vector(std::string full_name, std::int64_t size, Fill fill = Fill::kNormal);
  // Adds stem + "weight" and, if the layer has a bias, stem + "bias"; the stem ends in a dot or is
  // empty.
  LinearIds add_linear(const std::string& stem, const LinearSpec& linear, Role role,
                       ShardAxis shard = ShardAxis::kNone);
  NormIds add_norm(const std::string& stem, std::int64_t size);

  // Set the name of a parameter in the second layout. For a linear layer and a norm `where.name` is
  // the stem, and the row range holds for weight and bias.
  void set_other_layout(ParameterId id, StoredName where);
  void set_other_layout(const LinearIds& ids, const StoredName& where);
  void set_other_layout(const NormIds& ids, const StoredName& where);
};

// Adds the decoder's parameters: the LM head under `head_prefixes`, unless the spec ties it to the
// embedding, and all others under `prefixes`. `source` is the index of their weight file.
void add_decoder(Blueprint& blueprint, const DecoderSpec& spec, std::vector<std::string> prefixes,
                 std::vector<std::string> head_prefixes, std::int32_t source = 0);
// Adds the parameters of Qwen3-VL's vision tower with its mergers, which give tokens of `out`
// numbers, and describes the mergers in VisionSpec::projector.
void add_qwen3_vl_tower(Blueprint& blueprint, VisionSpec spec, std::int64_t out,
                        std::vector<std::string> prefixes);
// The same for Qwen2.5-VL's vision tower with its merger.
void add_qwen2_5_vl_tower(Blueprint& blueprint, VisionSpec spec, std::int64_t out,
                          std::vector<std::string> prefixes);
// Adds the layers of spec.projector; layer i has the stem stems[i], such as "linear_1.".
void add_projector(Blueprint& blueprint, const VisionSpec& spec,
                   const std::vector<std::string>& stems, std::vector<std::string> prefixes,
                   std::int32_t source = 0);

// Returns the blueprint of a decoder alone, with empty prefixes.
Blueprint decoder_blueprint(const DecoderSpec& spec);

// Returns the tensors of a random model: all parameters, without prefixes.
std::vector<weights::NewTensor> new_tensors(const Blueprint& blueprint);

// Numbers of weights by part; a tied LM head counts once, in `embedding`.
struct ParameterCounts {
  std::int64_t embedding = 0;
  std::int64_t lm_head = 0;
  std::int64_t projections = 0;  // the seven matrices of every decoder layer
  std::int64_t text_other = 0;   // norms and biases
  std::int64_t tower = 0;
  std::int64_t projector = 0;

  std::int64_t total() const {
    return embedding + lm_head + projections + text_other + tower + projector;
  }
};
ParameterCounts count_parameters(const Blueprint& blueprint);

// Sets Parameter::codes where a model in `format` multiplies by numbers of e4m3 as they are: in
// kFp8 those of the decoder's layers, in kBF16 on the CPU and the mirror all for which
// kernels::takes_e4m3() is true.
void keep_e4m3(const Context& context, weights::WeightFormat format, Blueprint& blueprint);

// Changes the blueprint to what GPUs hold of a file's codes: their scales and offsets are f32, and
// numbers of e4m3 are bf16. What kFp8 holds does not depend on it.
void hold_on_gpu(Blueprint& blueprint);

// Bytes of all parameters in `format`, without padding; kF32 counts four bytes per weight, and
// kBF16 counts numbers of e4m3 as the CPU keeps them.
std::int64_t weight_bytes(const Blueprint& blueprint, weights::WeightFormat format);
// Bytes of the parameters of one role, counted in the same way.
std::int64_t weight_bytes(const Blueprint& blueprint, weights::WeightFormat format, Role role);
// Bytes of all parameters as PlacedWeights holds them in `format`, with padding; kF32 counts the
// numbers of the file by ParameterGroup::stored.
std::int64_t placed_bytes(const Context& context, const Blueprint& blueprint,
                          weights::WeightFormat format);

// The value of Decoder::scratch_bytes() of a decoder on `device` after reserve(max_tokens,
// max_logit_rows). `adapter_rank` is the largest rank of the adapters that the decoder computes
// beside its weights; 0: none.
std::int64_t decoder_scratch_bytes(Device device, const DecoderSpec& spec, std::int64_t max_tokens,
                                   std::int64_t max_logit_rows, std::int64_t adapter_rank = 0);

}  // namespace caption::model
