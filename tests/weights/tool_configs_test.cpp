// Configurations as quantisers write them: the goldens of packed files
// (scripts/make_goldens_packed.py, scripts/make_goldens_compressed_tensors.py) with the whole
// quantization_config of a tool.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "tests/weights/quantised_files.h"

namespace caption::weights {
namespace {

using namespace testing;

// What QuantizeConfig.to_dict() of GPTQModel 7.7.0 gives beside the format's keys, after
// save_quantized() has set meta.
constexpr const char* kMeta =
    R"("desc_act":false,"lm_head":false,"pack_dtype":"int32","group_size":32,"bits":4,"meta":{)"
    R"("act_group_aware":true,"auto_forward_data_parallel":true,"damp_auto_increment":0.01,)"
    R"("damp_percent":0.05,"dense_vram_strategy":"exclusive","dense_vram_strategy_devices":null,)"
    R"("fallback":{"smooth":null,"strategy":"rtn","threshold":"0.5%"},"gc_mode":"interval",)"
    R"("gptaq":null,"hessian":{"chunk_bytes":null,"chunk_size":null,"dedup_shared_inputs":true,)"
    R"("staging_dtype":"float32"},"mock_quantization":false,"mse":0.0,"offload_to_disk":true,)"
    R"("offload_to_disk_path":"/tmp/gptqmodel_zt29qd8f","pack_impl":"auto",)"
    R"("quantizer":["gptqmodel:7.7.0"],"static_groups":false,"telemetry":{"device":false},)"
    R"("true_sequential":true,"uri":"https://github.com/modelcloud/gptqmodel",)"
    R"("wait_for_submodule_finalizers":false})";
const std::string kGptqModel =
    std::string(kMeta) +
    R"(,"quant_method":"gptq","method":"gptq","format":"gptq","checkpoint_format":"gptq",)"
    R"("sym":false)";
const std::string kGptqModelAwq =
    std::string(kMeta) +
    R"(,"quant_method":"awq","method":"awq","format":"gemm","checkpoint_format":"gemm",)"
    R"("version":"gemm","zero_point":true)";

// What AutoRound 0.9 writes with the formats auto_awq and auto_gptq, for settings that are not its
// defaults, which it leaves out.
constexpr const char* kAutoRoundKeys =
    R"("autoround_version":"0.9.0","provider":"auto-round","data_type":"int","bits":4,)"
    R"("group_size":32,"sym":false,"iters":1000,"nsamples":512,"seqlen":1024,"lr":0.001,)"
    R"("minmax_lr":0.001,"batch_size":4,"amp":false,"low_gpu_mem_usage":true,)"
    R"("enable_minmax_tuning":false,"enable_norm_bias_tuning":true,"enable_quanted_input":false,)"
    R"("gradient_accumulate_steps":2,"scale_dtype":"torch.bfloat16",)"
    R"("to_quant_block_names":["model.layers"],"static_attention_granularity":"tensor",)"
    R"("static_kv_granularity":"tensor")";
const std::string kAutoRoundAwq = std::string(kAutoRoundKeys) +
                                  R"(,"quant_method":"awq","version":"gemm","zero_point":true,)"
                                  R"("modules_to_not_convert":["model.visual"])";
const std::string kAutoRoundGptq =
    std::string(kAutoRoundKeys) +
    R"(,"quant_method":"gptq","desc_act":false,"damp_percent":0.01,"true_sequential":false,)"
    R"("lm_head":false,"modules_in_block_to_quantize":[["mlp.up_proj"]],)"
    R"("block_name_to_quantize":"model.layers")";

// What AwqConfig.to_dict() of transformers 5 gives: it is a GPTQConfig, too.
const std::string kTransformersAwq =
    R"("quant_method":"awq","bits":4,"group_size":32,"zero_point":true,"format":"gemm",)"
    R"("backend":"auto","tokenizer":null,"dataset":null,"damp_percent":0.1,"desc_act":false,)"
    R"("act_group_aware":true,"sym":true,"true_sequential":true,"meta":null,"model_seqlen":null,)"
    R"("block_name_to_quantize":null,"module_name_preceding_first_block":null,"batch_size":1,)"
    R"("pad_token_id":null,"max_input_length":null,"cache_block_outputs":true,)"
    R"("modules_in_block_to_quantize":null,"modules_to_not_convert":null)";

std::string quoted_config(const std::string& members) {
  return R"({"quantization_config":{)" + members + "}}";
}

// Reads a golden with another configuration; returns the message of the error, or nothing.
std::string refusal_with(const char* golden, const std::string& members, ErrorCode code) {
  QuantisedFiles files(quantised_golden("packed", golden));
  files.config = quoted_config(members);
  return error_of_files(files, {32, golden == std::string("awq_g32") ? 96 : 64}, code);
}

// Whether the weight of changed files has the bits of the golden's.
bool reads_as(const QuantisedFiles& files, const std::filesystem::path& golden,
              const Shape& shape) {
  const auto changed = files.open();
  const auto unchanged = open_source(golden);
  return count_unequal_bits(changed->read(kCodedWeight, shape),
                            unchanged->read(kCodedWeight, shape)) == 0;
}

}  // namespace

TEST_SUITE_BEGIN("weights/tool_configs");

// scripts/make_goldens_auto_round.py
TEST_CASE("AutoRound's own format is read with the bits that its classes dequantise") {
  for (const char* const name :
       {"auto_awq", "auto_gptq", "auto_gptq_symmetric", "gptqmodel", "plain_8_bits"}) {
    CAPTURE(std::string(name));
    const auto golden = quantised_golden("auto_round", name);
    const ExpectedWeights expected(golden);
    const Shape shape = expected.weight().shape();
    const auto source = open_source(golden);
    CHECK(count_unequal_bits(source->read(kCodedWeight, shape), expected.weight()) == 0);
    CHECK(source->codes_of(kCodedWeight)->method ==
          (name == std::string("auto_awq") ? "awq" : "gptq"));
  }
}

TEST_CASE("what AutoRound's format says otherwise is refused by name") {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kRows[] = {
      {"auto_round:auto_gptq", "auto_round:exllamav2",
       "packing_format \"auto_round:exllamav2\" is not read by this build; auto_round, "
       "auto_round:auto_gptq, auto_round:gptqmodel and auto_round:auto_awq are"},
      {"\"bits\": 4", "\"bits\": 3", "GPTQ with 3 bits is not read by this build"},
      {"\"bits\": 16", "\"bits\": 8",
       "extra_config: a rule of its own for modules \"model.visual.merger\" is not read"},
      {"\"data_type\": \"int\",\n  \"extra", "\"data_type\": \"fp\",\n  \"extra",
       "data_type \"fp\" is not read by this build; int is"},
      {"\"iters\"", "\"act_bits\"", "\"act_bits\" is not known to this build"},
  };
  for (const auto& row : kRows) {
    CAPTURE(std::string(row.to));
    QuantisedFiles files(quantised_golden("auto_round", "auto_gptq"));
    files.replace_config(row.from, row.to);
    CHECK(contains_text(error_of_files(files, {32, 64}, ErrorCode::kUnavailable), row.message));
  }
}

TEST_CASE("the configurations of GPTQModel, AutoRound and transformers are read") {
  const struct {
    const char* golden;
    std::string config;
  } kRows[] = {
      {"gptqmodel_v1", kGptqModel},
      {"gptqmodel_v1", kGptqModel + R"(,"dynamic":{"-:.*visual.*":{},"-:lm_head":{}})"},
      {"gptqmodel_v1",
       kGptqModel + R"(,"dynamic":{"+:lm_head":{"bits":4,"group_size":32,"sym":true}})"},
      {"awq_g32", kGptqModelAwq},
      {"awq_g32", kAutoRoundAwq},
      {"awq_g32", kTransformersAwq},
      {"auto_gptq_zeros_of_0", kAutoRoundGptq},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.config);
    const auto golden = quantised_golden("packed", row.golden);
    QuantisedFiles files(golden);
    files.config = quoted_config(row.config);
    const ExpectedWeights expected(golden);
    const auto source = files.open();
    const ConstView read = source->read(kCodedWeight, expected.weight().shape());
    CHECK(count_unequal_bits(read, expected.weight()) == 0);
  }
}

