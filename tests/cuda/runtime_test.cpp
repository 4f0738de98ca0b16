// Streams, buffers, copies and events of a GPU, on the emulated one.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "backend/device_runtime.h"
#include "backend/machine.h"
#include "backend/stream.h"
#include "base/error.h"
#include "kernels/rows.h"
#include "tensor/copy.h"
#include "tests/cuda/testing.h"
#include "tests/support/cuda/emulated_runtime.h"
#include "tests/support/cuda/queues.h"

using caption::Buffer;
using caption::Context;
using caption::copy;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::StagedTensor;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::cuda_emulator::Emulation;
using caption::testing::random_f32;
using caption::testing::same_bits;

namespace {

const Context kGpu{.device = Device::kCuda};

// y = x [rows, columns] by a kernel of the stream's queue.
void move_by_kernel(Stream& stream, caption::ConstView x, caption::ConstView rows, View y) {
  caption::kernels::gather_rows(stream, x, rows, y);
}

Tensor ascending(std::int32_t count) {
  Tensor rows(DType::kI32, {count});
  for (std::int32_t i = 0; i < count; ++i) rows.as<std::int32_t>()[i] = i;
  return rows;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/runtime");

TEST_CASE("matrices go to the GPU, through a kernel and back, dense or not") {
  CHECK(caption::has_cuda_kernels());
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    CAPTURE(seed);
    const Emulation emulation({.seed = seed});
    caption::cuda_emulator::seed_queues(seed);
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    const Tensor x = random_f32({3, 7}, 5);
    const Tensor rows = caption::copy_to(stream, Device::kCuda, ascending(3).view());
    Tensor wide(DType::kF32, {3, 10}, Device::kCuda);
    Tensor moved(DType::kF32, {3, 7}, Device::kCuda);
    Tensor back(DType::kF32, {3, 7});
    copy(stream, x.view(), wide.view().columns(2, 7));
    move_by_kernel(stream, wide.view().columns(2, 7), rows.view(), moved.view());
    copy(stream, moved.view(), back.view());
    stream.synchronize();
    CHECK(same_bits(back, x));
    CHECK(same_bits(caption::copy_to(stream, Device::kCpu, moved.clone().view()), x));
    const Tensor zeros = Tensor::zeros(DType::kF32, {2, 3}, Device::kCuda);
    CHECK(same_bits(caption::copy_to(stream, Device::kCpu, zeros.view()),
                    Tensor::zeros(DType::kF32, {2, 3})));
    CHECK(emulation.report().describe_faults() == "");
  }
  caption::cuda_emulator::seed_queues(0);
}

TEST_CASE("work of a queue is late: memory of the host is read and written when it runs") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  StagedTensor staged(Device::kCuda, DType::kF32, {1, 4});
  float* const host = staged.host().as<float>();
  const auto set = [host](float x) {
    for (int i = 0; i < 4; ++i) host[i] = x;
  };
  set(1);
  staged.upload(stream, 1);
  set(2);  // the copy has not happened
  stream.synchronize();
  set(3);
  staged.download(stream, 0, 1);
  stream.synchronize();
  CHECK(host[0] == 2);

  // So it is with memory that is not pinned.
  std::vector<float> plain(4, 5.0F);
  const View plain_view(plain.data(), DType::kF32, {1, 4});
  copy(stream, plain_view, staged.device());
  plain.assign(4, 6.0F);
  staged.download(stream, 0, 1);
  stream.synchronize();
  CHECK(host[3] == 6);
  plain.assign(4, 7.0F);
  copy(stream, staged.device(), plain_view);
  CHECK(plain[3] == 7);
  stream.synchronize();
  CHECK(plain[3] == 6);
}

