#include "weights/internal/compressed_tensors_config.h"

#include <algorithm>
#include <string_view>

#include "base/ascii.h"
#include "base/mend_advice.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 20;  // most rows or columns of a group or block
constexpr std::size_t kMaxSchemes = 32;       // a module is tried with each of them

struct FormatName {
  std::string_view name;
  CompressedFormat format;
};
constexpr FormatName kFormats[] = {{"pack-quantized", CompressedFormat::kPackedInts},
                                   {"int-quantized", CompressedFormat::kInts},
                                   {"float-quantized", CompressedFormat::kFloats}};

JsonObject require_object(const JsonObject& parent, std::string_view key) {
  if (auto found = parent.get_object(key)) return *found;
  throw Error(ErrorCode::kBadModel, parent.name() + "." + std::string(key) +
                                        " is missing; an object was expected" +
                                        mend_advice(ErrorCode::kBadModel));
}

// "naive-quantized" has the layout of the format that its type of numbers names.
CompressedFormat read_format(const JsonObject& owner, const std::string& name, bool is_float) {
  if (name == "naive-quantized") {
    return is_float ? CompressedFormat::kFloats : CompressedFormat::kInts;
  }
  for (const FormatName& format : kFormats) {
    if (format.name != name) continue;
    if ((format.format == CompressedFormat::kFloats) == is_float) return format.format;
    refuse_value(
        owner,
        "format " + quote_name(name) + " of weights of type " +
            (is_float ? "\"float\"" : "\"int\""),
        "float-quantized of \"float\", and int-quantized and pack-quantized of \"int\" are");
  }
  refuse_value(owner, "format " + quote_name(name),
               "pack-quantized, int-quantized and float-quantized are");
}

// Returns the strategy, or the one that group_size implies without it.
std::string read_strategy(const JsonObject& weights) {
  if (weights.has("strategy")) return to_lower_ascii(weights.require_string("strategy"));
  if (!weights.has("group_size")) return "tensor";
  return weights.get_int("group_size", -1, -1, kMaxExtent) == -1 ? "channel" : "group";
}

ScaleBlock read_block(const JsonObject& weights, bool is_float) {
  const std::string strategy = read_strategy(weights);
  if (strategy == "tensor") return {.rows = 0, .columns = 0};
  if (strategy == "channel") return {.rows = 1, .columns = 0};
  if (strategy == "group") {
    const std::int64_t size = weights.require_int("group_size", 1, kMaxExtent);
    if (!is_float) require_group_size(weights, size);
    return {.rows = 1, .columns = size};
  }
  if (strategy != "block" || !is_float) {
    refuse_value(
        weights, "strategy " + quote_name(strategy),
        is_float ? "tensor, channel, group and block are" : "tensor, channel and group are");
  }
  const std::vector<std::int64_t> block = weights.get_ints("block_structure");
  const auto is_extent = [](std::int64_t extent) { return extent > 0 && extent <= kMaxExtent; };
  if (block.size() != 2 || !is_extent(block[0]) || !is_extent(block[1])) {
    throw Error(ErrorCode::kBadModel, weights.name() +
                                          ".block_structure: " + extents_to_string(block) +
                                          "; rows and columns of a block were expected" +
                                          mend_advice(ErrorCode::kBadModel));
  }
  return {.rows = block[0], .columns = block[1]};
}

// Whether weight_g_idx is expected.
bool read_order(const JsonObject& weights) {
  if (weights.is_blank("actorder")) return false;
  if (weights.type_of("actorder") == JsonType::kBool) return true;  // an older name of "group"
  const std::string order = to_lower_ascii(weights.require_string("actorder"));
  if (order == "group" || order == "dynamic") return true;
  if (order == "weight" || order == "static") return false;
  refuse_value(weights, "actorder " + quote_name(order), "group and weight are");
}