TEST_CASE("what a configuration of such a tool says otherwise is refused by name") {
  const struct {
    const char* golden;
    std::string config;
    const char* message;
  } kRows[] = {
      {"gptqmodel_v1", kGptqModel + R"(,"rotation":"hadamard")", "\"rotation\" is not known"},
      {"gptqmodel_v1", kGptqModel + R"(,"dynamic":{"+:.*down.*":{"bits":8}})",
       "quantization_config.dynamic: a rule of its own for modules \"+:.*down.*\" is not read by "
       "this build; rules that leave modules without codes are"},
      {"gptqmodel_v1", kGptqModel + R"(,"dynamic":{"down":{"desc_act":true}})",
       "a rule of its own for modules \"down\""},
      {"awq_g32", kGptqModelAwq + R"(,"dynamic":{"down":null})",
       "a rule of its own for modules \"down\""},
      {"awq_g32", kAutoRoundAwq + R"(,"act_bits":8)", "\"act_bits\" is not known"},
      {"gptqmodel_v1", kAutoRoundGptq + R"(,"format":"gptq","checkpoint_format":"gptq_v2")",
       "checkpoint_format \"gptq_v2\" with format \"gptq\" is not read by this build; one layout "
       "is"},
      {"awq_g32", kTransformersAwq + R"(,"data_type":"mx_fp")", "data_type \"mx_fp\" is not read"},
      {"awq_g32", kTransformersAwq + R"(,"method":"paroquant")",
       "method \"paroquant\" is not read by this build; awq is"},
      {"awq_g32", kTransformersAwq + R"(,"pack_dtype":"int16")", "pack_dtype \"int16\" is not"},
      {"gptqmodel_v1", kAutoRoundGptq + R"(,"format":"gptq_p")",
       "format \"gptq_p\" is not read by this build; gptq and gptq_v2 are"},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.config);
    CHECK(
        contains_text(refusal_with(row.golden, row.config, ErrorCode::kUnavailable), row.message));
  }
  CHECK(contains_text(
      refusal_with("gptqmodel_v1", kGptqModel + R"(,"dynamic":[1])", ErrorCode::kBadModel),
      "quantization_config.dynamic"));
}

