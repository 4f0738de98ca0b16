// Compares plans with figures computed by hand and with the memory that engines and models use.
#include "plan/plan.h"

#include <doctest/doctest.h>

#include <memory>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/engine.h"
#include "model/adapter_load.h"
#include "model/caption_model.h"
#include "model/random_model.h"
#include "model/read_blueprint.h"
#include "plan/cards.h"
#include "plan/known_models.h"
#include "tests/plan/plan_inputs.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption::plan {
namespace {

model::Blueprint known(const char* name) { return plan::find_known_model(name).value(); }

TEST_SUITE("plan/plan") {
  TEST_CASE("KV bytes per token are those of the notes") {
    struct Case {
      const char* shape;
      DType dtype;
      std::int64_t bytes;
    };
    const Case kCases[] = {
        {"qwen3-8b", DType::kF16, 147456},
        {"llava-next-video-7b", DType::kF16, 524288},
        {"qwen3-vl-32b", DType::kBF16, 262144},
        {"internvl3.5-14b", DType::kBF16, 163840},
        {"qwen3-0.6b", DType::kF16, 114688},
        {"qwen3-0.6b", DType::kF32, 229376},
        {"qwen3-0.6b", DType::kI8, 28 * 2 * 8 * (128 + 2)},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.shape);
      CHECK(model::kv_token_bytes(*known(c.shape).text, c.dtype) == c.bytes);
    }
  }

  // The totals that transformers counts, tied embeddings once.
  TEST_CASE("well-known models have the parameters of their files") {
    struct Case {
      const char* shape;
      std::int64_t parameters;
    };
    const Case kCases[] = {
        {"qwen2.5-0.5b", 494'032'768},
        {"qwen2.5-1.5b", 1'543'714'304},
        {"qwen2.5-3b", 3'085'938'688},
        {"qwen2.5-7b", 7'615'616'512},
        {"qwen2.5-14b", 14'770'033'664},
        {"llama-3.2-1b", 1'235'814'400},
        {"llama-3.2-3b", 3'212'749'824},
        {"llama-3.1-8b", 8'030'261'248},
        {"mistral-7b", 7'241'732'096},
        {"qwen2.5-vl-3b", 3'754'622'976},
        {"qwen2.5-vl-7b", 8'292'166'656},
        {"qwen2.5-vl-32b", 33'452'718'336},
        {"qwen2.5-vl-72b", 73'410'777'344},
        {"internvl3-38b", 38'388'164'992},
        // Without what no caption needs: the last layer and norm of CLIP and image_newline, and the
        // last norm of SigLIP.
        {"llava-next-video-34b", 34'752'083'968 - 12'605'440},
        {"llava-next-video-7b-32k", 7'566'747'648 - 12'602'368},
        {"llava-onevision-72b", 73'181'570'592 - 2'304},
        {"varco-vision-2.0-1.7b", 2'140'153'072 - 2'304},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.shape);
      CHECK(model::count_parameters(known(c.shape)).total() == c.parameters);
    }
  }

  TEST_CASE("every size of the families is known by its short name and its name on the hub") {
    const std::vector<std::string> names = known_model_names();
    const std::vector<std::string> hub_names = known_hub_names();
    CHECK(names.size() == hub_names.size() + 1);  // the demonstration model is not on the hub
    CHECK_FALSE(find_hub_name("demo").has_value());
    for (const std::string& hub_name : hub_names) {
      CAPTURE(hub_name);
      CHECK(find_hub_name(hub_name) == hub_name);
      CHECK(find_known_model(hub_name)->name == hub_name);
    }
    for (const char* name :
         {"Qwen/Qwen3-VL-32B-Instruct", "Qwen/Qwen2.5-VL-72B-Instruct",
          "OpenGVLab/InternVL3-38B-hf", "OpenGVLab/InternVL3_5-38B-HF",
          "llava-hf/llava-onevision-qwen2-72b-ov-hf", "NCSOFT/VARCO-VISION-2.0-1.7B",
          "llava-hf/LLaVA-NeXT-Video-34B-DPO-hf", "llava-hf/LLaVA-NeXT-Video-7B-32K-hf"}) {
      CAPTURE(name);
      CHECK(find_known_use(name) == KnownUse::kCaptioner);
    }
    // The repositories of InternVL that carry their own code hold the same weights.
    CHECK(find_known_model("OpenGVLab/InternVL3_5-8B")->name == "OpenGVLab/InternVL3_5-8B");
    CHECK(find_known_model("opengvlab/internvl3_5-8b").has_value());
    CHECK(find_hub_name("internvl3.5-8b") == "OpenGVLab/InternVL3_5-8B-HF");
    CHECK_FALSE(find_known_model("Qwen/Qwen3-VL-8B").has_value());
  }

  TEST_CASE("a plan says for which frames it counts vision tokens") {
    PlanInput input = input_for("qwen3-vl-2b");
    input.frame = {.width_px = 640, .height_px = 480};
    const Plan plan = make_plan(input);
    CHECK(to_text(plan).find("(8 frames of 640x480)") != std::string::npos);
    const JsonObject json = JsonObject::parse(to_json(plan), "plan", ErrorCode::kInternal);
    CHECK(json.get_object("frame_size")->require_int("width", 1, 9999) == 640);
    // A tower of a fixed size sees every film in this size.
    const Plan fixed = make_plan(input_for("llava-next-video-7b"));
    CHECK(to_text(fixed).find("(8 frames)") != std::string::npos);
    CHECK(to_json(fixed).find("frame_size") == std::string::npos);
  }

  TEST_CASE("a layer's matrix takes what its format says") {
    constexpr std::int64_t kRows = 4096;
    constexpr std::int64_t kColumns = 1024;
    const std::int64_t count = 4096 * 1024;
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kStored) == 4 * count);
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kBF16) == 2 * count);
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kInt8) == count + 4 * (count / 128));
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kInt4) == count / 2 + 8 * (count / 128));
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kInt8Row) == count + 4 * 4096);
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kNf4) == count / 2 + 4 * (count / 64));
    // 65,536 scales of 8 bits, and an f32 per 256 of them.
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kNf4Double) == count / 2 + 65536 + 4 * 256);
    // 8 groups of 128 per row, each with an f16 scale and a 4-bit zero.
    CHECK(matrix_bytes(kRows, kColumns, MatrixFormat::kAwq) ==
          count / 2 + 8 * 4096 * 2 + 8 * 4096 / 2);
  }

