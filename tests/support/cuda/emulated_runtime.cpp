#include "tests/support/cuda/emulated_runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/device_runtime.h"
#include "backend/internal/cuda_probe.h"
#include "base/error.h"
#include "tests/support/cuda/emulator.h"
#include "tests/support/cuda/queues.h"
#include "tests/support/cuda/state.h"

namespace caption {
namespace {

using cuda_emulator::current_device;
using cuda_emulator::device_mutex;
using cuda_emulator::kNumDevices;
using cuda_emulator::note_while_capturing;
using cuda_emulator::refuse_while_capturing;

// Keys are the begins of allocations.
using Sizes = std::map<const std::byte*, std::size_t>;

bool contains(const Sizes& sizes, const std::byte* address) {
  auto next = sizes.upper_bound(address);
  if (next == sizes.begin()) return false;
  --next;
  return address < next->first + next->second;
}

// What a copy that is queued uses of the host's memory; the queue owns it until the copy has run.
struct QueuedCopy {
  const std::byte* on_host = nullptr;
  int device = 0;
};

// What is counted for each GPU.
struct Counts {
  std::int64_t allocated_bytes = 0;
  std::int64_t num_calls = 0;
  std::int64_t lost_at = -1;
  std::int64_t num_allocations = 0;
  std::int64_t refused_from = -1;
};

bool has_content(const char* file) {
  std::error_code error;
  const std::uintmax_t size_bytes = std::filesystem::file_size(file, error);
  return !error && size_bytes > 0;
}

// "1:40" of a variable of the environment.
std::optional<std::pair<int, std::int64_t>> device_and_number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  char* colon = nullptr;
  const long device = std::strtol(text, &colon, 10);
  if (*colon != ':') return std::nullopt;
  return std::pair(static_cast<int>(device), std::int64_t{std::atoll(colon + 1)});
}

class EmulatedRuntime final : public DeviceRuntime {
 public:
  EmulatedRuntime() {
    if (const auto losses = device_and_number("CAPTION_EMULATOR_LOSES")) {
      counts_of(losses->first).lost_at = losses->second;
    }
    if (const auto refusals = device_and_number("CAPTION_EMULATOR_REFUSES")) {
      counts_of(refusals->first).refused_from = refusals->second;
    }
  }

  void use(int ordinal) override {
    if (ordinal < 0 || ordinal >= kNumDevices) {
      throw Error(ErrorCode::kUnavailable,
                  "cuda: there is no GPU " + std::to_string(ordinal) + " (emulated)");
    }
    cuda_emulator::set_current_device(ordinal);
  }

