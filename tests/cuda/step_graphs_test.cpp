// Decode steps that are launched as graphs, with a small decoder on the emulated GPU.
#include "engine/internal/step_graphs.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/profile.h"
#include "base/error.h"
#include "engine/engine.h"
#include "kernels/rows.h"
#include "model/random_model.h"
#include "tensor/copy.h"
#include "tests/cuda/small_decoder.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/cuda/queues.h"
#include "tests/support/oracle_drafts.h"

using caption::Context;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::ErrorCode;
using caption::Profile;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::testing::OracleDrafts;
using namespace caption::engine;
namespace cuda_emulator = caption::cuda_emulator;
namespace model = caption::model;

namespace {

const model::DecoderSpec kSpec = caption::testing::small_decoder(1);

EngineOptions options_with_pages(std::int64_t num_pages, DType dtype = DType::kBF16) {
  EngineOptions options;
  options.kv_dtype = dtype;
  options.kv_cache_bytes = num_pages * 16 * model::kv_token_bytes(kSpec, dtype);
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  return options;
}

struct Room {
  explicit Room(int ordinal = 0) : device(Device::cuda(ordinal)) {}

  Device device;
  ThreadPool pool{1};
  Stream stream{Context{.device = device}, pool};
  std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, kSpec, caption::weights::WeightFormat::kBF16, 3);
};

std::vector<Request> mixed_requests() {
  std::vector<Request> requests(5);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto first = static_cast<std::int32_t>(7 * i);
    requests[i].prompt_ids = {first, first + 1, first + 2, first, first + 1};
    requests[i].prompt_ids.resize(5 + 3 * i, first + 3);
    requests[i].sampling.max_new_tokens = static_cast<std::int32_t>(4 + 2 * i);
  }
  requests[1].sampling.temperature = 1;
  requests[1].sampling.top_p = 0.9;
  requests[1].sampling.seed = 4;
  requests[2].sampling.repetition_penalty = 1.3;
  requests[2].sampling.no_repeat_ngram_size = 2;
  requests[3].sampling.num_logprobs = 1;
  requests[4].sampling.num_beams = 2;
  return requests;
}

// Tokens, and log-probabilities, which show a changed bit of the logits.
struct Output {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;
  double beam_score = 0;

  bool operator==(const Output&) const = default;
};

struct Run {
  std::map<RequestId, Output> outputs;
  EngineStats stats;
  bool has_allocated = false;  // memory of the GPU, in a step
};

// With a profile, steps are launched kernel by kernel.
Run run(Room& room, const EngineOptions& options, const std::vector<Request>& requests,
        bool has_profile = false) {
  Profile profile;
  room.stream.set_profile(has_profile ? &profile : nullptr);
  Engine engine(*room.decoder, room.stream, options);
  for (const Request& request : requests) engine.submit(request);
  const std::int64_t allocated = cuda_emulator::allocated_bytes();
  Run run;
  while (!engine.idle()) {
    for (const Completion& completion : engine.step()) {
      CHECK_FALSE(completion.error.has_value());
      Output& output = run.outputs[completion.id];
      output.ids = completion.output_ids;
      for (const auto& token : completion.logprobs) output.logprobs.push_back(token.chosen.logprob);
      output.beam_score = completion.beam_score;
    }
    run.has_allocated |= cuda_emulator::allocated_bytes() != allocated;
  }
  run.stats = engine.stats();
  room.stream.set_profile(nullptr);
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/step_graphs");

TEST_CASE("decode steps are graphs, and their tokens those of steps that are none") {
  for (const int ordinal : {0, 1}) {
    CAPTURE(ordinal);
    Room room(ordinal);
    const EngineOptions options = options_with_pages(20, ordinal == 0 ? DType::kBF16 : DType::kI8);
    const std::vector<Request> requests = mixed_requests();
    const Run without = run(room, options, requests, true);
    const std::int64_t before = cuda_emulator::count_graph_launches();
    const Run with = run(room, options, requests);
    CHECK(with.outputs == without.outputs);
    CHECK_FALSE(with.has_allocated);
    CHECK(without.stats.graph_steps == 0);
    CHECK(with.stats.steps == without.stats.steps);
    CHECK(with.stats.graph_steps == cuda_emulator::count_graph_launches() - before);
    // All but prefill and the first steps of 4, 2 and 1 rows.
    CHECK(with.stats.graph_steps >= with.stats.steps / 3);
  }
}

TEST_CASE("drafts, and requests that give way to others, have graphs and the same tokens") {
  Room room;
  std::vector<Request> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt_ids = {static_cast<std::int32_t>(i), 5, 9};
    requests[i].sampling.max_new_tokens = 26;
  }
  const Run without = run(room, options_with_pages(20), requests, true);
  const Run scarce = run(room, options_with_pages(5), requests);
  CHECK(scarce.outputs == without.outputs);
  CHECK(scarce.stats.preemptions > 0);
  CHECK(scarce.stats.graph_steps > 0);
  OracleDrafts drafts(static_cast<std::int32_t>(kSpec.vocab));
  for (const auto& [id, output] : without.outputs) {
    drafts.add(requests[static_cast<std::size_t>(id)].prompt_ids, output.ids);
  }
  EngineOptions options = options_with_pages(20);
  options.max_num_seqs = 3;
  options.draft_source = &drafts;
  options.max_drafts = 3;
  const Run drafted = run(room, options, requests);
  CHECK(drafted.outputs == without.outputs);
  CHECK(drafted.stats.accepted_tokens > 0);
  CHECK(drafted.stats.graph_steps > 0);
}