// Whatever else activations are is no error: weights are read the same, and activations of 16 bits
// are more exact.
bool read_rounds_activations(const JsonObject& group) {
  if (group.is_blank("input_activations") ||
      group.type_of("input_activations") != JsonType::kObject) {
    return false;
  }
  const JsonObject activations = require_object(group, "input_activations");
  const auto has = [&](const char* key, const char* value) {
    return activations.type_of(key) == JsonType::kString &&
           to_lower_ascii(activations.require_string(key)) == value;
  };
  const auto is_set = [&](const char* key, bool otherwise) {
    if (!activations.has(key)) return otherwise;
    return activations.type_of(key) == JsonType::kBool && activations.get_bool(key, otherwise);
  };
  const bool has_8_bits = activations.type_of("num_bits") == JsonType::kNumber &&
                          activations.get_double("num_bits", 0) == 8;
  return has_8_bits && has("type", "int") && has("strategy", "token") &&
         is_set("symmetric", true) && is_set("dynamic", false);
}

CompressionScheme read_scheme(const JsonObject& group, const std::string& format) {
  const JsonObject weights = require_object(group, "weights");
  refuse_unknown_keys(weights,
                      {"num_bits", "type", "symmetric", "strategy", "group_size", "block_structure",
                       "actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  const std::string type = to_lower_ascii(weights.get_string("type", "int"));
  if (type != "int" && type != "float") {
    refuse_value(weights, "type " + quote_name(type), "int and float are");
  }
  const bool is_float = type == "float";
  CompressionScheme scheme;
  scheme.format = read_format(group, group.get_string("format", format), is_float);
  scheme.num_bits = weights.get_int("num_bits", 8, 1, 64);
  const bool is_packed = scheme.format == CompressedFormat::kPackedInts;
  if (scheme.num_bits != 8 && (is_float || scheme.num_bits != 4)) {
    refuse_value(weights,
                 "num_bits " + std::to_string(scheme.num_bits) + " of type " + quote_name(type),
                 is_float    ? "8 is"
                 : is_packed ? "4 and 8 are"
                             : "8 and 4 are");
  }
  scheme.is_symmetric = weights.get_bool("symmetric", true);
  if (is_float && !scheme.is_symmetric) {
    refuse_value(weights, "\"symmetric\": false of type \"float\"", "symmetric weights are");
  }
  scheme.has_order = read_order(weights);
  scheme.block = read_block(weights, is_float);
  scheme.rounds_activations = read_rounds_activations(group);
  if (!scheme.is_symmetric && scheme.block.rows == 0) {
    refuse_value(weights, "\"symmetric\": false of strategy \"tensor\"",
                 "those of channel and group are");
  }
  return scheme;
}

void refuse_other_schemes(const JsonObject& config) {
  if (!config.is_blank("kv_cache_scheme")) {
    refuse_value(config, "kv_cache_scheme",
                 "null is; remove it, and the KV cache is held as the run says");
  }
  const auto sparsity = config.get_object("sparsity_config");
  if (!sparsity) return;
  const std::string format = sparsity->get_string("format", "dense");
  if (format != "dense") refuse_value(*sparsity, "format " + quote_name(format), "dense is");
}

}  // namespace

std::vector<CompressionScheme> read_compression_schemes(const JsonObject& config) {
  refuse_other_schemes(config);
  // The keys that are not read below choose modules and tell how the file was made.
  refuse_unknown_keys(config,
                      {"quant_method", "format", "config_groups", "ignore", "quantization_status",
                       "global_compression_ratio", "version", "run_compressed", "sparsity_config"});
  const std::string format = config.require_string("format");
  const JsonObject groups = require_object(config, "config_groups");
  std::vector<CompressionScheme> schemes;
  for (const std::string& name : groups.keys()) {
    if (groups.type_of(name) == JsonType::kList) {
      refuse_value(groups, "the preset " + quote_name(name), "groups that say their numbers are");
    }
    const JsonObject group = require_object(groups, name);
    refuse_unknown_keys(group, {"targets", "weights", "input_activations", "format"});
    // A group without weights rounds what its modules compute, such as the inputs of attention.
    if (group.is_blank("weights")) continue;
    const CompressionScheme scheme = read_scheme(group, format);
    if (std::find(schemes.begin(), schemes.end(), scheme) != schemes.end()) continue;
    if (schemes.size() == kMaxSchemes) {
      refuse_value(groups, "a group beyond " + std::to_string(kMaxSchemes) + " different ones",
                   "at most so many are");
    }
    schemes.push_back(scheme);
  }
  if (schemes.empty()) {
    throw Error(ErrorCode::kBadModel, config.name() + ".config_groups holds no group with weights" +
                                          mend_advice(ErrorCode::kBadModel));
  }
  return schemes;
}

}  // namespace caption::weights