  std::byte* allocate(std::size_t size_bytes) override {
    const std::scoped_lock lock(device_mutex());
    refuse_while_capturing("allocates memory");
    count_call();
    ++num_allocations_;
    Counts& counts = counts_of(current_device());
    const bool is_refused =
        counts.refused_from >= 0 && counts.num_allocations >= counts.refused_from;
    ++counts.num_allocations;
    if (is_refused || static_cast<std::int64_t>(size_bytes) > memory().free_bytes) return nullptr;
    try {
      std::byte* const begin = cuda_emulator::allocate(size_bytes);
      on_device_[begin] = size_bytes;
      counts_of(current_device()).allocated_bytes += static_cast<std::int64_t>(size_bytes);
      return begin;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  void free(std::byte* begin) noexcept override {
    const std::scoped_lock lock(device_mutex());
    note_while_capturing("frees memory");
    run_quietly([] { cuda_emulator::run_queues_of(current_device()); });
    counts_of(current_device()).allocated_bytes -= static_cast<std::int64_t>(on_device_[begin]);
    on_device_.erase(begin);
    cuda_emulator::free(begin);
  }

  std::byte* allocate_pinned(std::size_t size_bytes) override {
    const std::scoped_lock lock(device_mutex());
    refuse_while_capturing("allocates pinned memory");
    count_call();
    ++num_allocations_;
    auto* const begin =
        static_cast<std::byte*>(::operator new (size_bytes, std::align_val_t{64}, std::nothrow));
    if (begin != nullptr) pinned_[begin] = size_bytes;
    return begin;
  }

  void free_pinned(std::byte* begin) noexcept override {
    const std::scoped_lock lock(device_mutex());
    note_while_capturing("frees pinned memory");
    check_unused(begin);
    run_quietly([] { cuda_emulator::run_queues_of(current_device()); });
    pinned_.erase(begin);
    ::operator delete (begin, std::align_val_t{64});
  }

  DeviceMemory memory() override {
    const std::scoped_lock lock(device_mutex());
    return {.free_bytes = memory_bytes_ - counts_of(current_device()).allocated_bytes,
            .total_bytes = memory_bytes_};
  }

  void* create_queue() override {
    refuse_while_capturing("makes a queue");
    count_call();
    return cuda_emulator::create_queue();
  }
  void destroy_queue(void* queue) noexcept override {
    note_while_capturing("destroys a queue");
    run_quietly([queue] { cuda_emulator::run_queue(queue); });
    cuda_emulator::destroy_queue(queue);
  }
  void synchronize(void* queue) override {
    refuse_while_capturing("waits for a queue");
    count_call();
    ++num_waits_;
    run([queue] { cuda_emulator::run_queue(queue); });
  }
  void synchronize_all() override {
    cuda_emulator::refuse_while_any_captures(current_device());
    count_call();
    ++num_waits_;
    run([] { cuda_emulator::run_queues_of(current_device()); });
  }

  void copy(void* queue, const RowsToCopy& rows) override {
    const std::scoped_lock lock(device_mutex());
    count_call();
    require_current(queue);
    const bool to_device = is_on_device(rows.to);
    const bool from_device = is_on_device(rows.from);
    CAPTION_CHECK(to_device || from_device, "a copy of the GPU from the host to the host");
    const bool is_pageable = (!from_device && !contains(pinned_, rows.from)) ||
                             (!to_device && !contains(pinned_, rows.to));
    if (is_pageable) refuse_while_capturing("copies memory that is not pinned");
    // cudaErrorInvalidPitchValue
    CAPTION_CHECK(
        rows.num_rows <= 1 || rows.row_bytes <= std::min(rows.to_stride, rows.from_stride),
        "rows that are copied overlap");
    // Memory that is not pinned is read and written as late as pinned memory is: CUDA may do so
    // where the GPU reads the pages of the host itself. A GPU that is lost copies no more.
    const auto copied = std::make_shared<QueuedCopy>(
        QueuedCopy{.on_host = to_device ? rows.from : rows.to, .device = current_device()});
    if (!cuda_emulator::is_capturing()) remember(copied);
    cuda_emulator::enqueue(queue, [this, rows, is_pageable, copied] {
      if (!is_pageable || !is_lost(copied->device)) copy_now(rows);
    });
  }

  void fill_zeros(void* queue, std::byte* begin, std::size_t size_bytes) override {
    count_call();
    require_current(queue);
    cuda_emulator::enqueue(queue, [begin, size_bytes] {
      const std::vector<std::byte> zeros(size_bytes);
      cuda_emulator::copy_to_device(begin, zeros.data(), size_bytes);
    });
  }

  void* record(void* queue) override {
    refuse_while_capturing("records an event");
    count_call();
    require_current(queue);
    return cuda_emulator::record_event(queue);
  }
  void destroy_event(void* event) noexcept override {
    note_while_capturing("destroys an event");
    cuda_emulator::destroy_event(event);
  }
  void synchronize_event(void* event) override {
    refuse_while_capturing("waits for an event");
    count_call();
    ++num_waits_;
    run([event] { cuda_emulator::run_until(event); });
  }
  void wait(void* queue, void* event) override {
    refuse_while_capturing("makes a queue wait");
    count_call();
    require_current(queue);
    cuda_emulator::wait_for_event(queue, event);
  }
  std::chrono::nanoseconds time_between(void* begin, void* end) override {
    return cuda_emulator::time_of(end) - cuda_emulator::time_of(begin);
  }

  void begin_capture(void* queue) override {
    count_call();
    require_current(queue);
    cuda_emulator::begin_capture(queue);
  }
  void* end_capture(void* queue) override {
    try {
      count_call();
      if (refuses_graphs_) {
        throw Error(ErrorCode::kUnavailable, "cuda: the GPU refuses a graph (emulated)");
      }
    } catch (...) {
      cuda_emulator::abandon_capture(queue);
      throw;
    }
    return cuda_emulator::end_capture(queue);
  }
  void abandon_capture(void* queue) noexcept override { cuda_emulator::abandon_capture(queue); }
  void launch_graph(void* graph, void* queue) override {
    count_call();
    cuda_emulator::launch_graph(graph, queue);
  }
  void destroy_graph(void* graph) noexcept override {
    note_while_capturing("destroys a graph");
    cuda_emulator::destroy_graph(graph);
  }

  void refuse_graphs(bool are_refused) { refuses_graphs_ = are_refused; }
  void set_memory_bytes(std::int64_t size_bytes) { memory_bytes_ = size_bytes; }
  std::int64_t allocated_bytes() const {
    std::int64_t sum = 0;
    for (const Counts& counts : counts_) sum += counts.allocated_bytes;
    return sum;
  }

  void lose_device_at(std::int64_t calls, int device) {
    const std::scoped_lock lock(device_mutex());
    counts_of(device).lost_at = calls;
    counts_of(device).num_calls = 0;
  }
  void refuse_allocations_from(std::int64_t allocation, int device) {
    const std::scoped_lock lock(device_mutex());
    counts_of(device).refused_from = allocation;
    counts_of(device).num_allocations = 0;
  }
  std::int64_t num_device_allocations(int device) {
    const std::scoped_lock lock(device_mutex());
    return counts_of(device).num_allocations;
  }
  std::int64_t num_waits() const { return num_waits_; }
  std::int64_t num_allocations() const { return num_allocations_; }
  std::int64_t num_calls(int device) {
    const std::scoped_lock lock(device_mutex());
    return counts_of(device).num_calls;
  }

 private:
  Counts& counts_of(int device) { return counts_.at(static_cast<std::size_t>(device)); }

  // Whether a call for the GPU has failed because it is lost.
  bool is_lost(int device) {
    const Counts& counts = counts_of(device);
    const bool has_failed = counts.lost_at >= 0 && counts.num_calls > counts.lost_at;
    return has_failed || (lost_after_ != nullptr && has_content(lost_after_));
  }

  void count_call() {
    const std::scoped_lock lock(device_mutex());
    Counts& counts = counts_of(current_device());
    const bool is_lost = counts.lost_at >= 0 && counts.num_calls >= counts.lost_at;
    ++counts.num_calls;
    if (!is_lost && !(lost_after_ != nullptr && has_content(lost_after_))) return;
    throw Error(ErrorCode::kUnavailable, "cuda: the GPU is lost (emulated)");
  }

  static void require_current(void* queue) {
    CAPTION_CHECK(cuda_emulator::device_of(queue) == current_device(),
                  "a queue of another GPU than the thread's current one is given work");
  }

  void remember(const std::shared_ptr<QueuedCopy>& copied) {
    std::erase_if(queued_copies_, [](const auto& other) { return other.expired(); });
    queued_copies_.push_back(copied);
  }

  // A copy that nobody has waited for may still use pinned memory that is freed. Of graphs it is
  // not known: they may not be launched again.
  void check_unused(const std::byte* pinned) {
    const std::byte* const end = pinned + pinned_[pinned];
    for (const std::weak_ptr<QueuedCopy>& queued : queued_copies_) {
      const std::shared_ptr<QueuedCopy> copied = queued.lock();
      if (copied == nullptr || copied->on_host < pinned || copied->on_host >= end) continue;
      if (is_lost(copied->device) || cuda_emulator::current_state() == nullptr) continue;
      cuda_emulator::current_state()->add_fault(
          cuda_emulator::Fault::kHostMemory, 0,
          "pinned memory is freed, and nobody has waited for a copy that uses it");
    }
  }

  bool is_on_device(const std::byte* address) const {
    return cuda_emulator::memory().covers(reinterpret_cast<std::uintptr_t>(address));
  }

  static void copy_now(const RowsToCopy& rows) {
    for (std::size_t row = 0; row < rows.num_rows; ++row) {
      cuda_emulator::copy_bytes(rows.to + row * rows.to_stride, rows.from + row * rows.from_stride,
                                rows.row_bytes);
    }
  }

  // Runs work of queues.
  template <class Work>
  void run(Work work) {
    const std::scoped_lock lock(device_mutex());
    work();
    const std::string faults = cuda_emulator::faults_of_lasting_emulation();
    CAPTION_CHECK(faults.empty(), faults);
  }

  template <class Work>
  void run_quietly(Work work) noexcept {
    try {
      run(work);
    } catch (const std::exception&) {
      // The next synchronisation throws it again.
    }
  }

  Sizes on_device_;
  Sizes pinned_;
  std::vector<std::weak_ptr<QueuedCopy>> queued_copies_;
  std::int64_t memory_bytes_ = std::int64_t{8} << 30;
  std::array<Counts, kNumDevices> counts_{};
  bool refuses_graphs_ = false;
  const char* lost_after_ = std::getenv("CAPTION_EMULATOR_LOSES_AFTER");
  std::atomic<std::int64_t> num_waits_ = 0;
  std::int64_t num_allocations_ = 0;
};

EmulatedRuntime& emulated_runtime() {
  static EmulatedRuntime runtime;
  return runtime;
}

}  // namespace

DeviceRuntime* device_runtime() { return &emulated_runtime(); }

int internal::least_driver_version() { return 12000; }

namespace cuda_emulator {

void set_memory_bytes(std::int64_t size_bytes) { emulated_runtime().set_memory_bytes(size_bytes); }

std::int64_t allocated_bytes() { return emulated_runtime().allocated_bytes(); }

void lose_device_at(std::int64_t calls, int device) {
  emulated_runtime().lose_device_at(calls, device);
}

void refuse_allocations_from(std::int64_t allocation, int device) {
  emulated_runtime().refuse_allocations_from(allocation, device);
}

std::int64_t count_device_allocations(int device) {
  return emulated_runtime().num_device_allocations(device);
}

void refuse_graphs(bool are_refused) { emulated_runtime().refuse_graphs(are_refused); }

std::int64_t count_allocations() { return emulated_runtime().num_allocations(); }

std::int64_t count_waits() { return emulated_runtime().num_waits(); }

std::int64_t count_calls(int device) { return emulated_runtime().num_calls(device); }

}  // namespace cuda_emulator
}  // namespace caption