TEST_CASE("pinned memory that is freed before its copy was waited for is a fault") {
  for (const bool is_waited_for : {false, true}) {
    const Emulation emulation;
    ThreadPool pool(1);
    Stream stream(kGpu, pool);
    Tensor on_device(DType::kF32, {1, 4}, Device::kCuda);
    {
      Tensor pinned = Tensor::staging(DType::kF32, {1, 4}, Device::kCuda);
      for (int i = 0; i < 4; ++i) pinned.as<float>()[i] = 1;
      copy(stream, pinned.view(), on_device.view());
      if (is_waited_for) stream.synchronize();
    }
    const std::string faults = emulation.report().describe_faults();
    CHECK((faults.find("pinned memory is freed") == std::string::npos) == is_waited_for);
  }
}

TEST_CASE("an event is a point of its queue, and a queue knows nothing of another") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream first(kGpu, pool);
  Stream second(kGpu, pool);
  StagedTensor x(Device::kCuda, DType::kF32, {1, 4});
  StagedTensor y(Device::kCuda, DType::kF32, {1, 4});
  for (int i = 0; i < 4; ++i) x.host().as<float>()[i] = y.host().as<float>()[i] = 1;
  x.upload(first, 1);
  const caption::Event uploaded = first.record();
  y.upload(second, 1);
  uploaded.synchronize();
  for (int i = 0; i < 4; ++i) x.host().as<float>()[i] = y.host().as<float>()[i] = 2;
  x.download(first, 0, 1);
  first.synchronize();
  y.download(second, 0, 1);
  second.synchronize();
  CHECK(x.host().as<float>()[0] == 1);  // copied before the event
  CHECK(y.host().as<float>()[0] == 2);  // nobody had waited for the second queue
  const caption::Event later = first.record();
  CHECK(later.since(uploaded).count() >= 0);
}

TEST_CASE("a queue that waits for a point of another begins after it, and the host goes on") {
  for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    const Emulation emulation;
    caption::cuda_emulator::seed_queues(seed);
    ThreadPool pool(1);
    Stream first(kGpu, pool);
    Stream second(kGpu, pool);
    Stream third(kGpu, pool);
    StagedTensor x(Device::kCuda, DType::kF32, {1, 4});
    const Tensor other = Tensor::staging(DType::kF32, {1, 4}, Device::kCuda);
    const View other_view(const_cast<void*>(other.view().raw()), DType::kF32, {1, 4});
    for (int i = 0; i < 4; ++i) x.host().as<float>()[i] = 1;
    const std::int64_t waits = caption::cuda_emulator::count_waits();
    x.upload(first, 1);
    second.wait(first.record());
    copy(second, x.device(), other_view);
    third.wait(second.record());  // through a queue between them
    copy(third, other_view, x.device());
    x.download(third, 0, 1);
    CHECK(caption::cuda_emulator::count_waits() == waits);
    x.host().as<float>()[0] = 7;  // the upload has not happened
    third.synchronize();
    CHECK(other_view.as<float>()[0] == 7);
    CHECK(x.host().as<float>()[3] == 1);
  }
  caption::cuda_emulator::seed_queues(0);
}

TEST_CASE("a GPU without the memory refuses with its numbers, and memory comes back") {
  constexpr std::int64_t kMiB = 1 << 20;
  const std::int64_t before = caption::cuda_emulator::allocated_bytes();
  caption::cuda_emulator::set_memory_bytes(before + 3 * kMiB);
  {
    const Buffer first(Device::kCuda, 2 * kMiB);
    std::string message;
    try {
      const Buffer second(Device::kCuda, 2 * kMiB);
    } catch (const Error& error) {
      CHECK(error.code() == caption::ErrorCode::kOutOfMemory);
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.starts_with("buffer: the GPU has no 2.10 MB left (1.05 MB of "));
  }
  CHECK_NOTHROW(Buffer(Device::kCuda, 2 * kMiB));
  caption::cuda_emulator::set_memory_bytes(std::int64_t{8} << 30);
  CHECK(caption::cuda_emulator::allocated_bytes() == before);
}

