// Tests the operations of small shapes. No times are asserted.
#include "bench/kernel_bench.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"

namespace caption::bench {
namespace {

const model::DecoderSpec kText = {.num_layers = 2,
                                  .hidden = 64,
                                  .intermediate = 128,
                                  .num_heads = 4,
                                  .num_kv_heads = 2,
                                  .head_dim = 16,
                                  .vocab = 320,
                                  .max_positions = 1024,
                                  .qk_norm = true};
const model::VisionSpec kVision = {.num_layers = 1,
                                   .hidden = 32,
                                   .intermediate = 64,
                                   .num_heads = 2,
                                   .patch_px = 4,
                                   .image_px = 16};

KernelBench run(const model::Blueprint& shape) {
  ThreadPool pool(2);
  Stream stream(pool);
  KernelBenchOptions options;
  options.tokens = {1, 5};
  options.batches = {1, 3};
  options.context_tokens = 40;
  options.working_set_bytes = 1 << 16;
  options.num_rounds = 1;
  options.round_us = 1;
  options.roofline = {.buffer_bytes = 4 << 20, .num_passes = 1, .flops_pass_us = 1000};
  return bench_kernels(stream, shape, options);
}

model::Blueprint text_and_vision() {
  model::Blueprint blueprint;
  blueprint.name = "small";
  blueprint.text = kText;
  blueprint.vision = kVision;
  return blueprint;
}

const KernelRow& find(const KernelBench& bench, const std::string& operation,
                      const std::string& setting, std::int64_t tokens) {
  const auto row = std::find_if(bench.rows.begin(), bench.rows.end(), [&](const KernelRow& each) {
    return each.operation == operation && each.setting == setting && each.tokens == tokens;
  });
  CAPTURE(operation);
  CAPTURE(setting);
  REQUIRE(row != bench.rows.end());
  return *row;
}

TEST_SUITE("bench/kernel_bench") {
  TEST_CASE("every operation has a row, with the work that is counted by hand") {
    const KernelBench bench = run(text_and_vision());
    struct Case {
      const char* operation;
      const char* setting;
      std::int64_t tokens;
      double flops;
      double bytes;  // 0: depends on the tier's layout
    };
    constexpr Case kCases[] = {
        // q and o are [64, 64], k and v [32, 64].
        {"linear o", "int8", 5, 2.0 * 5 * 64 * 64, 0},
        {"linear o", "w8a8", 5, 2.0 * 5 * 64 * 64, 64 * 64 + 4 * 64 + 4 * 5 * 128},
        {"linear q, k, v", "bf16", 1, 2.0 * 128 * 64, 2 * 128 * 64 + 4 * 192},
        {"linear_swiglu gate, up", "int4", 1, 2.0 * 2 * 128 * 64, 0},
        {"linear_swiglu gate, up", "bf16", 5, 2.0 * 5 * 2 * 128 * 64,
         2 * 2 * 128 * 64 + 4 * 5 * 192},
        {"linear down", "nf4", 5, 2.0 * 5 * 64 * 128, 0},
        {"linear lm_head", "bf16", 5, 2.0 * 5 * 320 * 64, 2 * 320 * 64 + 4 * 5 * 384},
        // Bytes of K and V of 3 contexts of 40 tokens with 2 heads of 16, and of queries and
        // results of 4 heads.
        {"attention, decoding", "bf16 KV, batch 3 of 40", 3, 4.0 * 64 * 3 * 40,
         2 * 3 * 40 * 2 * 16 * 2 + 2 * 4 * 3 * 64},
        {"attention, decoding", "int8 KV, batch 1 of 40", 1, 4.0 * 64 * 40,
         2 * 40 * 2 * (16 + 2) + 2 * 4 * 64},
        {"attention, prompt", "bf16 KV, batch 1 of 40", 40, 4.0 * 64 * (40 * 41 / 2),
         2 * 40 * 2 * 16 * 2 + 2 * 4 * 40 * 64},
        {"rms_norm", "f32", 5, 4.0 * 5 * 64, 8 * 5 * 64 + 2 * 64},
        {"rope", "f32", 5, 3.0 * 5 * 64, 8 * 5 * 64 + 4 * 5 * 16},
        {"embedding", "bf16", 5, 0, 6 * 5 * 64},
        // 4 x 4 patches of 48 values each, and a class token.
        {"im2col_patches", "f32", 16, 0, 8 * 16 * 48},
        {"linear patches", "bf16", 16, 2.0 * 16 * 32 * 48, 2 * 32 * 48 + 4 * 16 * 80},
        {"linear fc1", "bf16", 17, 2.0 * 17 * 64 * 32, 2 * 64 * 32 + 4 * 17 * 96},
        {"linear fc2", "w8a8", 17, 2.0 * 17 * 64 * 32, 64 * 32 + 4 * 32 + 4 * 17 * 96},
        {"attention, image", "f32", 17, 4.0 * 32 * 17 * 17, 16 * 17 * 32},
        {"layer_norm", "f32", 17, 7.0 * 17 * 32, 8 * 17 * 32 + 4 * 32},
    };
    for (const Case& c : kCases) {
      const KernelRow row = find(bench, c.operation, c.setting, c.tokens);
      CAPTURE(c.operation);
      CAPTURE(c.setting);
      CHECK(row.flops == c.flops);
      if (c.bytes > 0) CHECK(row.bytes == c.bytes);
      CHECK(row.bytes > 0);
      CHECK(row.seconds > 0);
      CHECK(row.bytes_per_s() == doctest::Approx(row.bytes / row.seconds));
    }
    CHECK(find(bench, "linear o", "int4", 1).bytes < find(bench, "linear o", "int8", 1).bytes);
    CHECK(bench.before.read_bytes_per_s > 0);
    CHECK(bench.after.flops_per_s > 0);
  }

  TEST_CASE("the table has a line and the JSON an object for each row") {
    model::Blueprint shape = text_and_vision();
    shape.text.reset();
    KernelBench bench = run(shape);
    bench.before.read_bytes_per_s = bench.after.read_bytes_per_s = 1e15;  // more than any cache's
    const std::string table = to_table("small; 2 threads", bench);
    const auto lines = std::count(table.begin(), table.end(), '\n');
    CHECK(lines == 5 + std::ssize(bench.rows));  // heading, machine, peaks, an empty line, names
    CHECK(table.find("layer_norm") != std::string::npos);
    CHECK(table.find("caches") == std::string::npos);
    KernelBench cached = bench;
    cached.before.read_bytes_per_s = cached.after.read_bytes_per_s = 1;
    CHECK(to_table("small", cached).find("\n\nmore bytes a second than the memory gives") !=
          std::string::npos);

    const JsonObject json =
        JsonObject::parse(to_json("small; 2 threads", bench), "bench", ErrorCode::kInternal);
    const std::vector<JsonObject> operations = json.get_objects("operations");
    REQUIRE(operations.size() == bench.rows.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      CHECK(operations[i].require_string("operation") == bench.rows[i].operation);
      CHECK(operations[i].get_double("flops", -1) == bench.rows[i].flops);
      CHECK(operations[i].get_double("share_of_bandwidth", 0) > 0);
    }
    CHECK(json.get_object("machine_before")->get_double("read_bytes_per_s", 0) > 0);
  }

  TEST_CASE("of a tower of frames of any size nothing is measured, and that is said") {
    model::Blueprint shape = text_and_vision();
    shape.vision->image_px = 0;
    const KernelBench bench = run(shape);
    CHECK(find(bench, "embedding", "bf16", 1).seconds > 0);
    CHECK(to_table("small", bench).find("\nnot measured: the tower, which takes") !=
          std::string::npos);
    const JsonObject json =
        JsonObject::parse(to_json("small", bench), "bench", ErrorCode::kInternal);
    CHECK(json.get_string("left_out", "").starts_with("the tower"));
    shape.text.reset();
    CHECK_THROWS_WITH_AS(run(shape), doctest::Contains("--tower measures this one as a whole"),
                         Error);
  }

  TEST_CASE("a shape without decoder and tower is refused by name") {
    model::Blueprint nothing;
    nothing.name = "nothing";
    CHECK_THROWS_WITH_AS(run(nothing), "bench: nothing has neither a decoder nor a tower", Error);
  }
}

}  // namespace
}  // namespace caption::bench
