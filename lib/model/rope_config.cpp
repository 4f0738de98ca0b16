// The rotary embedding that a config.json asks for.
// Source: transformers 4.57 modeling_rope_utils.py.
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "model/internal/config.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMaxPositions = std::int64_t{1} << 28;

void reject_partial_rotation(const JsonObject& config) {
  if (config.get_double("partial_rotary_factor", 1.0) == 1.0) return;
  throw_unavailable(config,
                    "partial_rotary_factor: rotating a part of a head is not supported by this "
                    "build; run another model");
}

// `type` is the older name of `rope_type`; a configuration may have both. Without either, nothing
// is scaled. "mrope" as the older name says that tokens have positions along several axes
// (mrope_section), and scales nothing.
std::string parse_type(const JsonObject& scaling) {
  const std::string old_name = scaling.get_string("type", "");
  if (old_name == "mrope" && scaling.has("mrope_section")) return "default";
  const std::string name = scaling.get_string("rope_type", old_name);
  if (!old_name.empty() && name != old_name) {
    throw_bad(scaling, "type is \"" + old_name + "\" and rope_type is \"" + name +
                           "\"; one kind of scaling was expected");
  }
  if (name.empty() && scaling.has("factor")) throw_bad(scaling, "rope_type is missing");
  return name.empty() ? "default" : name;
}

RopeKind parse_kind(const JsonObject& scaling, const std::string& type) {
  for (const RopeKind kind : {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kDynamic,
                              RopeKind::kYarn, RopeKind::kLlama3}) {
    if (rope_kind_name(kind) == type) return kind;
  }
  throw_unavailable(scaling, "rope type \"" + type +
                                 "\" is not supported by this build; default, linear, dynamic, "
                                 "yarn and llama3 are");
}

// Whether the value is finite as a 32-bit float, in which frequencies are computed.
bool is_float(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

double require_positive(const JsonObject& scaling, std::string_view key) {
  if (!scaling.has(key)) throw_bad(scaling, std::string(key) + " is missing");
  const double value = scaling.get_double(key, 0);
  if (!(value > 0)) {
    throw_bad(scaling, std::string(key) + " must be greater than 0, found " + json_number(value));
  }
  return value;
}

// A value of 0 counts as absent, as it does in the reference.
double get_positive(const JsonObject& scaling, std::string_view key, double fallback) {
  return scaling.get_double(key, 0) == 0 ? fallback : require_positive(scaling, key);
}

void parse_yarn(const JsonObject& scaling, RopeSpec& rope) {
  rope.beta_fast = get_positive(scaling, "beta_fast", 32);
  rope.beta_slow = get_positive(scaling, "beta_slow", 1);
  rope.truncate = scaling.get_bool("truncate", true);
  if (scaling.has("attention_factor")) {
    rope.attention_factor = require_positive(scaling, "attention_factor");
  }
  rope.mscale = scaling.get_double("mscale", 0);
  rope.mscale_all_dim = scaling.get_double("mscale_all_dim", 0);
  const double attention_factor = yarn_attention_factor(rope);
  if (!is_float(attention_factor) || !(static_cast<float>(attention_factor) > 0)) {
    throw_bad(
        scaling,
        "attention_factor, mscale and mscale_all_dim must give a factor of the attention that "
        "is finite and greater than 0, found " +
            json_number(attention_factor));
  }
}

void parse_llama3(const JsonObject& scaling, RopeSpec& rope) {
  rope.low_freq_factor = require_positive(scaling, "low_freq_factor");
  rope.high_freq_factor = require_positive(scaling, "high_freq_factor");
  if (!(rope.high_freq_factor > rope.low_freq_factor)) {
    throw_bad(scaling, "high_freq_factor must be greater than low_freq_factor, found " +
                           json_number(rope.high_freq_factor) + " and " +
                           json_number(rope.low_freq_factor));
  }
  rope.original_max_position =
      scaling.require_int("original_max_position_embeddings", 1, kMaxPositions);
}

}  // namespace

// `rope_parameters` (transformers 5) holds theta and scaling; older configurations have a key for
// each.
RopeSpec parse_rope(const JsonObject& config, std::int64_t max_positions, double default_theta) {
  reject_partial_rotation(config);
  const auto parameters = config.get_object("rope_parameters");
  const JsonObject& theta_owner =
      parameters && parameters->has("rope_theta") ? *parameters : config;
  RopeSpec rope;
  rope.theta = theta_owner.get_double("rope_theta", default_theta);
  if (!(rope.theta > 1) || !is_float(rope.theta)) {
    throw_bad(theta_owner,
              "rope_theta must be greater than 1 and finite as a 32-bit float, found " +
                  json_number(rope.theta));
  }
  const auto scaling = parameters ? parameters : config.get_object("rope_scaling");
  if (!scaling) return rope;
  reject_partial_rotation(*scaling);
  rope.kind = parse_kind(*scaling, parse_type(*scaling));
  if (rope.kind == RopeKind::kDefault) return rope;
  rope.factor = require_positive(*scaling, "factor");
  if (rope.factor < 1 || !is_float(rope.factor)) {
    throw_bad(*scaling, "factor must be at least 1 and finite as a 32-bit float, found " +
                            json_number(rope.factor));
  }
  rope.original_max_position = max_positions;
  // The stretch of the base at the original length is 1, but for roundings.
  const auto length = static_cast<double>(max_positions);
  if (rope.kind == RopeKind::kDynamic && !(rope.factor * length / length > rope.factor - 1)) {
    throw_bad(*scaling, "factor " + json_number(rope.factor) +
                            " is so large that no frequency is left; at most "
                            "1e15 is expected");
  }
  if (rope.kind == RopeKind::kYarn) {
    rope.original_max_position =
        scaling->get_int("original_max_position_embeddings", max_positions, 1, kMaxPositions);
    parse_yarn(*scaling, rope);
  }
  if (rope.kind == RopeKind::kLlama3) parse_llama3(*scaling, rope);
  return rope;
}

}  // namespace caption::model
