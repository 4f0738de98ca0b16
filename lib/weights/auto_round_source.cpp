// Checkpoints of AutoRound in its own format (quant_method "auto-round"): words as those of GPTQ or
// AWQ, by packing_format.
//   auto_round:auto_gptq, auto_round:gptq, auto   GPTQ, zeros less one (version 1)
//   auto_round, auto_round:gptqmodel              GPTQ, zeros as they are (version 2)
//   auto_round:auto_awq, auto_round:awq           AWQ, version gemm
// Source: auto-round 0.16.1 (auto_round/inference/convert_model.py, convert_hf_model;
// auto_round/export/export_to_autoround/export.py, dynamic_import_quant_linear_for_packing), with
// the same bits (tests/golden/auto_round).
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "weights/internal/coded_source.h"
#include "weights/internal/packed_config.h"

namespace caption::weights {
namespace {

struct Packing {
  std::string_view name;
  std::string_view method;  // quant_method of the same words
  std::string_view layout;
};
constexpr Packing kPackings[] = {{"auto_round:auto_gptq", "gptq", "gptq"},
                                 {"auto_round:gptq", "gptq", "gptq"},
                                 {"auto", "gptq", "gptq"},
                                 {"auto_round", "gptq", "gptq_v2"},
                                 {"auto_round:gptqmodel", "gptq", "gptq_v2"},
                                 {"auto_round:auto_awq", "awq", "gemm"},
                                 {"auto_round:awq", "awq", "gemm"}};

const Packing& packing_of(const JsonObject& config) {
  const std::string name = config.get_string("packing_format", kPackings[0].name);
  const auto* const found =
      std::find_if(std::begin(kPackings), std::end(kPackings),
                   [&](const Packing& packing) { return packing.name == name; });
  if (found != std::end(kPackings)) return *found;
  refuse_value(
      config, "packing_format " + quote_name(name),
      "auto_round, auto_round:auto_gptq, auto_round:gptqmodel and auto_round:auto_awq are");
}

}  // namespace

CodedTensors find_auto_round(const Checkpoint& file, const JsonObject& config) {
  check_packed_config(config, {"packing_format"});
  const Packing& packing = packing_of(config);
  const std::int64_t bits = config.require_int("bits", 1, 64);
  const std::int64_t group_size = config.get_int("group_size", 128, -1, 1 << 20);
  const std::string same = "{\"quant_method\":" + json_quote(packing.method) +
                           ",\"format\":" + json_quote(packing.layout) +
                           ",\"bits\":" + std::to_string(bits) +
                           ",\"group_size\":" + std::to_string(group_size) + "}";
  const JsonObject words = JsonObject::parse(same, config.name(), ErrorCode::kBadModel);
  return packing.method == "awq" ? find_awq(file, words) : find_gptq(file, words);
}

}  // namespace caption::weights
