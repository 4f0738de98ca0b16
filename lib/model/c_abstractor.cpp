#include "model/internal/c_abstractor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"
#include "kernels/activation.h"
#include "kernels/depthwise_conv_2d.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/pool_2d.h"
#include "kernels/vision_embed.h"
#include "model/internal/projector.h"
#include "tensor/copy.h"

namespace caption::model {
namespace {

constexpr std::string_view kFirstTensor = "net.0.b1.conv1.conv.weight";
constexpr const char* kBefore = "net.0.";
constexpr const char* kAfter = "net.2.";
constexpr std::int64_t kMaxKernel = 15;  // limit of kernels/depthwise_conv_2d.h
constexpr float kNormEps = 1e-6F;        // default of timm's LayerNorm and LayerNorm2d

std::string block_stem(const std::string& stage, std::size_t index) {
  return stage + "b" + std::to_string(index + 1) + ".";
}

RegBlockSpec read_block(const ProjectorFile& file, const std::string& stem) {
  if (file.has(stem + "conv1.bn.running_mean")) {
    fail_unsupported(file.path() + ": tensor " + stem +
                     "conv1.bn.running_mean: the C-Abstractors of this build have layer norms over "
                     "the channels, not batch norms");
  }
  const Shape conv_1 = file.require(stem + "conv1.conv.weight", 4);
  const Shape depthwise = file.require(stem + "conv2.conv.weight", 4);
  const Shape conv_3 = file.require(stem + "conv3.conv.weight", 4);
  if (depthwise[1] != 1 || depthwise[2] % 2 != 1 || depthwise[2] > kMaxKernel) {
    fail_unsupported(file.path() + ": tensor " + stem + "conv2.conv.weight has shape " +
                     depthwise.to_string() +
                     "; this build runs depthwise convolutions with an odd kernel, [C, 1, 3, 3]");
  }
  return {.in = conv_1[1],
          .inner = conv_1[0],
          .squeeze = file.require(stem + "se.fc1.weight", 4)[0],
          .out = conv_3[0],
          .kernel = depthwise[2],
          .has_shortcut = file.has(stem + "downsample.conv.weight")};
}

std::vector<RegBlockSpec> read_stage(const ProjectorFile& file, const std::string& stage,
                                     std::int64_t columns) {
  std::vector<RegBlockSpec> blocks;
  while (file.has(block_stem(stage, blocks.size()) + "conv1.conv.weight")) {
    const std::string stem = block_stem(stage, blocks.size());
    RegBlockSpec block = read_block(file, stem);
    block.in = columns;  // another number is refused when the tensor is loaded
    if (!block.has_shortcut && block.in != block.out) {
      fail_bad_file(file.path() + ": tensor " + stem +
                    "downsample.conv.weight is missing: the block makes " +
                    std::to_string(block.out) + " channels of " + std::to_string(block.in));
    }
    columns = block.out;
    blocks.push_back(block);
  }
  if (!blocks.empty()) return blocks;
  fail_bad_file(file.path() + ": tensor " + block_stem(stage, 0) + "conv1.conv.weight is missing");
}

// Returns the edge of the square of `tokens`.
std::int64_t edge_of(std::int64_t tokens) {
  std::int64_t edge = 1;
  while (edge * edge < tokens) ++edge;
  if (edge * edge == tokens) return edge;
  throw Error(ErrorCode::kBadPreset, "model.projector_tokens is " + std::to_string(tokens) +
                                         "; the tokens of a C-Abstractor are a square, such as 64 "
                                         "or 144");
}

// The table may have a first row for the class token, which the projector does not get.
std::int64_t read_positions(const ProjectorFile& file, const std::string& name,
                            std::int64_t patches) {
  if (!file.has(name)) return 0;
  const Shape table = file.require(name, 3);
  if (table[0] == 1 && (table[1] == patches || table[1] == patches + 1)) return table[1];
  fail_bad_file(file.path() + ": tensor " + name + " has shape " + table.to_string() +
                "; the tower gives " + std::to_string(patches) + " patches");
}

LinearIds add_conv(Blueprint& blueprint, const std::string& stem, const LinearSpec& layer) {
  LinearIds ids;
  ids.weight = blueprint.add({.name = stem + "weight",
                              .shape = {layer.out, layer.in, 1, 1},
                              .role = Role::kEncoderLinear});
  if (layer.has_bias) ids.bias = blueprint.add_vector(stem + "bias", layer.out, Fill::kZero);
  return ids;
}

RegBlockIds add_block(Blueprint& blueprint, const RegBlockSpec& spec, const std::string& stem) {
  const auto conv = [&](const char* name, std::int64_t out, std::int64_t in, bool has_bias) {
    return add_conv(blueprint, stem + name, {.out = out, .in = in, .has_bias = has_bias});
  };
  RegBlockIds ids;
  ids.conv_1 = conv("conv1.conv.", spec.inner, spec.in, false);
  ids.norm_1 = blueprint.add_norm(stem + "conv1.bn.", spec.inner);
  ids.depthwise = blueprint.add(
      {.name = stem + "conv2.conv.weight", .shape = {spec.inner, 1, spec.kernel, spec.kernel}});
  ids.norm_2 = blueprint.add_norm(stem + "conv2.bn.", spec.inner);
  ids.squeeze = conv("se.fc1.", spec.squeeze, spec.inner, true);
  ids.excite = conv("se.fc2.", spec.inner, spec.squeeze, true);
  ids.conv_3 = conv("conv3.conv.", spec.out, spec.inner, false);
  ids.norm_3 = blueprint.add_norm(stem + "conv3.bn.", spec.out);
  if (!spec.has_shortcut) return ids;
  ids.shortcut = conv("downsample.conv.", spec.out, spec.in, false);
  ids.shortcut_norm = blueprint.add_norm(stem + "downsample.bn.", spec.out);
  return ids;
}

}  // namespace

std::optional<std::string> find_c_abstractor(const ProjectorFile& file) {
  for (const auto& [name, shape] : file.tensors()) {
    if (!name.ends_with(kFirstTensor)) continue;
    std::string prefix = name.substr(0, name.size() - kFirstTensor.size());
    if (prefix.empty() || prefix.back() == '.') return prefix;
  }
  return std::nullopt;
}

ProjectorNames read_c_abstractor(const ProjectorFile& file, const ProjectorOptions& options,
                                 std::int64_t text_hidden, VisionSpec& vision) {
  const std::string prefix = find_c_abstractor(file).value();
  const std::int64_t columns = vision.merged_columns();
  const std::int64_t edge = vision.grid() / std::max<std::int64_t>(1, vision.pool_stride);
  CAbstractorSpec spec;
  spec.edge = edge_of(options.frame_tokens());
  spec.has_norm = file.has(prefix + "prenorm.weight");
  spec.position_rows = read_positions(file, prefix + "pos_emb", edge * edge);
  spec.before = read_stage(file, prefix + kBefore, columns);
  spec.after = read_stage(file, prefix + kAfter, spec.before.back().out);
  vision.c_abstractor = std::move(spec);
  vision.projector_activation = options.activation.value_or(Activation::kSilu);
  ProjectorNames names = read_mlp(file, prefix + "readout.", text_hidden, vision);
  names.prefix = prefix;
  return names;
}

void add_c_abstractor(Blueprint& blueprint, const VisionSpec& vision, const ProjectorNames& names,
                      std::int32_t source) {
  const CAbstractorSpec& spec = *vision.c_abstractor;
  blueprint.vision = vision;
  blueprint.add_group({.part = Part::kProjector, .prefixes = {""}, .source = source});
  CAbstractorIds& ids = blueprint.c_abstractor;
  const std::int64_t columns = vision.merged_columns();
  if (spec.has_norm) ids.norm = blueprint.add_norm(names.prefix + "prenorm.", columns);
  if (spec.position_rows > 0) {
    ids.positions = blueprint.add(
        {.name = names.prefix + "pos_emb", .shape = {1, spec.position_rows, columns}});
  }
  for (std::size_t i = 0; i < spec.before.size(); ++i) {
    ids.before.push_back(
        add_block(blueprint, spec.before[i], block_stem(names.prefix + kBefore, i)));
  }
  for (std::size_t i = 0; i < spec.after.size(); ++i) {
    ids.after.push_back(add_block(blueprint, spec.after[i], block_stem(names.prefix + kAfter, i)));
  }
}

CAbstractor::CAbstractor(const PlacedWeights& weights, const Blueprint& blueprint)
    : spec_(blueprint.vision->c_abstractor.value()),
      edge_(blueprint.vision->grid() / blueprint.vision->pool_stride),
      norm_(weights.norm(blueprint.c_abstractor.norm)),
      prepared_(weights.device()),
      inner_(weights.device()),
      mixed_(weights.device()),
      means_(weights.device()),
      squeezed_(weights.device()),
      gates_(weights.device()),
      shortcut_(weights.device()),
      outputs_{Scratch(weights.device()), Scratch(weights.device())},
      pooled_(weights.device()) {
  if (blueprint.vision->keeps_class_token) {
    throw Error(ErrorCode::kBadModel,
                "a C-Abstractor takes a grid of patches, in which the class token has no place; "
                "set model.drop_cls");
  }
  if (spec_.position_rows > 0) {
    const std::int64_t patches = edge_ * edge_;
    positions_ = weights.vector(blueprint.c_abstractor.positions)
                     .reshape({spec_.position_rows, blueprint.vision->merged_columns()})
                     .rows(spec_.position_rows - patches, patches);
  }
  for (const RegBlockIds& ids : blueprint.c_abstractor.before) {
    before_.push_back(make_block(weights, ids));
  }
  for (const RegBlockIds& ids : blueprint.c_abstractor.after) {
    after_.push_back(make_block(weights, ids));
  }
}

CAbstractor::Block CAbstractor::make_block(const PlacedWeights& weights, const RegBlockIds& ids) {
  Block block{.conv_1 = weights.linear(ids.conv_1),
              .norm_1 = weights.norm(ids.norm_1),
              .depthwise = weights.vector(ids.depthwise),
              .norm_2 = weights.norm(ids.norm_2),
              .squeeze = weights.linear(ids.squeeze),
              .excite = weights.linear(ids.excite),
              .conv_3 = weights.linear(ids.conv_3),
              .norm_3 = weights.norm(ids.norm_3),
              .shortcut = std::nullopt,
              .shortcut_norm = weights.norm(ids.shortcut_norm)};
  if (ids.shortcut.weight != kNoParameter) block.shortcut.emplace(weights.linear(ids.shortcut));
  return block;
}

View CAbstractor::forward(Stream& stream, ConstView rows, std::int64_t frames) {
  turn_ = 0;  // so that each call needs the same sizes of the two outputs
  const ConstView mixed =
      run_stage(stream, before_, {.frames = frames, .edge = edge_}, prepare(stream, rows, frames));
  const std::int64_t channels = mixed.dim(1);
  const Grids grids = {.frames = frames, .edge = spec_.edge};
  const View pooled = pooled_.view({grids.rows(), channels});
  kernels::adaptive_mean_2d(stream, mixed.reshape({frames, edge_, edge_, channels}),
                            pooled.reshape({frames, spec_.edge, spec_.edge, channels}));
  const ConstView tokens = run_stage(stream, after_, grids, pooled);
  return outputs_[1 - turn_].view(tokens.shape());
}

ConstView CAbstractor::prepare(Stream& stream, ConstView rows, std::int64_t frames) {
  ConstView x = rows;
  if (spec_.has_norm) {
    const View normed = pooled_.view(x.shape());  // free until the blocks have run
    kernels::layer_norm(stream, x, norm_.weight, norm_.bias, kNormEps, normed);
    x = normed;
  }
  if (positions_.empty()) return x;
  const View placed = prepared_.view(x.shape());
  CAPTION_CHECK(x.dim(0) == frames * positions_.dim(0), "c_abstractor: rows and positions");
  kernels::vit_embeddings(stream, x, {}, positions_, placed);
  return placed;
}

ConstView CAbstractor::run_stage(Stream& stream, const std::vector<Block>& blocks,
                                 const Grids& grids, ConstView x) {
  for (const Block& block : blocks) {
    const View y = outputs_[turn_].view({x.dim(0), block.conv_3.weight.num_features()});
    turn_ = 1 - turn_;
    run_block(stream, block, grids, x, y);
    x = y;
  }
  return x;
}

void CAbstractor::run_block(Stream& stream, const Block& block, const Grids& grids, ConstView x,
                            View y) {
  const std::int64_t inner_columns = block.conv_1.weight.num_features();
  const std::int64_t frames = grids.frames;
  const auto norm = [&](const NormWeights& weights, View rows) {
    kernels::layer_norm(stream, rows, weights.weight, weights.bias, kNormEps, rows);
  };
  const auto linear = [&](ConstView from, const LinearWeights& layer, View to) {
    kernels::linear(stream, from, layer.weight, layer.bias, to);
  };
  const View inner = inner_.view({x.dim(0), inner_columns});
  linear(x, block.conv_1, inner);
  norm(block.norm_1, inner);
  kernels::silu(stream, inner, inner);
  const View mixed = mixed_.view(inner.shape());
  const Shape grid = {frames, grids.edge, grids.edge, inner_columns};
  kernels::depthwise_conv_2d(stream, inner.reshape(grid), block.depthwise, mixed.reshape(grid));
  norm(block.norm_2, mixed);
  kernels::silu(stream, mixed, mixed);

  const View means = means_.view({frames, inner_columns});
  kernels::adaptive_mean_2d(stream, mixed.reshape(grid),
                            means.reshape({frames, 1, 1, inner_columns}));
  const View squeezed = squeezed_.view({frames, block.squeeze.weight.num_features()});
  kernels::linear_silu(stream, means, block.squeeze.weight, block.squeeze.bias, squeezed);
  const View gates = gates_.view(means.shape());
  linear(squeezed, block.excite, gates);
  const Shape per_frame = {frames, grids.edge * grids.edge, inner_columns};
  kernels::sigmoid_scale(stream, mixed.reshape(per_frame), gates, mixed.reshape(per_frame));

  linear(mixed, block.conv_3, y);
  norm(block.norm_3, y);
  if (!block.shortcut) return kernels::add_silu(stream, y, x, y);
  const View shortcut = shortcut_.view(y.shape());
  linear(x, *block.shortcut, shortcut);
  norm(block.shortcut_norm, shortcut);
  kernels::add_silu(stream, y, shortcut, y);
}

std::int64_t CAbstractor::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Scratch* const scratch : {&prepared_, &inner_, &mixed_, &means_, &squeezed_, &gates_,
                                       &shortcut_, &outputs_[0], &outputs_[1], &pooled_}) {
    sum += scratch->size_bytes();
  }
  return sum;
}

}  // namespace caption::model
