// Work that is recorded and launched again, on the emulated GPU.
#include "backend/graph.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/device_runtime.h"
#include "base/error.h"
#include "kernels/rows.h"
#include "tensor/copy.h"
#include "tests/cuda/measured_kernels.h"
#include "tests/cuda/testing.h"
#include "tests/support/cuda/device_array.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/cuda/queues.h"

using caption::Buffer;
using caption::Context;
using caption::copy;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::ErrorCode;
using caption::Graph;
using caption::GraphCapture;
using caption::StagedTensor;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::cuda_emulator::Emulation;
using caption::testing::DeviceArray;
using caption::testing::launch_early_copy;

namespace {

const Context kGpu{.device = Device::kCuda};

// Rows of x in an order, on the GPU, with a copy on the host.
struct Gather {
  explicit Gather(Stream& stream) : order(Device::kCuda, DType::kI32, {2}) {
    for (int i = 0; i < 8; ++i) x.host().as<float>()[i] = static_cast<float>(i);
    x.upload(stream, 2);
    set_order(0, 1);
    stream.synchronize();
  }

  void set_order(std::int32_t first, std::int32_t second) {
    order.host().as<std::int32_t>()[0] = first;
    order.host().as<std::int32_t>()[1] = second;
  }
  // The order goes up, the rows are gathered, and come back.
  void launch(Stream& stream) {
    order.upload(stream, 2);
    caption::kernels::gather_rows(stream, x.device(), order.device(), y.device());
    y.download(stream, 0, 2);
  }
  float result(int row) { return y.host().as<float>()[row * 4]; }

  StagedTensor x{Device::kCuda, DType::kF32, {2, 4}};
  StagedTensor y{Device::kCuda, DType::kF32, {2, 4}};
  StagedTensor order;
};

Graph record(Stream& stream, const std::function<void()>& work) {
  GraphCapture capture(stream);
  work();
  return capture.finish();
}

std::string message_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_SUITE_BEGIN("cuda/graph");

TEST_CASE("a graph runs what was recorded at each launch, with what memory holds then") {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    CAPTURE(seed);
    const Emulation emulation({.seed = seed});
    caption::cuda_emulator::seed_queues(seed);
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    Stream other_stream(kGpu, pool);
    Gather gather(stream);
    Gather other(other_stream);
    gather.y.host().as<float>()[0] = -1;
    const Graph graph = record(stream, [&] { gather.launch(stream); });
    stream.synchronize();
    CHECK(gather.result(0) == -1);  // nothing has run
    for (const std::int32_t first : {1, 0, 1}) {
      gather.set_order(first, 1 - first);
      graph.launch(stream);
      other.launch(other_stream);
      stream.synchronize();
      CHECK(gather.result(0) == static_cast<float>(4 * first));
      CHECK(gather.result(1) == static_cast<float>(4 - 4 * first));
      other_stream.synchronize();
      CHECK(other.result(1) == 4);
    }
    CHECK(emulation.report().describe_faults() == "");
  }
  caption::cuda_emulator::seed_queues(0);
}

TEST_CASE("a launch of a graph is late, as other work, and pinned memory is read when it runs") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  Gather gather(stream);
  const Graph graph = record(stream, [&] { gather.launch(stream); });
  gather.set_order(1, 0);
  graph.launch(stream);
  gather.set_order(0, 0);  // the graph has not run
  stream.synchronize();
  CHECK(gather.result(0) == 0);
  CHECK(gather.result(1) == 0);
}

TEST_CASE("what was recorded is forgotten when the recording is not finished") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  Gather gather(stream);
  gather.y.host().as<float>()[0] = -1;
  {
    const GraphCapture capture(stream);
    gather.launch(stream);
  }
  stream.synchronize();
  CHECK(gather.result(0) == -1);
  gather.launch(stream);
  stream.synchronize();
  CHECK(gather.result(0) == 0);
}

