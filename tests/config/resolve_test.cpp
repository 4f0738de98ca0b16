// Tests the conversion of presets to the options of the modules.
#include "config/resolve.h"
#include "config/fields.h"
#include "config/parse_preset.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "config/adapters.h"
#include "config/choices.h"
#include "config/devices.h"
#include "config/draft_model.h"
#include "config/load_preset.h"
#include "config/option_names.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption::config {
namespace {

std::string refusal(const Preset& preset, bool has_cuda_kernels) {
  try {
    require_available(preset, has_cuda_kernels);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnavailable);
    return error.what();
  }
}

TEST_SUITE("config/resolve") {
  TEST_CASE("one sentence names everything that is missing") {
    const Machine machine;
    CHECK(refusal(load_preset("cpu", {}, machine, false).preset, false) == "");
    CHECK(refusal(load_preset("h100", {}, machine, false).preset, false) ==
          "preset h100: what is asked for needs CUDA kernels, which this build does not have; "
          "--preset cpu runs here");
    for (const char* card : {"t4", "l4", "a100", "h100"}) {
      CHECK(refusal(load_preset(card, {}, machine, true).preset, true) == "");
    }
    Preset cpu = load_preset("cpu", {}, machine, false).preset;
    cpu.quantization.weights = WeightFormat::kF16;
    CHECK(refusal(cpu, false) ==
          "--dtype (quantization.weights of a preset): this build holds no weights as f16; it has "
          "auto, f32, bf16, int8, int4, nf4, w8a8, fp8, w4a8, int4-head4, w4a8-head4, awq, gptq");
    for (const WeightFormat codes : {WeightFormat::kAwq, WeightFormat::kGptq}) {
      cpu.quantization.weights = codes;
      CHECK(refusal(cpu, false) == "");
    }
    cpu.quantization.weights = WeightFormat::kBF16;
    cpu.device.type = DeviceType::kCuda;
    CHECK(refusal(cpu, false) ==
          "preset cpu: what is asked for needs CUDA kernels, which this build does not have; leave "
          "it out");
    cpu.engine.attention = CompressionMode::kTopkMerge;
    CHECK(refusal(cpu, true) ==
          "preset cpu: what is asked for needs compressed attention on CUDA (engine.attention: "
          "topk-merge), which this build does not have; leave it out");
    cpu.device.type = DeviceType::kCpu;
    CHECK(refusal(cpu, true) == "");
    apply_override(cpu, {"device.type", "cuda", "--device"});
    cpu.engine.attention = CompressionMode::kNone;
    CHECK(
        refusal(cpu, false) ==
        "--device cuda needs CUDA kernels, which this build does not have; --device cpu runs here");
    const Preset preset =
        parse_preset("model: {vision: a, llm: b, projector: c, adapter: d}\n", "p");
    CHECK(refusal(preset, false).empty());
  }

  TEST_CASE("a model runs where its preset says, or the reason is said") {
    Machine machine;
    machine.cuda_status = "no CUDA: the driver sees no device";
    Preset preset = load_preset("cpu", {}, machine, true).preset;
    preset.device.threads = 3;
    const Context on_cpu = run_context(preset, machine, CpuTier::kReference);
    CHECK(on_cpu.arithmetic() == "cpu reference");
    CHECK(on_cpu.num_threads == 3);
    preset.device.type = DeviceType::kCuda;
    CHECK_THROWS_WITH_AS(run_context(preset, machine, CpuTier::kReference),
                         "preset cpu: no CUDA: the driver sees no device; use --device cpu, or a "
                         "preset of the CPU",
                         Error);
    Preset given = load_preset("cpu", {}, machine, true).preset;
    apply_override(given, {"device.type", "cuda", "--device"});
    CHECK_THROWS_WITH_AS(
        run_context(given, machine, CpuTier::kReference),
        "--device cuda: no CUDA: the driver sees no device; --device cpu runs here", Error);
    machine.cuda_devices = {{.name = "T4", .compute_major = 7, .compute_minor = 5}};
    CHECK(run_context(preset, machine, CpuTier::kReference).arithmetic() == "cuda turing");
    machine.cuda_devices = {{.name = "H100", .compute_major = 9, .compute_minor = 0}};
    CHECK(run_context(preset, machine, CpuTier::kReference).arithmetic() == "cuda hopper");
  }

  TEST_CASE("every choice of weights but auto names a format, and is found by it") {
    for (const Choice<WeightFormat>& choice : kWeightFormats) {
      CAPTURE(choice.name);
      if (choice.value == WeightFormat::kAuto) {
        CHECK(runs_here(choice.value));
        CHECK_THROWS_AS(named_format(choice.value), Error);
        continue;
      }
      CHECK(option_name(named_format(choice.value)) == choice.name);
      const weights::WeightFormat format = named_format(choice.value);
      CHECK(runs_here(choice.value) ==
            (weights::can_be_held(format) || weights::is_file_format(format)));
      CHECK(weight_format({.weights = choice.value}) == named_format(choice.value));
    }
    CHECK(option_name(weights::WeightFormat::kNf4Double) == "nf4");
    CHECK(weight_format({.weights = WeightFormat::kNf4, .double_quant = true}) ==
          weights::WeightFormat::kNf4Double);
    CHECK(kv_dtype({.weights = WeightFormat::kAuto}) == DType::kBF16);  // f32 is never chosen
  }

  TEST_CASE("fp8 is refused where there are no products of it, with what to take instead") {
    const auto refused = [](const Context& context, WeightFormat format) -> std::string {
      try {
        require_products(context, {.weights = format});
        return {};
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUnavailable);
        return error.what();
      }
    };
    const auto gpu = [](int capability) {
      return Context{.device = Device::kCuda, .compute_capability = capability};
    };
    CHECK(
        refused({}, WeightFormat::kFp8) ==
        "--dtype fp8 needs a GPU of compute capability 8.9 or later (Ada, Hopper); on the CPU use "
        "--dtype w8a8");
    CHECK(
        refused(gpu(86), WeightFormat::kFp8) ==
        "--dtype fp8 needs a GPU of compute capability 8.9 or later (Ada, Hopper); on a GPU of 8.6 "
        "use --dtype w8a8");
    CHECK(refused(gpu(75), WeightFormat::kFp8).find("a GPU of 7.5 use") != std::string::npos);
    const auto refused_model = [](const char* golden) -> std::string {
      const testing::DrawnCheckpoint drawn(std::filesystem::path(CAPTION_SOURCE_DIR) /
                                           "tests/golden" / golden);
      Preset preset;
      preset.model.path = drawn.path().string();
      preset.quantization.weights = WeightFormat::kFp8;
      try {
        require_products({}, preset, {});
        return {};
      } catch (const Error& error) {
        return error.what();
      }
    };
    // Codes that w8a8 would round a second time stay as they are in bf16.
    CHECK(refused_model("llava_next_video/mistral_f16").ends_with("on the CPU use --dtype w8a8"));
    CHECK(refused_model("quantised_captioners/int_w8a8").ends_with("on the CPU use --dtype w8a8"));
    for (const char* golden : {"quantised_captioners/awq", "quantised_captioners/nf4_double"}) {
      CHECK(refused_model(golden).ends_with("on the CPU use --dtype bf16"));
    }
    for (const int capability : {89, 90, 120}) {
      CHECK(refused(gpu(capability), WeightFormat::kFp8) == "");
    }
    for (const WeightFormat format :
         {WeightFormat::kF32, WeightFormat::kW8A8, WeightFormat::kNf4}) {
      CHECK(refused({}, format) == "");
      CHECK(refused(gpu(75), format) == "");
    }
    Preset cpu = load_preset("cpu", {}, Machine(), false).preset;
    cpu.quantization.weights = WeightFormat::kFp8;
    cpu.model.path = "not/there";
    // Before the model is looked for.
    CHECK_THROWS_WITH_AS(open_model({}, cpu, {}), doctest::Contains("use --dtype w8a8"), Error);
  }

  TEST_CASE("scales are quantised of nf4 alone") {
    Preset preset;
    preset.quantization.double_quant = true;
    for (const WeightFormat format : {WeightFormat::kNf4, WeightFormat::kAuto}) {
      preset.quantization.weights = format;
      CHECK_NOTHROW(require_consistent(preset));
    }
    preset.quantization.weights = WeightFormat::kAwq;
    CHECK_THROWS_WITH_AS(require_consistent(preset),
                         "quantization.double_quant is for weights of nf4, and these are awq; "
                         "leave it out",
                         Error);
    // --dtype asks for other weights than the preset's.
    preset.quantization.weights = WeightFormat::kNf4;
    apply_override(preset, {"quantization.weights", "nf4", "--dtype"});
    CHECK(preset.quantization.double_quant);
    apply_override(preset, {"quantization.weights", "bf16", "--dtype"});
    CHECK_NOTHROW(require_consistent(preset));
  }

  TEST_CASE("adapters are folders, at most one of them without a name") {
    struct Case {
      const char* text;
      const char* name;
      const char* folder;
    };
    constexpr Case kCases[] = {
        {"lora", "", "lora"},   {"news=lora", "news", "lora"}, {"뉴스=a/b=c", "뉴스", "a/b=c"},
        {"./a=b", "", "./a=b"}, {"/x/a=b", "", "/x/a=b"},      {"a=", "a", ""}};
    for (const Case& c : kCases) {
      CAPTURE(c.text);
      const model::AdapterSource source = parse_adapter(c.text);
      CHECK(source.name == c.name);
      CHECK(source.folder == c.folder);
    }
    CHECK((adapter_names({"a=x", "y", "b=z"}) == std::vector<std::string>{"a", "b"}));
    const auto refused = [](const std::vector<std::string>& texts) -> std::string {
      try {
        adapter_names(texts);
        return {};
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUsage);
        return error.what();
      }
    };
    CHECK(refused({"x", "y"}).find("at most one applies to every clip") != std::string::npos);
    CHECK(refused({"a=x", "a=y"}).find("two adapters are named \"a\"") != std::string::npos);
    CHECK(refused({"a="}).find("\"a=\" names no folder") != std::string::npos);
    CHECK(refused({"=x"}).find("has no name") != std::string::npos);
    CHECK(refused({"a\tb=x"}).find("has no name") != std::string::npos);
    CHECK(refused(std::vector<std::string>(251, "a=x")).find("two adapters") != std::string::npos);
    CHECK_THROWS_AS(adapter_sources({"no/such/folder/anywhere"}, {}), Error);
  }

  TEST_CASE("KV pages get what the clips need, and never more than the share of memory") {
    Preset preset;
    preset.engine.max_num_seqs = 10;
    const model::DecoderSpec spec{.num_layers = 2,
                                  .hidden = 64,
                                  .num_heads = 4,
                                  .num_kv_heads = 2,
                                  .head_dim = 16,
                                  .vocab = 100,
                                  .max_positions = 100};
    // K and V in 2 layers with 2 heads of 16 in bf16 take 256 bytes per token; 100 positions take 7
    // pages.
    constexpr std::int64_t kNeedBytes = 256 * 112 * 10;
    CHECK(plan_kv_cache_bytes(preset, spec, 0, 1LL << 40) == kNeedBytes);
    preset.quantization.kv_cache = KvFormat::kInt8;  // 16 bytes and a 2-byte scale per head
    CHECK(plan_kv_cache_bytes(preset, spec, 0, 1LL << 40) == 2 * 2 * 2 * 18 * 112 * 10);
    preset.quantization.kv_cache = KvFormat::kAuto;
    CHECK(plan_kv_cache_bytes(preset, spec, 1000, 200'000) == 99'000);
    CHECK_THROWS_AS(plan_kv_cache_bytes(preset, spec, 100'000, 200'000), Error);
    // With as many pages of a draft model, of half the size, together.
    constexpr std::int64_t kDraftPageBytes = 128 * 16;
    CHECK(plan_kv_cache_bytes(preset, spec, 0, 1LL << 40, kDraftPageBytes) == kNeedBytes * 3 / 2);
    CHECK(plan_kv_cache_bytes(preset, spec, 1000, 200'000, kDraftPageBytes) == 99'000);
    preset.engine.kv_cache_bytes = 12345;
    CHECK(plan_kv_cache_bytes(preset, spec, 100'000, 200'000) == 12345);
  }

  TEST_CASE("a draft model goes with a method that uses it") {
    Preset preset;
    CHECK_FALSE(has_draft_model(preset));
    preset.speculative.method = DraftMethod::kModel;
    CHECK_THROWS_WITH_AS(require_consistent(preset), doctest::Contains("--draft-model names one"),
                         Error);
    preset.speculative.draft_model = "small";
    CHECK_NOTHROW(require_consistent(preset));
    CHECK(has_draft_model(preset));
    preset.speculative.method = DraftMethod::kArchive;
    CHECK_NOTHROW(require_consistent(preset));
    preset.speculative.method = DraftMethod::kNone;
    CHECK_THROWS_WITH_AS(require_consistent(preset), doctest::Contains("--drafts model guesses"),
                         Error);
    CHECK_FALSE(has_draft_model(preset));
  }

  TEST_CASE("self-drafts go with neither a draft model nor compressed attention") {
    Preset preset;
    preset.speculative.method = DraftMethod::kSelf;
    CHECK_NOTHROW(require_consistent(preset));
    preset.engine.attention = CompressionMode::kTopkMerge;
    CHECK_THROWS_WITH_AS(require_consistent(preset), doctest::Contains("exclude each other"),
                         Error);
    preset.engine.attention = CompressionMode::kNone;
    preset.speculative.draft_model = "small";
    CHECK_THROWS_WITH_AS(
        require_consistent(preset),
        "--draft-model small would not be used with --drafts self; --drafts model guesses "
        "with it",
        Error);
    const model::DecoderSpec spec = {.num_layers = 3, .num_kv_heads = 2, .head_dim = 8};
    preset.engine.max_num_seqs = 5;
    preset.speculative.num_draft_tokens = 8;
    CHECK(guess_page_bytes(preset, spec) == 5 * kv_page_bytes(preset, spec));
    preset.speculative.num_draft_tokens = 17;
    CHECK(guess_page_bytes(preset, spec) == 10 * kv_page_bytes(preset, spec));
    preset.speculative.method = DraftMethod::kModel;
    CHECK(guess_page_bytes(preset, spec) == 0);
  }

  TEST_CASE("options that contradict each other are named as they were written") {
    const auto refusal_of = [](const Preset& preset) {
      try {
        require_consistent(preset);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUsage);
        return std::string(error.what());
      }
      return std::string("none");
    };
    const std::string text =
        "generation:\n  max_new_tokens: 16\n  num_beams: 2\nspeculative:\n  method: model\n";
    const Preset of_file = parse_preset(text, "own.yaml");
    CHECK(refusal_of(of_file) ==
          "speculative.method: model (own.yaml:5:11) needs a draft model; --draft-model names one");
    Preset preset = of_file;
    apply_override(preset, {"generation.temperature", "1", "--temperature"});
    CHECK(refusal_of(preset) ==
          "--temperature and generation.num_beams (own.yaml:3:14) exclude each other: a beam "
          "search does not sample");
    apply_override(preset, {"generation.min_new_tokens", "20", "--min-new-tokens"});
    CHECK(refusal_of(preset) ==
          "--min-new-tokens 20 exceeds generation.max_new_tokens: 16 (own.yaml:2:19); lower the "
          "one or raise the other");
    apply_override(preset, {"generation.max_new_tokens", "10", "--max-new-tokens"});
    CHECK(refusal_of(preset) ==
          "--min-new-tokens 20 exceeds --max-new-tokens 10; lower the one or raise the other");
    preset = of_file;
    apply_quality(preset);
    apply_override(preset, {"engine.max_num_seqs", "2", "--max-num-seqs"});
    CHECK(refusal_of(preset) ==
          "num_beams 4 of --quality: beams run together, and --max-num-seqs and "
          "--max-num-batched-tokens allow 2");
  }

  TEST_CASE("a least number of new tokens is compared with the most that the model's files say") {
    Preset preset;
    apply_override(preset, {"generation.min_new_tokens", "600", "--min-new-tokens"});
    CHECK_NOTHROW(require_consistent(preset));
    CHECK_THROWS_WITH_AS(require_token_range(preset),
                         "--min-new-tokens 600 exceeds --max-new-tokens 128; lower the one or "
                         "raise the other",
                         Error);
  }

  TEST_CASE("options arrive where they belong") {
    Preset preset;
    apply_speed(preset);
    apply_override(preset, {"video.sampling", "fps=2.5", ""});
    apply_override(preset, {"video.decode_timeout_s", "0.25", ""});
    apply_override(preset, {"engine.batching", "static", ""});
    CHECK(sampling_params(preset).temperature == 0.8);
    CHECK(sampling_params(preset).max_new_tokens == 128);
    CHECK(read_options(preset).sampling.fps == 2.5);
    CHECK(read_options(preset).color_matrix == video::ColorMatrix::kAuto);
    apply_override(preset, {"video.color_matrix", "bt709", ""});
    CHECK(read_options(preset).color_matrix == video::ColorMatrix::kBt709);
    apply_override(preset, {"video.color_matrix", "bt601", ""});
    CHECK(read_options(preset).color_matrix == video::ColorMatrix::kBt601);
    CHECK(read_options(preset).limits.max_decode_us == 250'000);
    apply_override(preset, {"video.max_frame_pixels", "1000", ""});
    apply_override(preset, {"video.max_pixels", "2000", ""});
    CHECK(read_options(preset).limits.max_pixels == 1000);
    const auto engine = [&] { return engine_options(Context{}, preset, 99, sha256_of("weights")); };
    CHECK(engine().batching == engine::BatchMode::kStatic);
    CHECK(engine().kv_dtype == DType::kBF16);
    const Hash128 identity = engine().page_identity;
    CHECK(identity != engine_options(Context{}, preset, 99, sha256_of("others")).page_identity);
    CHECK(engine().prefix_cache == engine::PrefixCache::kOn);
    apply_override(preset, {"engine.prefix_cache", "false", ""});
    CHECK(engine().prefix_cache == engine::PrefixCache::kOff);
    CHECK(engine().disk.folder.empty());
    apply_override(preset, {"quantization.weights", "f32", ""});
    CHECK(engine().kv_dtype == DType::kF32);
    // F32 pages contain other bits, so they need another identity.
    CHECK(engine().page_identity != identity);
    apply_override(preset, {"quantization.kv_cache", "int8", ""});
    apply_override(preset, {"engine.prefix_cache", "true", ""});
    apply_override(preset, {"engine.kv_cache_dir", "cache", ""});
    apply_override(preset, {"engine.kv_cache_dir_bytes", "2000000", ""});
    CHECK(engine().kv_dtype == DType::kI8);
    CHECK(engine().prefix_cache == engine::PrefixCache::kOn);
    CHECK(engine().disk.folder == "cache");
    CHECK(engine().disk.max_bytes == 2'000'000);
    CHECK(preset.generation.stop.empty());
    apply_override(preset, {"generation.stop", "", "", {"끝.", "\n"}});
    CHECK(preset.generation.stop == std::vector<std::string>{"끝.", "\n"});
    apply_override(preset, {"generation.stop", "#", ""});
    CHECK(preset.generation.stop == std::vector<std::string>{"#"});
  }

  TEST_CASE("beams arrive with their rules, and --quality is greedy about them") {
    Preset preset;
    preset.generation.temperature = 0.7;
    apply_quality(preset);
    sampling::SamplingParams params = sampling_params(preset);
    CHECK(params.num_beams == 4);
    CHECK(params.length_penalty == 1.2);
    CHECK(params.temperature == 0);
    CHECK(params.early_stopping == sampling::EarlyStopping::kYes);
    apply_override(preset, {"generation.early_stopping", "never", ""});
    CHECK(sampling_params(preset).early_stopping == sampling::EarlyStopping::kNever);
    apply_override(preset, {"generation.num_logprobs", "3", ""});
    CHECK(sampling_params(preset).num_logprobs == 3);
  }
}

}  // namespace
}  // namespace caption::config