TEST_CASE("a captioner may have the configuration in that of its language model") {
  const auto golden = quantised_golden("packed", "awq_g32");
  const ExpectedWeights expected(golden);
  for (const char* const part : {"text_config", "llm_config"}) {
    CAPTURE(std::string(part));
    QuantisedFiles files(golden);
    files.config = std::string("{\"") + part + "\":" + quoted_config(kGptqModelAwq) + "}";
    const auto source = files.open();
    const ConstView read = source->read(kCodedWeight, expected.weight().shape());
    CHECK(count_unequal_bits(read, expected.weight()) == 0);
  }
}

TEST_CASE("a group of compressed-tensors without weights rounds other things") {
  const auto golden = quantised_golden("compressed_tensors", "w4_g32");
  const Shape shape = ExpectedWeights(golden).weight().shape();
  QuantisedFiles files(golden);
  files.replace_config(R"("config_groups": {)",
                       R"("config_groups": {"attention": {"targets": ["re:.*self_attn$"], )"
                       R"("weights": null, "input_activations": {"num_bits": 8, "type": "float", )"
                       R"("strategy": "tensor"}, "output_activations": null},)");
  CHECK(reads_as(files, golden, shape));

  QuantisedFiles none(golden);
  none.config = quoted_config(
      R"("quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{)"
      R"("attention":{"targets":["re:.*self_attn$"],"input_activations":{"num_bits":8}}})");
  CHECK(contains_text(error_of_files(none, shape, ErrorCode::kBadModel),
                      "config_groups holds no group with weights"));
}

// FineGrainedFP8Config.to_dict() of transformers 5.24.
TEST_CASE("the configuration of FP8 that transformers 5 writes is read") {
  const auto golden = quantised_golden("compressed_tensors", "plain_fp8_block");
  const std::string config =
      R"("quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[128,128],)"
      R"("dequantize":false,"modules_to_not_convert":["lm_head"],"modules_to_convert":null,)"
      R"("scale_fmt":"float","expert_dtype":)";
  const Shape shape = ExpectedWeights(golden).weight().shape();
  QuantisedFiles files(golden);
  files.config = quoted_config(config + R"("fp8")");
  CHECK(reads_as(files, golden, shape));
  files.config = quoted_config(config + R"("fp4")");
  CHECK(contains_text(error_of_files(files, shape, ErrorCode::kUnavailable),
                      "expert_dtype \"fp4\" is not read by this build; fp8 is"));
}

TEST_CASE("no mutated file of AutoRound does worse than an error") {
  check_mutated_files("auto_round", {"auto_awq", "auto_gptq", "gptqmodel", "plain_8_bits"}, 5);
}

TEST_SUITE_END();

}  // namespace caption::weights
