// Tests parsing a preset: accepted values, and the positions named in errors.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "backend/machine.h"
#include "base/error.h"
#include "config/fields.h"
#include "config/parse_preset.h"
#include "config/preset.h"

namespace caption::config {
namespace {

std::string refusal(const std::string& yaml) {
  try {
    parse_preset(yaml, "p.yaml");
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadPreset);
    return error.what();
  }
}

std::string flag_refusal(const std::string& key, const std::string& value) {
  Preset preset;
  try {
    apply_override(preset, {key, value, "--flag"});
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
}

TEST_SUITE("config/parse_preset") {
  TEST_CASE("takes values of every kind, and keeps the defaults of the rest") {
    const Preset preset = parse_preset(
        "device: {type: cuda, memory_utilization: 0.9}\n"
        "model: some/name\n"
        "engine:\n  batching: static\n  chunked_prefill: off\n"
        "speculative:\n"
        "generation:\n  temperature: 1e-1\n  prompt: \"true\"\n  seed: 7\n"
        "video: {sampling: fps=2.5}\n",
        "p.yaml");
    CHECK(preset.device.type == DeviceType::kCuda);
    CHECK(preset.device.memory_utilization == 0.9);
    CHECK(preset.model.path == "some/name");
    CHECK(preset.engine.batching == BatchMode::kStatic);
    CHECK_FALSE(preset.engine.chunked_prefill);
    CHECK(preset.generation.temperature == 0.1);
    CHECK(preset.generation.prompt == "true");
    CHECK(preset.generation.seed == 7);
    CHECK(preset.generation.max_new_tokens == Preset{}.generation.max_new_tokens);
    const Preset negative = parse_preset("generation: {temperature: -0.0}", "p.yaml");
    CHECK_FALSE(std::signbit(negative.generation.temperature));
    CHECK(parse_preset("", "p.yaml").video == Preset{}.video);
    CHECK(parse_preset("# only a comment\n", "p.yaml").video == Preset{}.video);
  }

  TEST_CASE("names the key of an option that is written as its flag") {
    const auto refusal = [](const char* yaml) -> std::string {
      try {
        parse_preset(yaml, "p.yaml");
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    CHECK(refusal("video:\n  frames: 4\n").ends_with("; --frames is video.num_frames in a preset"));
    CHECK(refusal("generation:\n  kv_dtype: f32\n")
              .ends_with("; --kv-dtype is quantization.kv_cache in a preset"));
    CHECK(refusal("dtype: int8\n").ends_with("; --dtype is quantization.weights in a preset"));
    CHECK(refusal("drafts:\n  method: self\n")
              .ends_with("; --drafts is speculative.method in a preset"));
    CHECK(refusal("engine:\n  max_num_sqs: 4\n").ends_with("; did you mean max_num_seqs?"));
  }

  TEST_CASE("says where and what is wrong") {
    struct Case {
      const char* yaml;
      const char* message;  // how the message begins
    };
    constexpr Case kCases[] = {
        {"engin:\n  max_num_seqs: 4\n", "p.yaml:1:1: unknown section \"engin\""},
        {"engine:\n  max_seqs: 4\n", "p.yaml:2:3: unknown key \"engine.max_seqs\""},
        {"engine:\n  kv_cache_bytes: 4X\n",
         "p.yaml:2:19: engine.kv_cache_bytes: expected a size such as 4GiB, 800M or 4096 (bytes), "
         "found \"4X\""},
        {"engine:\n  kv_cache_bytes: -1\n",
         "p.yaml:2:19: engine.kv_cache_bytes: expected 0 to 1PiB, found \"-1\""},
        {"engine:\n  kv_cache_bytes: 2048TiB\n",
         "p.yaml:2:19: engine.kv_cache_bytes: expected 0 to 1PiB, found \"2048TiB\""},
        {"engine:\n  kv_cache_bytes: 99999999999999999999 GiB\n",
         "p.yaml:2:19: engine.kv_cache_bytes: expected 0 to 1PiB, found \"99999999999999999999 "
         "GiB\""},
        {"engine:\n  kv_cache_dir_bytes: 1K\n",
         "p.yaml:2:23: engine.kv_cache_dir_bytes: expected 1MiB to 1PiB, found \"1K\""},
        {"video:\n  decode_timeout_s: 5x\n",
         "p.yaml:2:21: video.decode_timeout_s: expected a time such as 90s, 5m, 1h30m or 90 "
         "(seconds), found \"5x\""},
        {"video:\n  decode_timeout_s: 2d\n",
         "p.yaml:2:21: video.decode_timeout_s: expected 1ms to 1d, found \"2d\""},
        {"video:\n  decode_timeout_s: 0\n",
         "p.yaml:2:21: video.decode_timeout_s: expected 1ms to 1d, found \"0\""},
        {"engine:\n  max_num_seqs: 4K\n",
         "p.yaml:2:17: engine.max_num_seqs: expected an integer, found \"4K\""},
        {"engine: 4\n", "p.yaml:1:1: \"engine\" is a section"},
        {"engine:\n  max_num_seqs: 4\n  max_num_seqs: 5\n",
         "p.yaml:3:3: key \"engine.max_num_seqs\" appears twice"},
        {"engine: {}\nengine: {}\n", "p.yaml:2:1: key \"engine\" appears twice"},
        {"engine:\n  max_num_seqs: four\n",
         "p.yaml:2:17: engine.max_num_seqs: expected an integer, found \"four\""},
        {"engine:\n  max_num_seqs: 4.5\n", "p.yaml:2:17: engine.max_num_seqs: expected an integer"},
        {"engine:\n  max_num_seqs: \"4\"\n",
         "p.yaml:2:17: engine.max_num_seqs: expected an integer"},
        {"engine:\n  max_num_seqs: 0\n",
         "p.yaml:2:17: engine.max_num_seqs: expected 1 to 4096, found \"0\""},
        {"engine:\n  max_num_seqs: 99999999999999999999\n",
         "p.yaml:2:17: engine.max_num_seqs: expected 1 to 4096"},
        {"engine:\n  max_num_seqs:\n", "p.yaml:"},
        {"engine:\n  chunked_prefill: yes\n",
         "p.yaml:2:20: engine.chunked_prefill: expected true or false, or on or off, found "
         "\"yes\""},
        {"generation:\n  prompt: \"a\\0b\"\n",
         "p.yaml:2:11: generation.prompt: the text holds a NUL character, \"a\\u0000b\""},
        {"engine:\n\tbatching: static\n",
         "p.yaml:2:10: not valid YAML (illegal map value); the line is indented by a tab, and YAML "
         "takes spaces"},
        {"engine: {batching: [a}\n",
         "p.yaml:1:22: not valid YAML (illegal flow end); a preset has "},
        {"engine:\n  batching: dynamic\n",
         "p.yaml:2:13: engine.batching: expected one of continuous, static"},
        {"generation:\n  temperature: nan\n", "p.yaml:2:16: generation.temperature: expected"},
        {"generation:\n  temperature: inf\n", "p.yaml:2:16: generation.temperature: expected"},
        {"generation:\n  temperature: .inf\n", "p.yaml:2:16: generation.temperature: expected"},
        {"generation:\n  temperature: 1e999\n", "p.yaml:2:16: generation.temperature: expected"},
        {"generation:\n  temperature: 0x1p3\n", "p.yaml:2:16: generation.temperature: expected"},
        {"generation:\n  top_p: 0\n", "p.yaml:2:10: generation.top_p: expected"},
        {"generation: {min_new_tokens: 9, max_new_tokens: 8}\n",
         "p.yaml:1:30: generation.min_new_tokens 9"},
        {"video:\n  sampling: random\n", "p.yaml:2:13: video.sampling: \"random\" is not known"},
        {"engine: [1, 2]\n", "p.yaml:1:9: a list"},
        {"- device\n", "p.yaml:1:1: a list"},
        {"engine:\n  max_num_seqs: [4]\n",
         "p.yaml:2:17: engine.max_num_seqs: expected one value, found a list"},
        {"engine:\n  kv_cache_dir: [a]\n", "p.yaml:2:17: engine.kv_cache_dir: expected one value"},
        {"generation:\n  stop: [a, [b]]\n", "p.yaml:2:13: a list"},
        {"generation:\n  stop: [a, {b: c}]\n", "p.yaml:2:13: a map in a list"},
        {"generation:\n  stop: [a, b: c]\n", "p.yaml:2:13: a map in a list"},
        {"generation:\n  stop: [a, ~]\n", "p.yaml:2:13: a list with nothing in a place"},
        {"generation:\n  stop: [a, \"\"]\n", "p.yaml:2:9: generation.stop: the text is empty"},
        {"generation:\n  stop: \"\"\n", "p.yaml:2:9: generation.stop: the text is empty"},
        {"generation:\n  stop: [a\n", "p.yaml:"},
        {"just text\n", "p.yaml:1:1: expected sections"},
        {"engine:\n  batching: {a: b}\n", "p.yaml:2:13: a map below a section"},
        {"a: &x {b: *x}\n", "p.yaml:1:"},
        {"engine: &x\n  batching: *x\n", "p.yaml:"},
        {"model: !!str x\n", "p.yaml:1:8: tags"},
        {"model: a\n---\nmodel: b\n", "p.yaml:2:"},
        {"model: \"unfinished\n", "p.yaml:"},
        {"engine:\n\tbatching: static\n", "p.yaml:"},
        {"model: {vision: a, llm: b}\n", "p.yaml:1:1: model.projector is missing"},
        {"model: {vision: a, llm: b, projector: c, prompt: none}\n",
         "p.yaml:1:1: model.prompt has no {video}"},
        {"model: \xff\xfe\n", "p.yaml:1:1: not a text in UTF-8"},
    };
    for (const Case& c : kCases) {
      const std::string yaml = c.yaml;
      CAPTURE(yaml);
      const std::string message = refusal(yaml);
      CAPTURE(message);
      CHECK(message.starts_with(c.message));
      CHECK(message.find('\n') == std::string::npos);
    }
  }

  TEST_CASE("a choice that is not known names the nearest, in any case") {
    CHECK(refusal("quantization:\n  weights: BF16\n")
              .ends_with("found \"BF16\"; did you mean bf16?"));
    CHECK(refusal("device:\n  type: CPU\n").ends_with("found \"CPU\"; did you mean cpu?"));
    for (const char* name : {"gpu", "GPU"}) {
      CAPTURE(name);
      const std::string message = refusal("device:\n  type: " + std::string(name) + "\n");
      CHECK(message.ends_with(has_cuda_kernels()
                                  ? "; did you mean cuda?"
                                  : "; a GPU is cuda, for which this build has no kernels"));
    }
  }

  TEST_CASE("a list is one of texts; one text is a list, too") {
    const auto stop = [](const std::string& value) {
      return parse_preset("generation:\n  stop: " + value + "\n", "p.yaml").generation.stop;
    };
    using Texts = std::vector<std::string>;
    CHECK(stop("끝") == Texts{"끝"});
    CHECK(stop("[끝, \"\\n\", 7]") == Texts{"끝", "\n", "7"});
    CHECK(stop("\n    - a b\n    - 'c'") == Texts{"a b", "c"});
    CHECK(stop("[]").empty());
    Preset preset;
    preset.generation.stop = {"a, \"b\"", "]\n"};
    CHECK(parse_preset(to_yaml(preset), preset.name) == preset);
  }

  TEST_CASE("examples are maps of texts, or JSON") {
    const auto examples = [](const std::string& value) {
      return parse_preset("generation:\n  examples: " + value + "\n", "p.yaml").generation.examples;
    };
    using Texts = std::vector<std::string>;
    const std::string yaml =
        "\n    - caption: \"비: 'a'\"\n    - {video: a b.mp4, caption: 7, prompt: '왜?'}\n"
        "    - '{\"caption\":\"c\"}'";
    const Texts expected = {R"({"caption": "비: 'a'"})",
                            R"({"video": "a b.mp4", "prompt": "왜?", "caption": "7"})",
                            R"({"caption": "c"})"};
    CHECK(examples(yaml) == expected);
    CHECK(examples("[]").empty());
    Preset preset;
    preset.generation.examples = expected;
    preset.generation.examples.push_back(R"({"caption": "a\n\"b\" \u0001 # c"})");
    preset.generation.system = "x: #";
    CHECK(parse_preset(to_yaml(preset), preset.name) == preset);

    const auto refused = [](const std::string& value) {
      return refusal("generation:\n  examples: " + value + "\n");
    };
    CHECK(refused("[{video: a.mp4}]").find("caption") != std::string::npos);
    CHECK(refused("[{caption: ' '}]").find("example 1: the caption is empty") != std::string::npos);
    CHECK(refused("[{caption: a}, {caption: a, text: b}]")
              .find("example 2: unknown key \"text\"; there are video, prompt, caption") !=
          std::string::npos);
    CHECK(refused("[{caption: a, caption: b}]").find("appears twice") != std::string::npos);
    CHECK(refused("[{caption: [a]}]").find("a list") != std::string::npos);
    CHECK(refused("[{caption: {a: b}}]").find("a map") != std::string::npos);
    CHECK(refused("[{caption:}]").find("missing") != std::string::npos);
    CHECK(refused("[a]").find("example 1: expected {\"video\"") != std::string::npos);
    CHECK(refused("[{caption: a}").size() > 0);
    CHECK(refusal("generation:\n  stop: [{caption: a}]\n").find("a map in a list") !=
          std::string::npos);
  }

  TEST_CASE("sizes and times have units, or are bytes and seconds") {
    const auto parse = [](const std::string& size, const std::string& time) {
      return parse_preset(
          "engine: {kv_cache_bytes: " + size + "}\nvideo: {decode_timeout_s: " + time + "}\n",
          "p.yaml");
    };
    struct Case {
      const char* size;
      std::int64_t bytes;
      const char* time;
      double seconds;
    };
    constexpr Case kCases[] = {{"4GiB", 4LL << 30, "90s", 90},
                               {"\"1.5 G\"", 3LL << 29, "\"1h30m\"", 5400},
                               {"4294967296", 4LL << 30, "1.5", 1.5},
                               {"800MB", 800'000'000, "250ms", 0.25}};
    for (const Case& c : kCases) {
      CAPTURE(c.size);
      const Preset preset = parse(c.size, c.time);
      CHECK(preset.engine.kv_cache_bytes == c.bytes);
      CHECK(preset.video.decode_timeout_s == c.seconds);
      CHECK(parse_preset(to_yaml(preset), preset.name) == preset);
    }
    const std::string yaml = to_yaml(parse("4GiB", "90"));
    CHECK(yaml.find("  kv_cache_bytes: 4GiB  # ") != std::string::npos);
    CHECK(yaml.find(" [0 to 1PiB]\n") != std::string::npos);
    CHECK(yaml.find("  decode_timeout_s: 1m30s  # ") != std::string::npos);
    CHECK(yaml.find(" [1ms to 1d]\n") != std::string::npos);
  }

  TEST_CASE("a name that is nearly right is answered with the right one") {
    CHECK(refusal("engine: {max_seqs: 4}").ends_with("; did you mean max_num_seqs?"));
    CHECK(refusal("engin: {max_num_seqs: 4}").ends_with("; did you mean engine?"));
    CHECK(refusal("quantization: {weights: int88}").ends_with("; did you mean int8?"));
    CHECK(flag_refusal("quantization.weights", "bf61").ends_with("; did you mean bf16?"));
    CHECK(refusal("engine: {zzz: 4}").find("did you mean") == std::string::npos);
  }

  TEST_CASE("nesting without end and files without end are refused") {
    CHECK(refusal(std::string(20000, '[')).starts_with("p.yaml:1:"));
    CHECK(refusal(std::string(20000, '{')).starts_with("p.yaml:1:"));
    CHECK(refusal(std::string(1 << 20, ' ')).find("bytes") != std::string::npos);
  }

  TEST_CASE("a model may be a map of parts") {
    const Preset preset = parse_preset(
        "model:\n  vision: clip\n  projector: p.safetensors\n  llm: qwen\n  pooling: 2\n"
        "  vision_feature_layer: -2\n  prompt: '{video}{prompt}'\n",
        "p.yaml");
    CHECK(preset.model.is_composed);
    CHECK(preset.model.vision == "clip");
    CHECK(preset.model.pooling == 2);
    CHECK(preset.model.vision_feature_layer == std::vector<std::int64_t>{-2});
    const Preset several = parse_preset(
        "model: {vision: a, llm: b, projector: c, vision_feature_layer: [-2, 12], projector_type: "
        "c_abstractor, projector_hidden_act: relu, projector_tokens: 144, tensor_names: "
        "['projector:a.=b.', 'x.=']}\n",
        "p");
    CHECK(several.model.vision_feature_layer == std::vector<std::int64_t>{-2, 12});
    CHECK(several.model.projector_type == ProjectorType::kCAbstractor);
    CHECK(several.model.projector_hidden_act == HiddenAct::kRelu);
    CHECK(several.model.tensor_names == std::vector<std::string>{"projector:a.=b.", "x.="});
    CHECK(parse_preset(to_yaml(several), "p") == several);
    CHECK(to_yaml(several).find("vision_feature_layer: [-2, 12]  #") != std::string::npos);
    CHECK(to_yaml(preset).find("vision_feature_layer: -2  #") != std::string::npos);
    CHECK(refusal("model: {vision: a, llm: b, projector: c, vision_feature_layer: [-2, x]}")
              .find("expected an integer, found \"x\"") != std::string::npos);
    CHECK(refusal("model: {vision: a, llm: b, projector: c, vision_feature_layer: []}")
              .find("expected 1 to 64 integers") != std::string::npos);
    CHECK(refusal("model: {vision: a, llm: b, projector: c, projector_type: perceiver}")
              .ends_with("did you mean perceiver_resampler?"));
    // Parts beside a whole model would be ignored.
    const std::string both = refusal("model:\n  path: m\n  prompt: '{video}{prompt}'\n");
    CHECK(both.find("model.prompt is of a composed model") != std::string::npos);
    CHECK(refusal("model: {path: m, llm: l}").find("model.llm is of") != std::string::npos);
  }

  TEST_CASE("numbers with leading zeros, which YAML 1.1 and 1.2 read differently, are refused") {
    for (const char* const text :
         {"generation: {max_new_tokens: 010}", "generation: {num_logprobs: -01}",
          "generation: {temperature: 00.5}", "engine: {kv_cache_bytes: 01024}",
          "video: {decode_timeout_s: 010}", "video: {decode_timeout_s: 01m}",
          "engine: {kv_cache_bytes: 010MiB}",
          "model: {vision: a, llm: b, projector: c, vision_feature_layer: [-02, 12]}"}) {
      CAPTURE(std::string(text));
      CHECK(refusal(text).ends_with("; leave out the leading zeros"));
    }
    CHECK(refusal("generation: {max_new_tokens: 010}")
              .find("generation.max_new_tokens: expected an integer, found \"010\"") !=
          std::string::npos);
    const Preset preset = parse_preset(
        "generation: {seed: 0, temperature: 0.5}\nengine: {attention_threshold: 0}", "p");
    CHECK(preset.generation.seed == 0);
    CHECK(preset.generation.temperature == 0.5);
  }

  TEST_CASE("adapters stand beside a path, beside parts, or alone") {
    using Texts = std::vector<std::string>;
    const Preset beside = parse_preset("model: {path: m, adapter: x}\n", "p");
    CHECK(beside.model.path == "m");
    CHECK((beside.model.adapter == Texts{"x"}));
    const Preset parts =
        parse_preset("model: {vision: a, llm: b, projector: c, adapter: [n=x, y]}\n", "p");
    CHECK(parts.model.is_composed);
    CHECK((parts.model.adapter == Texts{"n=x", "y"}));
    const Preset alone = parse_preset("model: {adapter: [x]}\n", "p");
    CHECK(alone.model.path == Preset().model.path);
    CHECK((alone.model.adapter == Texts{"x"}));
    for (const Preset& preset : {beside, parts, alone}) {
      CHECK(parse_preset(to_yaml(preset), "p") == preset);
    }
    CHECK(refusal("model: {}\n").find("model.vision is missing") != std::string::npos);
  }

  TEST_CASE("is written so that it reads back the same") {
    Preset preset =
        parse_preset("model: 'a\"b\\n{}#: ''가'\ngeneration: {prompt: \"x\\ty: # z\"}\n", "p");
    CHECK(parse_preset(to_yaml(preset), "p") == preset);
    Preset composed = parse_preset("model: {vision: a, llm: b, projector: c}\n", "p");
    CHECK(parse_preset(to_yaml(composed), "p") == composed);
  }

  TEST_CASE("flags are checked by the same table") {
    CHECK(flag_refusal("generation.temperature", "0.5") == "");
    CHECK(flag_refusal("generation.temperature", "nan").starts_with("--flag: expected"));
    CHECK(
        flag_refusal("generation.temperature", "-1e-400").starts_with("--flag: expected 0 to 10"));
    CHECK(flag_refusal("generation.temperature", "1e400").starts_with("--flag: expected 0 to 10"));
    Preset cold;
    apply_override(cold, {"generation.temperature", "1e-400", "--flag"});
    CHECK(cold.generation.temperature > 0);  // not taken for greedy decoding
    CHECK(flag_refusal("generation.temperature", "").starts_with("--flag: expected a number"));
    CHECK(flag_refusal("video.num_frames", "0").starts_with("--flag: expected 1 to 4096"));
    CHECK(flag_refusal("engine.kv_cache_bytes", "4GiB") == "");
    CHECK(flag_refusal("engine.kv_cache_bytes", "4 gigs").starts_with("--flag: expected a size"));
    CHECK(flag_refusal("video.decode_timeout_s", "5m") == "");
    CHECK(flag_refusal("video.decode_timeout_s", "-5").starts_with("--flag: expected 1ms to 1d"));
    CHECK(flag_refusal("video.sampling", "fps=0").starts_with("--flag: "));
    CHECK(flag_refusal("video.color_matrix", "bt2020").starts_with("--flag: "));
    CHECK(flag_refusal("quantization.weights", "fp4")
              .starts_with("--flag: expected one of auto, f32"));
  }
}

}  // namespace
}  // namespace caption::config