// The memory of the states of attention to more splits is reserved, so that recorded graphs stay.
TEST_CASE("a table that grows past a width has graphs of both") {
  Room room;
  std::vector<Request> requests(2);
  requests[0].prompt_ids.assign(250, 7);
  requests[1].prompt_ids = {3, 4};
  for (Request& request : requests) request.sampling.max_new_tokens = 12;
  requests[0].sampling.num_logprobs = 0;
  const Run without = run(room, options_with_pages(20), requests, true);
  const Run with = run(room, options_with_pages(20), requests);
  CHECK(with.outputs == without.outputs);
  CHECK_FALSE(with.has_allocated);
  CHECK(with.stats.graph_steps > 4);
}

TEST_CASE("where the GPU refuses graphs, steps are launched kernel by kernel") {
  Room room;
  const std::vector<Request> requests(2, mixed_requests()[1]);
  const Run with = run(room, options_with_pages(20), requests);
  CHECK(with.stats.graph_steps > 0);
  cuda_emulator::refuse_graphs(true);
  const Run refused = run(room, options_with_pages(20), requests);
  cuda_emulator::refuse_graphs(false);
  CHECK(refused.outputs == with.outputs);
  CHECK(refused.stats.graph_steps == 0);
}

TEST_CASE("whenever the GPU is lost, a step with graphs ends with an error") {
  Room room;
  const std::vector<Request> requests = {mixed_requests()[0]};
  const auto run_lost_at = [&](std::int64_t call) {
    Engine engine(*room.decoder, room.stream, options_with_pages(4));
    engine.submit(requests[0]);
    cuda_emulator::lose_device_at(call);
    while (!engine.idle()) engine.step();
    CHECK(engine.stats().graph_steps == 2);
  };
  run_lost_at(std::int64_t{1} << 40);
  const std::int64_t num_calls = cuda_emulator::count_calls();
  const std::int64_t held_bytes = cuda_emulator::allocated_bytes();
  for (std::int64_t call = 0; call < num_calls; ++call) {
    CAPTURE(call);
    std::string message;
    try {
      run_lost_at(call);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnavailable);
      message = error.what();
    }
    CHECK(message == "cuda: the GPU is lost (emulated)");
    cuda_emulator::lose_device_at(-1);
    CHECK(cuda_emulator::allocated_bytes() == held_bytes);
  }
}

TEST_CASE("shapes are few, and each holds every step that it stands for") {
  const StepGraphs graphs(72, 300);
  std::map<std::int64_t, int> row_counts;
  std::map<std::int64_t, int> page_counts;
  for (std::int64_t rows = 1; rows <= 72; ++rows) {
    const StepShape shape = graphs.padded({.rows = rows, .table_pages = 1});
    CHECK(shape.rows >= rows);
    CHECK(shape.rows - rows < 16);
    ++row_counts[shape.rows];
  }
  for (std::int64_t pages = 1; pages <= 300; ++pages) {
    const std::int64_t padded = graphs.padded({.rows = 1, .table_pages = pages}).table_pages;
    CHECK(padded >= pages);
    CHECK((padded - pages < 16 || padded * 4 <= pages * 5));
    ++page_counts[padded];
  }
  CHECK(row_counts.size() == 9);  // 1, 2, 4, 8, 16, 32, 48, 64, 72
  CHECK(page_counts.rbegin()->first == 300);
  CHECK(page_counts.size() == 13);  // 16, 32, ..., 128, 160, 192, 224, 256, 300
}

TEST_CASE("a graph is kept while its memory stays, and as long as others do not need its place") {
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda}, pool);
  const Tensor x = Tensor::zeros(DType::kI32, {1, 1}, Device::kCuda);
  StepGraphs graphs(8192, 16);
  std::unique_ptr<Tensor> y;
  int num_launched = 0;  // kernel by kernel, or recorded
  const auto step = [&](std::int64_t rows) {
    if (y == nullptr) {
      y = std::make_unique<Tensor>(DType::kI32, caption::Shape{1, 1}, Device::kCuda);
    }
    graphs.run(stream, {.rows = rows}, {.arrays = y->view().raw()}, [&] {
      ++num_launched;
      caption::kernels::gather_rows(stream, x.view(), x.view().reshape({1}), y->view());
    });
    stream.synchronize();
  };
  for (int i = 0; i < 5; ++i) step(1);
  CHECK(num_launched == 2);
  CHECK(graphs.num_graph_launches() == 4);
  y.reset();
  for (int i = 0; i < 3; ++i) step(1);  // recorded again, at once
  CHECK(num_launched == 3);
  for (std::size_t rows = 1; rows <= StepGraphs::kMostGraphs; ++rows) {
    for (int i = 0; i < 2; ++i) step(static_cast<std::int64_t>(rows));
  }
  CHECK(num_launched == 1 + 2 * static_cast<int>(StepGraphs::kMostGraphs));
  step(5000);  // takes the place of the graph that was launched longest ago
  num_launched = 0;
  step(2);
  CHECK(num_launched == 0);
  step(1);
  CHECK(num_launched == 1);
}

TEST_SUITE_END();
