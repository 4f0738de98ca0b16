#include "bench/cuda_prediction.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <optional>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "bench/internal/attention_work.h"
#include "bench/internal/kernel_record.h"
#include "bench/profile_report.h"
#include "bench/run_workload.h"
#include "model/random_model.h"
#include "plan/cards.h"
#include "plan/known_models.h"

namespace caption::bench {
namespace {

const model::DecoderSpec kShape = {.num_layers = 3,
                                   .hidden = 64,
                                   .intermediate = 160,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .head_dim = 24,
                                   .vocab = 304,
                                   .max_positions = 1024,
                                   .qk_norm = true};

// A card of round figures: 10 multiprocessors, 1e9 clocks and 100e9 bytes per second.
constexpr CudaCard kCard = {"round", 80, 10, 1e9, 100e9, 1e6, 10, 8};

using Calls = std::map<std::string, std::int64_t>;

std::string text_of(const Calls& calls) {
  std::string text;
  for (const auto& [operation, count] : calls)
    text += operation + " " + std::to_string(count) + "\n";
  return text;
}

// What the engine issues for a prompt and `output_tokens` outputs, the first of which is the
// prompt's step's. The host samples on the CPU, where a GPU has a launch per step.
Calls profiled(std::int64_t prompt_tokens, std::int64_t output_tokens) {
  ThreadPool pool(1);
  Stream stream(pool);
  const auto decoder = model::make_random_decoder(stream, kShape, weights::WeightFormat::kBF16, 5);
  engine::EngineOptions options;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 1024;
  options.kv_cache_bytes = 4 << 20;
  const Variant variant{.name = "one", .group = "one", .options = options};
  CompareOptions compare_options;
  compare_options.has_profile = true;
  const Comparison comparison =
      compare(*decoder, stream,
              {.model = model::decoder_blueprint(kShape), .weights = weights::WeightFormat::kBF16},
              make_fixed_workload(1, prompt_tokens, output_tokens), {variant}, compare_options);
  Calls calls;
  for (const OperationTime& operation : comparison.variants.front().measurement().operations) {
    const bool is_sampling = operation.name == "sampling";
    if (operation.calls > 0) calls[is_sampling ? "sample_rows" : operation.name] = operation.calls;
  }
  return calls;
}

Calls listed(std::int64_t prompt_tokens, std::int64_t output_tokens) {
  Calls calls;
  const auto add = [&](std::int64_t new_tokens, std::int64_t context_tokens) {
    const CudaStep step{.new_tokens = new_tokens, .context_tokens = context_tokens};
    for (const CudaWork& work : list_operations(kCard, kShape, step)) {
      calls[work.operation] += work.calls;
    }
  };
  add(prompt_tokens, prompt_tokens);
  for (std::int64_t i = 1; i < output_tokens; ++i) add(1, prompt_tokens + i);
  return calls;
}

}  // namespace

TEST_SUITE("bench/cuda_prediction") {
  TEST_CASE("the operations are those that the decoder issues") {
    // One piece of the decoder's rows, the most of one, and three; a GPU's have more rows.
    const std::int64_t of_cpu = model::decoder_piece_rows(Device::kCpu);
    const std::int64_t of_gpu = model::decoder_piece_rows(Device::kCuda);
    CHECK(text_of(listed(7, 3)) == text_of(profiled(7, 3)));
    CHECK(text_of(listed(of_gpu, 3)) == text_of(profiled(of_cpu, 3)));
    CHECK(text_of(listed(2 * of_gpu + 32, 3)) == text_of(profiled(2 * of_cpu + 32, 3)));
  }

  TEST_CASE("a launch takes the longest of its times, and the launches' own") {
    const auto time = [](CudaWork work) {
      work.launches = 2;
      return predict(kCard, work);
    };
    constexpr double kMillisecond = 1e-3;
    const CudaTime dram = time({.dram_bytes = 100e6, .l2_bytes = 50e6});
    CHECK(dram.limit == "DRAM");
    CHECK(dram.seconds == doctest::Approx(kMillisecond + 2 * kLaunchSeconds));
    CHECK(dram.share == doctest::Approx(kMillisecond / dram.seconds));
    CHECK(time({.launch_seconds = 1e-3, .dram_bytes = 100e6}).seconds ==
          doctest::Approx(3 * kMillisecond));
    const CudaTime l2 = time({.dram_bytes = 1e6, .l2_bytes = 200e6});
    CHECK(l2.limit == "L2");
    CHECK(l2.seconds == doctest::Approx(2 * kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.wavefronts = 10e6}).limit == "L1");
    CHECK(time({.wavefronts = 10e6}).seconds == doctest::Approx(kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.products = 5e6}).limit == "tensor cores");
    CHECK(time({.products = 5e6}).seconds == doctest::Approx(kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.instructions = 40e6}).limit == "issue");
    CHECK(time({.instructions = 40e6}).seconds ==
          doctest::Approx(kMillisecond + 2 * kLaunchSeconds));
    // 1,000 bytes under way in each of 10 multiprocessors, once per microsecond.
    const CudaTime waiting = time({.dram_bytes = 100e6, .bytes_in_flight = 1000});
    CHECK(waiting.limit == "bytes in flight");
    CHECK(waiting.seconds == doctest::Approx(10 * kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.dram_bytes = 100e6, .bytes_in_flight = 10001}).limit == "DRAM");
    // One warp has one scheduler and one tensor core of four.
    CHECK(time({.instructions = 40e6, .warps = 1}).seconds ==
          doctest::Approx(4 * kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.products = 5e6, .warps = 3}).seconds ==
          doctest::Approx(kMillisecond * 4 / 3 + 2 * kLaunchSeconds));
    CHECK(time({.products = 5e6, .warps = 8, .wait_seconds = 1e-3}).seconds ==
          doctest::Approx(2 * kMillisecond + 2 * kLaunchSeconds));
    // Four blocks are on four of 10 multiprocessors, 15 take two rounds: 7.5 of them on average.
    CHECK(time({.instructions = 40e6, .blocks = 4}).seconds ==
          doctest::Approx(2.5 * kMillisecond + 2 * kLaunchSeconds));
    CHECK(time({.instructions = 40e6, .blocks = 15}).seconds ==
          doctest::Approx(kMillisecond / 0.75 + 2 * kLaunchSeconds));
  }

  TEST_CASE("cards have the dense rates of their data sheets") {
    for (const auto& [name, flops] :
         {std::pair{"t4", 65e12}, {"l4", 121e12}, {"a100", 312e12}, {"h100", 989e12}}) {
      CAPTURE(name);
      const CudaCard* const card = find_cuda_card(name);
      REQUIRE(card != nullptr);
      CHECK(card->flops_per_s() == doctest::Approx(flops).epsilon(0.01));
    }
    CHECK(find_cuda_card("H100") == find_cuda_card("h100"));
    CHECK(find_cuda_card("t5") == nullptr);
    CHECK_THROWS_AS(prediction_table("t5", "small", kShape), Error);
  }

  TEST_CASE("the record of kernels is that of the repository") {
    const std::optional<RecordedKernel> norm = find_recorded("RmsNorm<4>", 90);
    REQUIRE(norm.has_value());
    CHECK(norm->threads == 128);
    CHECK(norm->blocks > 0);
    CHECK(norm->instructions_per_product == 0);
    CHECK(!find_recorded("NoSuchKernel", 90).has_value());
    CHECK(!find_recorded("RmsNorm<4>", 70).has_value());
  }

  TEST_CASE("a dense layer of more than 16 rows, which are rounded, is multiplied by tiles") {
    for (const int rows : {1, 16, 17, 100}) {
      const CudaStep step{.new_tokens = rows, .context_tokens = rows};
      for (const CudaWork& work : list_operations(*find_cuda_card("a100"), kShape, step)) {
        if (work.operation == "linear_add down") {
          CHECK(work.calls == 3);
          CHECK(work.launches == 3);
          const char* const kernel = rows <= 16   ? "FewRows<BF16"
                                     : rows <= 64 ? "TileGemm<BF16, GemmShape<2, "
                                                  : "TileGemm<BF16, GemmShape<4, ";
          CHECK(work.kernel.starts_with(kernel));
          CHECK(work.instructions > work.products);
        }
      }
    }
  }

  TEST_CASE("a dense layer of codes is rounded and multiplied by blocks of few rows or of many") {
    using weights::WeightFormat;
    for (const auto& [format, kind] : {std::pair{WeightFormat::kInt8, 0},
                                       {WeightFormat::kInt4, 1},
                                       {WeightFormat::kAwq, 1},
                                       {WeightFormat::kNf4, 2}}) {
      CAPTURE(kind);
      model::DecoderSpec shape = kShape;
      shape.hidden = 6144;  // large blocks for 128 rows
      for (const std::int64_t rows : {1, 32, 33, 64, 128}) {
        CAPTURE(rows);
        const CudaStep step{.new_tokens = rows, .context_tokens = rows};
        for (const CudaWork& work : list_operations(*find_cuda_card("l4"), shape, step, format)) {
          if (work.operation != "linear_add down") continue;
          const std::string of_kind = "<BF16, (CodeKind)" + std::to_string(kind);
          const std::string kernel = rows <= 32   ? "MultiplyCodes" + of_kind
                                     : rows <= 64 ? "CodeTiles" + of_kind + ", GemmShape<2, 4"
                                                  : "CodeTiles" + of_kind + ", GemmShape<2, 6";
          CHECK(work.kernel.starts_with(kernel));
          CHECK(work.launches == 3 * 2);
          CHECK(work.products >= rows / 8 * 6144 / 16 * 160 / 16 * 3);
          CHECK(work.instructions > 4 * work.products);
          // 4.5 bits per weight, or 8.25; the last tile and group are not full.
          const double bits = work.dram_bytes / 3 * 8 / (6144 * 160);
          CHECK(bits > (kind == 0 ? 8.25 : 4.5));
          CHECK(bits < 1.25 * (kind == 0 ? 8.25 : 4.5));
        }
      }
    }
    CHECK(prediction_table("t4", "small", kShape, WeightFormat::kNf4).find("nf4") !=
          std::string::npos);
  }

  TEST_CASE("with 8-bit activations blocks of few rows or of many multiply integers") {
    using weights::WeightFormat;
    for (const auto& [format, kind] :
         {std::pair{WeightFormat::kW8A8, 3}, {WeightFormat::kW4A8, 4}}) {
      CAPTURE(kind);
      model::DecoderSpec shape = kShape;
      shape.hidden = 24576;  // large blocks for 128 rows
      for (const char* const card : {"t4", "l4"}) {
        for (const std::int64_t rows : {1, 32, 33, 64, 128}) {
          CAPTURE(rows);
          const CudaStep step{.new_tokens = rows, .context_tokens = rows};
          for (const CudaWork& work : list_operations(*find_cuda_card(card), shape, step, format)) {
            if (work.operation != "linear_add down") continue;
            const std::string of_kind = "<(CodeKind)" + std::to_string(kind);
            const std::string kernel = rows <= 32   ? "MultiplyIntegers" + of_kind
                                       : rows <= 64 ? "IntegerTiles" + of_kind + ", GemmShape<2, 4"
                                                    : "IntegerTiles" + of_kind + ", GemmShape<4, 8";
            CHECK(work.kernel.starts_with(kernel));
            CHECK(work.launches == 3 * 2);
            // A product has 16 features, 8 rows and 32 columns.
            CHECK(work.products >= rows / 8 * 24576 / 16 * 160 / 32 * 3);
            CHECK(work.product_flops == 8192);
            CHECK(work.instructions > work.products);
            if (std::string_view(card) == "t4") continue;  // whose L2 does not hold the rows
            // 8 bits per weight and a scale per row, or 4.125; the last tile is not full.
            const double bits = (work.dram_bytes / 3 - 4 * 24576) * 8 / (24576 * 160);
            CHECK(bits >= (kind == 3 ? 8 : 4.125));
            CHECK(bits < 1.25 * (kind == 3 ? 8 : 4.125));
          }
        }
      }
    }
    CHECK(prediction_table("t4", "small", kShape, WeightFormat::kW8A8).find("w8a8") !=
          std::string::npos);
  }

  TEST_CASE("e4m3 is multiplied as it is on Ada, and as f16 with half of the columns on Hopper") {
    using weights::WeightFormat;
    model::DecoderSpec shape = kShape;
    shape.hidden = 24576;  // large blocks for 128 rows
    for (const char* const card : {"l4", "h100", "h200"}) {
      CAPTURE(card);
      const bool is_hopper = std::string_view(card) != "l4";
      for (const std::int64_t rows : {1, 9, 32, 33, 128}) {
        CAPTURE(rows);
        const CudaStep step{.new_tokens = rows, .context_tokens = rows};
        int found = 0;
        for (const CudaWork& work :
             list_operations(*find_cuda_card(card), shape, step, WeightFormat::kFp8)) {
          if (work.operation != "linear_add down") continue;
          ++found;
          const std::string kernel = rows <= 8    ? "Fp8FewRows<1>"
                                     : rows <= 16 ? "Fp8FewRows<2>"
                                     : rows <= 32 ? "Fp8FewRows<4>"
                                     : rows <= 64 ? "Fp8Tiles<GemmShape<2, 4, 2, 2"
                                                  : "Fp8Tiles<GemmShape<4, 4, 2, 4";
          CHECK(work.kernel.starts_with(kernel));
          CHECK(work.launches == 3 * 2);
          // A product has 16 features, 8 rows and 64 columns; 160 columns are padded to 192.
          const double groups = rows <= 8    ? 1
                                : rows <= 16 ? 2
                                : rows <= 32 ? 4
                                : rows <= 64 ? 8
                                             : 16;
          CHECK(work.products == groups * 24576 / 16 * 192 / 32 * 3 * (is_hopper ? 2 : 1));
          CHECK(work.product_flops == (is_hopper ? 4096 : 8192));
          CHECK(work.instructions > work.products);
          CHECK(work.bytes_in_flight > 0);
          // 8 bits per weight, of 192 columns.
          CHECK(work.dram_bytes >= 3 * (24576 * 192 + 4 * 24576));
        }
        CHECK(found == 1);
      }
    }
    CHECK(prediction_table("h100", "small", kShape, WeightFormat::kFp8).find("fp8") !=
          std::string::npos);
    for (const char* const card : {"t4", "a100"}) {
      CHECK_THROWS_WITH_AS(prediction_table(card, "small", kShape, WeightFormat::kFp8),
                           doctest::Contains("use --dtype w8a8"), Error);
    }
  }

  TEST_CASE("cards are those that are planned for, with the data sheet's rate of tensor cores") {
    REQUIRE(cuda_cards().size() == plan::cards().size());
    for (const plan::Card& planned : plan::cards()) {
      CAPTURE(planned.name);
      const CudaCard* const card = find_cuda_card(planned.name);
      REQUIRE(card != nullptr);
      CHECK(card->architecture == planned.compute_capability);
      CHECK(card->bytes_per_s == planned.bytes_per_s);
      CHECK(card->flops_per_s() == doctest::Approx(planned.flops_per_s).epsilon(0.01));
    }
  }

  TEST_CASE("prefill with 16 bits has at least 60 % of the tensor cores' rate on every card") {
    const std::optional<model::Blueprint> qwen3_8b = plan::find_known_model("qwen3-8b");
    REQUIRE(qwen3_8b.has_value());
    const CudaStep step{.new_tokens = 4608, .context_tokens = 4608};
    for (const CudaCard& card : cuda_cards()) {
      CAPTURE(card.name);
      double seconds = 0;
      double products = 0;
      bool has_warpgroups = false;
      for (const CudaWork& work : list_operations(card, *qwen3_8b->text, step)) {
        seconds += predict(card, work).seconds;
        products += work.products;
        has_warpgroups = has_warpgroups || work.has_warpgroups;
      }
      CHECK(4096 * products / card.flops_per_s() > 0.6 * seconds);
      CHECK(has_warpgroups == (card.architecture >= 90));
    }
  }

  TEST_CASE("prefill with codes keeps tensor cores busy for most of the time") {
    const std::optional<model::Blueprint> qwen3_8b = plan::find_known_model("qwen3-8b");
    REQUIRE(qwen3_8b.has_value());
    const CudaStep step{.new_tokens = 4608, .context_tokens = 4608};
    for (const char* const name : {"t4", "l4", "a100"}) {
      for (const auto format : {weights::WeightFormat::kNf4, weights::WeightFormat::kInt4,
                                weights::WeightFormat::kW8A8, weights::WeightFormat::kW4A8}) {
        CAPTURE(name);
        const CudaCard& card = *find_cuda_card(name);
        double seconds = 0;
        double products = 0;
        for (const CudaWork& work : list_operations(card, *qwen3_8b->text, step, format)) {
          seconds += predict(card, work).seconds;
          products += work.products;
        }
        CHECK(4096 * products / card.flops_per_s() > 0.6 * seconds);
      }
    }
  }

  TEST_CASE("a warp of attention multiplies 16 rows by 64 keys, whatever of them it needs") {
    const CudaCard& a100 = *find_cuda_card("a100");
    const auto products = [&](const AttentionCall& call) {
      return count_attention(a100, call).products;
    };
    // A tile of 64 rows and a step of keys: 2 * 64^3 multiplications of 2,048 each.
    CHECK(products({.new_tokens = 64, .keys = 64, .head_dim = 64}) == 256);
    CHECK(products({.new_tokens = 1, .keys = 1, .head_dim = 64}) == 256);
    CHECK(products({.new_tokens = 64, .keys = 64, .head_dim = 72}) == 320);      // as 80
    CHECK(products({.new_tokens = 1, .keys = 320, .head_dim = 72}) == 5 * 128);  // in splits as 128
    CHECK(products({.new_tokens = 64, .keys = 64, .head_dim = 96}) == 512);      // as 128
    // Two tiles, of which the first sees one step.
    CHECK(products({.new_tokens = 128, .keys = 128, .head_dim = 64}) == 3 * 256);
    CHECK(products({.new_tokens = 128, .keys = 128, .is_causal = false, .head_dim = 64}) == 1024);
    // Four query heads share a key head, and a tile of 16 rows.
    const AttentionCall decoding{.keys = 8192, .heads = 32, .kv_heads = 8, .head_dim = 128};
    const CudaWork work = count_attention(a100, decoding);
    CHECK(work.launches == 1);
    CHECK(work.products == 8 * 128 * 128);
    CHECK(work.blocks == 8 * (4 + 14));  // splits of 256 and of 512 keys
    CHECK(work.dram_bytes == 2 * 2 * 8192 * 8 * 128);
    CHECK(work.kernel == "AttendTiles<BF16, BF16, 8, (TileWork)1>");
    CHECK(work.instructions > 8 * work.products);
    // Lengths and slots, the first keys, states and their count, and 18 splits at once.
    const double waits = (2 + 2 + 1) * a100.l2_latency_s() + a100.dram_latency_s();
    CHECK(work.wait_seconds > waits);
    CHECK(work.wait_seconds < waits + 2e-6);
    AttentionCall early = decoding;
    early.begins_early = true;
    CHECK(count_attention(a100, early).wait_seconds ==
          doctest::Approx(work.wait_seconds - 2 * a100.l2_latency_s()));
    // Four sequences that share 4,096 keys read them once, and the same bytes from L2 as others.
    AttentionCall sharing = decoding;
    sharing.sequences = 8;
    const CudaWork apart = count_attention(a100, sharing);
    sharing.shared_keys = 4096;
    sharing.sharing_sequences = 4;
    CHECK(count_attention(a100, sharing).dram_bytes == 2 * 2 * (8 + 2) * 4096 * 8 * 128);
    CHECK(count_attention(a100, sharing).l2_bytes == apart.l2_bytes);
    CHECK(count_attention(*find_cuda_card("t4"), decoding).kernel ==
          "AttendTiles<F16, F16, 8, (TileWork)2>");
    // Products in f32 are not modelled.
    CHECK(count_attention(a100, {.head_dim = 24}).kernel.empty());
  }

  TEST_CASE("attention in splits is chosen for few rows, as kernels/cuda/attention.cu does") {
    const auto has_splits = [](std::int64_t sequences, std::int64_t new_tokens, std::int64_t keys) {
      return count_attention(*find_cuda_card("a100"), {.sequences = sequences,
                                                       .new_tokens = new_tokens,
                                                       .keys = keys,
                                                       .heads = 8,
                                                       .kv_heads = 2,
                                                       .head_dim = 64})
                 .kernel == "AttendTiles<BF16, BF16, 4, (TileWork)1>";
    };
    CHECK_FALSE(has_splits(1, 1, 256));  // a single split
    CHECK(has_splits(1, 1, 257));
    CHECK(has_splits(1000, 4, 257));          // 16 rows of a key head
    CHECK_FALSE(has_splits(1000, 5, 257));    // 20 rows, 2,000 blocks
    CHECK(has_splits(1, 2096, 2096));         // 262 blocks of 64 rows
    CHECK_FALSE(has_splits(1, 2112, 2112));   // 264
    CHECK_FALSE(has_splits(1000, 4, 70000));  // states of more than 64 MB
    CHECK(has_splits(4096, 1, 257));
    CHECK_FALSE(has_splits(4097, 1, 257));  // two tiles more than there are counters
  }

  TEST_CASE("tokens of 64 rows, or beams, of 151,936 logits take less than a twentieth of a step") {
    const std::optional<model::Blueprint> qwen3_8b = plan::find_known_model("qwen3-8b");
    REQUIRE(qwen3_8b.has_value());
    for (const auto& [num_beams, operation] :
         {std::pair{1, "sample_rows"}, {4, "beam_candidates"}}) {
      for (const CudaCard& card : cuda_cards()) {
        CAPTURE(card.name);
        const CudaStep step{.num_sequences = 64, .context_tokens = 1280, .num_beams = num_beams};
        double seconds = 0;
        double sampling = 0;
        for (const CudaWork& work : list_operations(card, *qwen3_8b->text, step)) {
          seconds += predict(card, work).seconds;
          if (work.operation == operation) sampling = predict(card, work).seconds;
        }
        CHECK(sampling > 0);
        CHECK(sampling < 0.05 * seconds);
      }
    }
  }

  TEST_CASE("the launches of a decode step are those of a graph, and prefill's are not") {
    for (const std::int64_t new_tokens : {1, 2}) {
      CAPTURE(new_tokens);
      const CudaStep step{.new_tokens = new_tokens, .context_tokens = 2};
      for (const CudaWork& work : list_operations(kCard, kShape, step)) {
        CHECK(work.launch_seconds == (new_tokens == 1 ? kGraphLaunchSeconds : kLaunchSeconds));
      }
    }
  }

  TEST_CASE("from sm_90 on launches of a decode step begin early, others do not") {
    for (const CudaCard& card : cuda_cards()) {
      CAPTURE(card.name);
      const bool has_early = card.architecture >= 90;
      for (const std::int64_t new_tokens : {1, 2}) {
        const CudaStep step{.new_tokens = new_tokens, .context_tokens = 1280};
        for (const CudaWork& work : list_operations(card, kShape, step)) {
          CAPTURE(work.operation);
          const bool is_early = work.launch_seconds == kDependentLaunchSeconds;
          const bool is_dense = work.kernel.starts_with("FewRows<");
          if (is_dense || work.operation == "rope_kv_write" || work.operation == "rms_norm") {
            CHECK(is_early == (has_early && new_tokens == 1));
          } else if (work.operation == "sample_rows" || work.operation == "embedding") {
            CHECK_FALSE(is_early);
          }
        }
      }
    }
  }

  TEST_CASE("attention of 16 sequences of 8,192 tokens is bound by the bandwidth of every card") {
    for (const CudaCard& card : cuda_cards()) {
      CAPTURE(card.name);
      const AttentionCall call{
          .sequences = 16, .keys = 8192, .heads = 32, .kv_heads = 8, .head_dim = 128};
      const CudaWork work = count_attention(card, call);
      CHECK(!work.kernel.empty());
      CHECK(work.dram_bytes / card.bytes_per_s > 0.8 * predict(card, work).seconds);
    }
  }

  TEST_CASE("64 frames take at least 45 % of the tensor cores' rate") {
    const std::optional<model::Blueprint> clip = plan::find_known_model("clip-l-336");
    REQUIRE(clip.has_value());
    for (const CudaCard& card : cuda_cards()) {
      CAPTURE(card.name);
      double seconds = 0;
      double products = 0;
      for (const CudaWork& work : list_tower_operations(card, *clip->vision, 64)) {
        CHECK(!work.kernel.empty());
        seconds += predict(card, work).seconds;
        products += work.products;
      }
      CHECK(4096 * products / card.flops_per_s() > 0.45 * seconds);
    }
    CHECK_THROWS_AS(tower_prediction_table("t4", "a tower", {}), Error);
    CHECK(tower_prediction_table("t4", "clip", *clip->vision).find("64 frames: ") !=
          std::string::npos);
  }

  TEST_CASE("decoding at most 8 sequences takes six launches per layer, up to 16 eight") {
    const auto launches = [](std::int64_t layers, std::int64_t sequences) {
      model::DecoderSpec shape = kShape;
      shape.num_layers = layers;
      const CudaStep step{.num_sequences = sequences, .context_tokens = 1280};
      std::int64_t sum = 0;
      for (const CudaWork& work : list_operations(*find_cuda_card("h100"), shape, step)) {
        sum += work.launches;
      }
      return sum;
    };
    for (const auto& [sequences, of_layer] : {std::pair{1, 6}, {8, 6}, {9, 8}, {16, 8}}) {
      CHECK(launches(5, sequences) - launches(4, sequences) == of_layer);
    }
  }

  TEST_CASE("a step reads its weights and pages at least once, and says what is not modelled") {
    const CudaStep step{.num_sequences = 4, .context_tokens = 500};
    double bytes = 0;
    for (const CudaWork& work : list_operations(*find_cuda_card("t4"), kShape, step)) {
      bytes += work.dram_bytes;
    }
    const double layer = 64 * (96 + 2 * 48) + 64 * 96 + 3 * 64 * 160;  // q, k, v; o; the MLP
    // Small matrices and activations stay in L2.
    CHECK(bytes == 2 * (3 * layer + 304 * 64) + 4 * 500 * 3 * 2 * 48 * 2);
    const std::string table = prediction_table("t4", "small", kShape);
    CHECK(table.find("decoding of 16 sequences") != std::string::npos);
    CHECK(table.find("not modelled") != std::string::npos);
  }
}

}  // namespace caption::bench