  TEST_CASE("a T4 holds LLaVA-NeXT-Video 7B in nf4, as its preset says") {
    PlanInput input = input_for("llava-next-video-7b");
    const Card card = find_card("T4").value();
    input.device = PlanDevice::kCard;
    input.memory_bytes = card.memory_bytes;
    input.memory_utilization = 0.85;
    input.weights = weights::WeightFormat::kNf4;
    input.kv_dtype = DType::kF16;
    input.max_num_seqs = 8;
    input.rates = {.bytes_per_s = card.bytes_per_s, .flops_per_s = card.flops_per_s, .source = ""};
    const Plan plan = make_plan(input);
    CHECK(plan.can_run());
    CHECK(plan.weight_bytes > 4'600'000'000);
    CHECK(plan.weight_bytes < 4'700'000'000);
    CHECK(plan.vision_tokens == 1152);
    CHECK(plan.video_tokens == 1152 + 64 + 128);
    CHECK(plan.pages_per_video == 84);  // for 1,343 tokens: the last one needs no slot
    CHECK(plan.num_concurrent == 8);
    CHECK(plan.total_bytes <= plan.usable_bytes);
    CHECK(plan.total_bytes > plan.usable_bytes - plan.page_bytes);
    // The GPU's own memory beside weights and pages, of which some has the size of a page.
    const CardBytes card_has =
        card_bytes(*input.model.text, plan.step_tokens, input.max_num_seqs, input.kv_dtype);
    CHECK(card_has.padding_page == plan.page_bytes);
    CHECK(plan.logits_bytes == card_has.logits);
    CHECK(plan.graph_bytes == card_has.graphs + card_has.padding_page);
    CHECK(plan.total_bytes == plan.weight_bytes + plan.scratch_bytes + card_has.total() +
                                  plan.vision_bytes + plan.input.fixed_bytes + plan.pool_bytes);
    CHECK(plan.warnings.empty());
    // 65 TFLOP/s (T4 data sheet) / (2 FLOPs * 6.7 G parameters) = 4,851 tokens/s; attention costs a
    // little.
    CHECK(plan.prefill_tokens_per_s < 5100);
    CHECK(plan.prefill_tokens_per_s > 4500);
    CHECK(plan.decode.is_bound_by_bandwidth);
  }

  TEST_CASE("each limit is found, and says which it is") {
    SUBCASE("weights alone exceed the memory") {
      PlanInput input = input_for("qwen3-8b");
      input.memory_utilization = 0.5;
      const Plan plan = make_plan(input);
      CHECK_FALSE(plan.can_run());
      CHECK(plan.limit == Limit::kMemory);
      CHECK(has_warning(plan, "weights alone take 16.4 GB of the 8.59 GB"));
      CHECK(has_warning(plan, "would take"));
    }
    SUBCASE("fewer pages than one video needs") {
      PlanInput input = input_for("llava-next-video-7b");
      input.weights = weights::WeightFormat::kNf4;
      input.kv_cache_bytes = 80LL * 16 * 524288;
      const Plan plan = make_plan(input);
      CHECK_FALSE(plan.can_run());
      CHECK(plan.num_pages == 80);
      CHECK(has_warning(plan,
                        "one video needs 84 KV pages, 672MiB, and the memory left holds 80; use "));
    }
    SUBCASE("max_num_seqs cannot be reached") {
      PlanInput input = input_for("llava-next-video-7b");
      input.weights = weights::WeightFormat::kNf4;
      input.kv_cache_bytes = 84LL * 3 * 16 * 524288;
      const Plan plan = make_plan(input);
      CHECK(plan.can_run());
      CHECK(plan.num_concurrent == 3);
      CHECK(has_warning(plan, "max_num_seqs 16 cannot be reached: the pages hold 3 videos"));
    }
    SUBCASE("a video longer than the model") {
      PlanInput input = input_for("demo");
      input.num_frames = 64;
      const Plan plan = make_plan(input);
      CHECK_FALSE(plan.can_run());
      CHECK(has_warning(plan, "the model holds 1024; use "));
    }
    SUBCASE("more beams than places") {
      PlanInput input = input_for("demo");
      input.max_num_seqs = 2;
      input.num_beams = 4;
      CHECK_FALSE(make_plan(input).can_run());
    }
    SUBCASE("bandwidth, then compute, as the machine turns") {
      PlanInput input = input_for("qwen3-0.6b");
      input.max_num_seqs = 2;
      input.rates = {.bytes_per_s = 30e9, .flops_per_s = 1e15, .source = ""};
      CHECK(make_plan(input).limit == Limit::kBandwidth);
      input.rates = {.bytes_per_s = 1e15, .flops_per_s = 100e9, .source = ""};
      CHECK(make_plan(input).limit == Limit::kCompute);
    }
  }

  TEST_CASE("what fits cannot run where run would not start") {
    PlanInput input = input_for("demo");
    CHECK(make_plan(input).can_run());
    input.obstacles = {"this build lacks awq weights"};
    const Plan plan = make_plan(input);
    CHECK(plan.fits);
    CHECK_FALSE(plan.can_run());
    CHECK(plan.decode_tokens_per_s > 0);
    const JsonObject json = JsonObject::parse(to_json(plan), "plan", ErrorCode::kInternal);
    CHECK(json.get_bool("fits", false));
    CHECK_FALSE(json.get_bool("can_run", true));
    CHECK(json.get_strings("obstacles") == plan.input.obstacles);
    CHECK(to_text(plan).find("run would not start here\n  this build lacks awq weights") !=
          std::string::npos);
  }

  TEST_CASE("advice is neither what is done already nor what this build lacks") {
    PlanInput input = input_for("llava-next-video-7b");
    input.weights = weights::WeightFormat::kNf4;
    input.kv_dtype = DType::kI8;
    input.kv_cache_bytes = 1 << 20;
    CHECK(has_warning(make_plan(input),
                      "use fewer frames (--frames), smaller weights (--dtype) or more "
                      "memory (--memory-utilization)"));
    PlanInput text_only = input_for("qwen3-0.6b");
    text_only.kv_cache_bytes = 1;
    CHECK(has_warning(make_plan(text_only), "use an int8 KV cache (--kv-dtype), smaller weights"));
    text_only.is_kv_cache_given = true;
    CHECK(has_warning(make_plan(text_only),
                      "and --kv-cache-bytes holds 0; use an int8 KV cache (--kv-dtype) or a larger "
                      "--kv-cache-bytes"));
    text_only.kv_dtype = DType::kI8;
    CHECK(has_warning(make_plan(text_only), "holds 0; use a larger --kv-cache-bytes"));
    // No layout of 32 G weights fits.
    PlanInput large = input_for("qwen3-32b");
    large.memory_bytes = 18'000'000'000;
    large.memory_utilization = 0.9;
    CHECK(has_warning(make_plan(large), "use a smaller model"));
  }

  TEST_CASE("beams share the whole pages of their prompt") {
    PlanInput input = input_for("demo");
    input.prompt_tokens = 40;  // 168 with 128 vision tokens: ten whole pages
    input.output_tokens = 20;
    input.num_beams = 4;
    const Plan plan = make_plan(input);
    CHECK(plan.pages_per_video == 10 + 4 * (12 - 10));
    CHECK(plan.num_concurrent == 4);
    input.is_prompt_compressed = true;  // the prompt's pages are then not shared
    CHECK(make_plan(input).pages_per_video == 4 * 12);
  }

  TEST_CASE("the last token of a caption needs no position") {
    PlanInput input = input_for("demo");
    input.prompt_tokens = 13;
    input.output_tokens = 884;  // 1,025 tokens with 128 vision tokens
    CHECK(make_plan(input).can_run());
    input.output_tokens = 885;
    CHECK_FALSE(make_plan(input).can_run());
  }

  TEST_CASE("decoding reads the weights once and each sequence's pages") {
    PlanInput input = input_for("qwen3-0.6b");
    input.max_num_seqs = 4;
    input.prompt_tokens = 512;
    input.output_tokens = 128;
    const Plan plan = make_plan(input);
    // Weights: 28 layers of 15,728,640 and a head of 151,936 x 1,024, 2 bytes each. KV: 4 sequences
    // of 512 + 64 tokens plus one token that is written.
    const double weights = 2.0 * (28 * 15728640.0 + 151936 * 1024.0);
    CHECK(plan.decode.cost.bytes == doctest::Approx(weights + 4 * 577 * 114688.0));
    const double flops = 4 * weights + 4.0 * 28 * 16 * 128 * 4 * 576;
    CHECK(plan.decode.cost.flops == doctest::Approx(flops));
    CHECK(plan.decode_tokens_per_s == doctest::Approx(4 * 30e9 / plan.decode.cost.bytes));
  }

  TEST_CASE("a model without a decoder, or a rate of nothing, is refused") {
    CHECK_THROWS_AS(make_plan(input_for("clip-l-336")), Error);
    PlanInput input = input_for("demo");
    input.rates.bytes_per_s = 0;
    CHECK_THROWS_AS(make_plan(input), Error);
  }

  TEST_CASE("the report is JSON with the same numbers, and text that holds the warnings") {
    PlanInput input = input_for("llava-next-video-7b");
    input.kv_cache_bytes = 1 << 20;
    const Plan plan = make_plan(input);
    const JsonObject json = JsonObject::parse(to_json(plan), "plan", ErrorCode::kInternal);
    CHECK(json.require_int("num_pages", 0, 1 << 30) == plan.num_pages);
    CHECK_FALSE(json.get_bool("can_run", true));
    CHECK(json.get_object("bytes")->require_int("weights", 0, 1LL << 40) == plan.weight_bytes);
    CHECK(json.get_strings("warnings").size() == plan.warnings.size());
    CHECK(to_text(plan).find(plan.warnings.front()) != std::string::npos);
  }
}

// Compares the plan with the memory that an engine uses for the same options.
void check_engine(model::Decoder& decoder, const Plan& plan) {
  ThreadPool pool(1);
  Stream stream(pool);
  const PlanInput& input = plan.input;
  const engine::Engine engine(
      decoder, stream,
      {.max_num_seqs = static_cast<std::int32_t>(input.max_num_seqs),
       .max_num_batched_tokens = static_cast<std::int32_t>(input.max_num_batched_tokens),
       .kv_cache_bytes = input.kv_cache_bytes.value(),
       .kv_dtype = input.kv_dtype});
  const engine::EngineStats stats = engine.stats();
  CHECK(stats.page_bytes == plan.page_bytes);
  CHECK(stats.pages_total == plan.num_pages);
  CHECK(plan.scratch_bytes == decoder.scratch_bytes());
}

TEST_SUITE("plan/plan against reality") {
  TEST_CASE("the demo model holds what its plan says") {
    const std::filesystem::path folder =
        std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
    const auto model = model::open_model(Context{}, folder, weights::WeightFormat::kBF16);
    PlanInput input = input_for("demo");
    input.model = model::read_blueprint(folder);
    input.kv_cache_bytes = 8 << 20;
    const Plan plan = make_plan(input);
    CHECK(plan.weight_bytes == model->weight_bytes());
    CHECK(plan.vision_tokens == model->vision_tokens({input.num_frames}));
    CHECK(plan.page_bytes * plan.num_pages <= *input.kv_cache_bytes);
    check_engine(model->decoder(), plan);
  }

  TEST_CASE("so does a model with adapters, in every format") {
    const std::filesystem::path golden = std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden";
    const testing::DrawnCheckpoint all(golden / "lora/llama_all");
    const testing::DrawnCheckpoint pattern(golden / "lora/llama_pattern");
    const testing::DrawnCheckpoint head(golden / "lora/llama_head");
    const std::filesystem::path base = golden / "model/llama_bf16";
    const std::vector<std::vector<model::AdapterSource>> kCases = {
        {{.folder = pattern.path()}},
        {{.folder = head.path(), .name = "a"}},
        {{.folder = all.path()}, {.folder = head.path(), .name = "a"}},
    };
    for (const std::vector<model::AdapterSource>& adapters : kCases) {
      for (const auto format : {weights::WeightFormat::kF32, weights::WeightFormat::kBF16,
                                weights::WeightFormat::kInt8, weights::WeightFormat::kNf4}) {
        CAPTURE(weights::describe(format));
        CAPTURE(adapters.size());
        const auto model = model::open_model(Context{}, base, format, {.adapters = adapters});
        PlanInput input = input_for("demo");
        input.model = model::read_blueprint(base);
        input.weights = format;
        input.kv_cache_bytes = 8 << 20;
        input.adapters = model::measure_adapters(Context{}, input.model, format, {}, adapters);
        const Plan plan = make_plan(input);
        // In f32 merged weights are no longer those of the file, which has 16 bits.
        if (format != weights::WeightFormat::kF32) {
          CHECK(plan.weight_bytes + input.adapters.size_bytes == model->weight_bytes());
        }
        check_engine(model->decoder(), plan);
        const bool is_beside =
            !adapters.back().name.empty() ||
            (format != weights::WeightFormat::kF32 && format != weights::WeightFormat::kBF16);
        CHECK((input.adapters.size_bytes > 0) == is_beside);
        CHECK((input.adapters.multiply_adds_per_token > 0) == is_beside);
        PlanInput without = input;
        without.adapters = {};
        CHECK((make_plan(without).decode.cost.flops < plan.decode.cost.flops) == is_beside);
        CHECK((make_plan(without).total_bytes < plan.total_bytes) == is_beside);
      }
    }
  }

  TEST_CASE("so do random decoders of every kind") {
    model::DecoderSpec llama{.num_layers = 2,
                             .hidden = 64,
                             .intermediate = 160,
                             .num_heads = 4,
                             .num_kv_heads = 2,
                             .head_dim = 16,
                             .vocab = 320,
                             .max_positions = 512};
    model::DecoderSpec qwen = llama;
    qwen.qk_norm = true;
    qwen.tied_embeddings = true;
    qwen.head_dim = 32;
    model::DecoderSpec biased = llama;
    biased.qkv_bias = true;
    biased.o_bias = true;
    biased.mlp_bias = true;
    for (const model::DecoderSpec& shape : {llama, qwen, biased}) {
      for (const auto type : {weights::WeightFormat::kF32, weights::WeightFormat::kBF16}) {
        for (const DType kv_dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
          ThreadPool pool(1);
          Stream stream(pool);
          const auto decoder = model::make_random_decoder(stream, shape, type, 7);
          PlanInput input = input_for("demo");
          input.model = model::decoder_blueprint(shape);
          input.kv_dtype = kv_dtype;
          input.max_num_seqs = 5;
          input.max_num_batched_tokens = 48;
          input.kv_cache_bytes = 1 << 20;
          check_engine(*decoder, make_plan(input));
        }
      }
    }
  }

  TEST_CASE("the table's demo is the one in samples/") {
    const model::Blueprint read =
        model::read_blueprint(std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/demo-model");
    const model::Blueprint table = known("demo");
    const model::ParameterCounts a = model::count_parameters(read);
    const model::ParameterCounts b = model::count_parameters(table);
    CHECK(a.total() == b.total());
    CHECK(a.tower == b.tower);
    CHECK(a.text_other == b.text_other);
    CHECK(read.text->max_positions == table.text->max_positions);
    CHECK(read.is_stored_in_16_bits() == table.is_stored_in_16_bits());
    CHECK(model::placed_bytes(Context{}, read, weights::WeightFormat::kF32) ==
          model::placed_bytes(Context{}, table, weights::WeightFormat::kF32));
  }
}

}  // namespace
}  // namespace caption::plan