TEST_CASE("a thread that records neither allocates nor waits, and other threads may") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  Stream other(kGpu, pool);
  Gather gather(stream);
  Tensor pageable(DType::kF32, {2, 4});
  const caption::Event event = stream.record();
  const std::function<void()> forbidden[] = {
      [] { Buffer(Device::kCuda, 16); },
      [] { Buffer::staging(Device::kCuda, 16); },
      [&] { stream.synchronize(); },
      [&] { other.synchronize(); },
      [&] { stream.record(); },
      [&] { event.synchronize(); },
      [&] { copy(stream, gather.x.device(), pageable.view()); },
      [&] { copy(stream, pageable.view(), gather.x.device()); },
      [&] { gather.launch(other); },
      [&] { GraphCapture{stream}; },
      [&] { Stream(kGpu, pool); }};
  for (const std::function<void()>& call : forbidden) {
    CAPTURE(&call - forbidden);
    CHECK(message_of([&] { record(stream, call); }, ErrorCode::kInternal)
              .find("the thread that records work ") != std::string::npos);
    CHECK_NOTHROW(call());  // and nobody records any more
  }
  // A call that cannot throw makes the end of the recording throw.
  std::optional<Buffer> buffer(std::in_place, Device::kCuda, 16);
  CHECK(message_of([&] { record(stream, [&] { buffer.reset(); }); }, ErrorCode::kInternal)
            .find("the thread that records work frees memory") != std::string::npos);
  CHECK_NOTHROW(record(stream, [&] {
    gather.launch(stream);
    std::thread([&] {
      const Tensor own = caption::copy_to(other, Device::kCuda, pageable.view());
      CHECK_THROWS_AS(own.clone(), Error);  // waits for all queues of the GPU
    }).join();
  }));
}

TEST_CASE("a graph whose memory was freed is at fault, and one whose memory stays is not") {
  for (const bool is_freed : {false, true}) {
    CAPTURE(is_freed);
    const Emulation emulation;
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    Gather gather(stream);
    std::optional<Tensor> target(std::in_place, DType::kF32, caption::Shape{2, 4}, Device::kCuda);
    gather.order.upload(stream, 2);
    const Graph graph = record(stream, [&] {
      caption::kernels::gather_rows(stream, gather.x.device(), gather.order.device(),
                                    target->view());
    });
    if (is_freed) target.reset();
    graph.launch(stream);
    stream.synchronize();
    CHECK(emulation.report().faults.empty() == !is_freed);
  }
}

TEST_CASE("a refused graph leaves the stream as it was, and a lost GPU is lost") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  Gather gather(stream);
  const auto record_all = [&] { record(stream, [&] { gather.launch(stream); }); };
  caption::cuda_emulator::refuse_graphs(true);
  CHECK(message_of(record_all, ErrorCode::kUnavailable) ==
        "cuda: the GPU refuses a graph (emulated)");
  caption::cuda_emulator::refuse_graphs(false);
  gather.set_order(1, 1);
  gather.launch(stream);
  stream.synchronize();
  CHECK(gather.result(0) == 4);
  for (int call = 0; call < 4; ++call) {  // the calls are a begin, two copies and an end
    CAPTURE(call);
    caption::cuda_emulator::lose_device_at(call);
    CHECK(message_of(record_all, ErrorCode::kUnavailable) == "cuda: the GPU is lost (emulated)");
    caption::cuda_emulator::lose_device_at(-1);
    CHECK_NOTHROW(record_all());
  }
  const Graph graph = record(stream, [&] { gather.launch(stream); });
  caption::cuda_emulator::lose_device_at(0);
  CHECK_THROWS_AS(graph.launch(stream), Error);
  caption::cuda_emulator::lose_device_at(-1);
  Stream second(Context{.device = Device::cuda(1)}, pool);
  CHECK_THROWS_AS(graph.launch(second), Error);
  Stream on_cpu(pool);
  CHECK_FALSE(caption::has_graphs(on_cpu));
  CHECK_THROWS_AS(GraphCapture{on_cpu}, Error);
}

TEST_CASE("what a launch of a graph reads before it waits, no launch of the graph has written") {
  const auto faults_of = [](bool reads_before_waiting, bool is_graph, bool reads_constant) {
    const Emulation emulation;
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    const DeviceArray<float> constant(std::vector<float>(64, 1.0F));
    const DeviceArray<float> between(std::vector<float>(64, 2.0F));
    const DeviceArray<float> result(std::vector<float>(64, 3.0F));
    const auto launch = [&] {
      launch_early_copy(stream.queue(), constant.begin(), between.begin(), true);
      launch_early_copy(stream.queue(), (reads_constant ? constant : between).begin(),
                        result.begin(), reads_before_waiting);
    };
    std::optional<Graph> graph;
    if (is_graph) graph = record(stream, launch);
    for (int i = 0; i < 2; ++i) {
      if (is_graph) {
        graph->launch(stream);
      } else {
        launch();
      }
    }
    stream.synchronize();
    CHECK(result.elements() == std::vector<float>(64, 1.0F));
    return emulation.report().faults;
  };
  const auto faults = faults_of(true, true, false);
  REQUIRE(faults.size() == 1);
  CHECK(faults.front().fault == caption::cuda_emulator::Fault::kBeforeWait);
  CHECK(faults.front().text.find("of the graph, which wrote them") != std::string::npos);
  CHECK(faults_of(false, true, false).empty());
  CHECK(faults_of(true, true, true).empty());
  CHECK(faults_of(true, false, false).empty());  // launches one by one do not overlap
}

TEST_SUITE_END();