TEST_CASE("each GPU has its memory and its queues, whichever thread uses them") {
  const Emulation emulation;
  const Device second = Device::cuda(1);
  CHECK(second != Device::kCuda);
  ThreadPool pool(1);
  Stream first_stream(kGpu, pool);
  Stream second_stream(Context{.device = second}, pool);
  const Tensor x = random_f32({3, 7}, 5);
  const Tensor order = ascending(3);
  // The streams take turns, so that each call finds the other GPU current.
  const Tensor on_first = caption::copy_to(first_stream, Device::kCuda, x.view());
  const Tensor on_second = caption::copy_to(second_stream, second, x.view());
  const Tensor rows = caption::copy_to(first_stream, Device::kCuda, order.view());
  const Tensor second_rows = caption::copy_to(second_stream, second, order.view());
  Tensor moved(DType::kF32, {3, 7}, Device::kCuda);
  Tensor second_moved(DType::kF32, {3, 7}, second);
  move_by_kernel(first_stream, on_first.view(), rows.view(), moved.view());
  move_by_kernel(second_stream, on_second.view(), second_rows.view(), second_moved.view());
  CHECK(same_bits(caption::copy_to(second_stream, Device::kCpu, second_moved.view()), x));
  CHECK(same_bits(caption::copy_to(first_stream, Device::kCpu, moved.view()), x));
  CHECK(same_bits(caption::copy_to(second_stream, Device::kCpu, second_moved.clone().view()), x));
  const caption::Event begin = second_stream.record();
  CHECK(second_stream.record().since(begin).count() >= 0);

  // The contract, copies and the emulator refuse what belongs to another GPU.
  CHECK_THROWS_AS(
      move_by_kernel(second_stream, on_first.view(), second_rows.view(), second_moved.view()),
      Error);
  CHECK_THROWS_AS(copy(second_stream, on_first.view(), moved.view()), Error);
  void* const second_queue = second_stream.queue();
  caption::DeviceRuntime& runtime = caption::require_device_runtime(Device::kCuda);
  CHECK_THROWS_AS(runtime.record(second_queue), Error);
  CHECK_THROWS_AS(runtime.use(caption::cuda_emulator::kNumDevices), Error);
  CHECK(emulation.report().describe_faults() == "");
}

TEST_CASE("a kernel that accesses the memory of another GPU is at fault") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  Stream other(Context{.device = Device::cuda(1)}, pool);
  const Tensor elsewhere = caption::copy_to(other, Device::cuda(1), random_f32({3, 7}, 5).view());
  const Tensor rows = caption::copy_to(stream, Device::kCuda, ascending(3).view());
  Tensor moved(DType::kF32, {3, 7}, Device::kCuda);
  // The view claims that the memory is the first GPU's.
  const caption::ConstView claimed(elsewhere.view().raw(), DType::kF32, {3, 7}, Device::kCuda);
  move_by_kernel(stream, claimed, rows.view(), moved.view());
  stream.synchronize();
  CHECK(emulation.report().describe_faults().find("global memory of another GPU") !=
        std::string::npos);
}

TEST_CASE("a GPU is lost alone") {
  ThreadPool pool(1);
  caption::cuda_emulator::lose_device_at(0, 1);
  CHECK_THROWS_AS(Buffer(Device::cuda(1), 16), Error);
  CHECK_NOTHROW(Buffer(Device::kCuda, 16));
  CHECK(caption::cuda_emulator::count_calls(1) == 1);
  caption::cuda_emulator::lose_device_at(-1, 1);
  CHECK_NOTHROW(Buffer(Device::cuda(1), 16));
}

TEST_CASE("a stream's scratch memory grows and stays") {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(kGpu, pool);
  std::byte* const first = stream.scratch(1000);
  CHECK(stream.scratch(500) == first);
  CHECK(stream.scratch(2000) != first);
}

TEST_SUITE_END();
