// backend/device_runtime.h: what the backend asks a GPU for: memory, queues, copies and events.
//
// A build has one implementation or none: lib/backend/cuda/runtime.cpp with CUDA's runtime library,
// lib/backend/no_device_runtime.cpp in builds without CUDA kernels, and in tests
// tests/support/cuda/emulated_runtime.cpp. This room, tensor/tensor and tensor/copy call it;
// config/pipeline_options and bench/process_memory ask it for the GPU's memory.
//
// A queue is a cudaStream_t, an event a cudaEvent_t. Work of one queue runs in its order; work of
// two queues in any, unless a wait or a synchronisation orders them. Thread-safe, but for one queue
// at a time. Functions that are not noexcept throw Error(kUnavailable) with the driver's message
// when the device fails, which may have been in earlier work.
//
// As in CUDA, each thread has a current GPU, initially the first: memory and queues are made there,
// and a queue gets work, or an event of it is recorded, while its GPU is current.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "backend/device.h"

namespace caption {

// Rows of bytes, `from_stride` and `to_stride` bytes apart, of the host or the device.
struct RowsToCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t to_stride = 0;
  std::size_t from_stride = 0;
  std::size_t row_bytes = 0;
  std::size_t num_rows = 0;
};

struct DeviceMemory {
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
};

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  // Makes a GPU the calling thread's current one. Costs nothing if it is that already.
  virtual void use(int ordinal) = 0;

  // Aligned to 256 bytes, uninitialised; null when the device lacks the memory.
  virtual std::byte* allocate(std::size_t size_bytes) = 0;
  // Waits for all work of the current GPU first, which may use the memory.
  virtual void free(std::byte* begin) noexcept = 0;
  // Memory of the host that the device copies while the host goes on; null when there is none.
  virtual std::byte* allocate_pinned(std::size_t size_bytes) = 0;
  virtual void free_pinned(std::byte* begin) noexcept = 0;
  virtual DeviceMemory memory() = 0;

  virtual void* create_queue() = 0;
  // Waits for the queue's work first.
  virtual void destroy_queue(void* queue) noexcept = 0;
  virtual void synchronize(void* queue) = 0;
  virtual void synchronize_all() = 0;  // all queues of the current GPU

  // Ordered with the queue's work. Memory of the host, pinned or not, is changed, read and freed by
  // the host only after a synchronisation: CUDA may copy what is not pinned while the host goes on,
  // too ("API synchronization behavior" of the runtime's reference, 12.0 and later).
  virtual void copy(void* queue, const RowsToCopy& rows) = 0;
  virtual void fill_zeros(void* queue, std::byte* begin, std::size_t size_bytes) = 0;

  // Returns the point after all work that the queue was given so far.
  virtual void* record(void* queue) = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void synchronize_event(void* event) = 0;
  // Work that the queue is given from now on begins when the event, of a queue of the same GPU, is
  // reached. The host goes on.
  virtual void wait(void* queue, void* event) = 0;
  // Time between two events of one queue, both synchronised.
  virtual std::chrono::nanoseconds time_between(void* begin, void* end) = 0;

  // Until end_capture() work that the calling thread gives the queue is recorded and does not run.
  // Meanwhile the thread launches kernels on this queue, fills memory, and copies between the
  // device and pinned memory; any other call for a GPU by this thread fails, now or at the end.
  virtual void begin_capture(void* queue) = 0;
  // Returns a cudaGraphExec_t: what was recorded, ready to be launched. The capture has ended, also
  // when this throws.
  virtual void* end_capture(void* queue) = 0;
  // Ends the capture and forgets what was recorded.
  virtual void abandon_capture(void* queue) noexcept = 0;
  // Runs what was recorded, with the launch parameters and addresses of the capture, as work of a
  // queue of the same GPU.
  virtual void launch_graph(void* graph, void* queue) = 0;
  // All launches of the graph are done.
  virtual void destroy_graph(void* graph) noexcept = 0;
};

// Null in a build without CUDA kernels.
DeviceRuntime* device_runtime();
// The runtime, with the GPU `device` as the calling thread's current one. Throws
// Error(kUnavailable) in a build without CUDA kernels, for a device that is no GPU, and for a GPU
// that is not there.
DeviceRuntime& require_device_runtime(Device device);
// The same for calls that release what the GPU has: one that is lost stays as it is.
DeviceRuntime& releasing_runtime(Device device) noexcept;

// Whether a launch on the queue may begin before the one before it has ended
// (kernels/cuda/dependent_launch.cuh): work of the queue is recorded, and GPU and driver can do it.
// Only builds with CUDA's runtime library have it.
bool begins_early(void* queue);

// Throws Error(kUnavailable) for a cudaError_t other than cudaSuccess; `doing` completes "the GPU
// failed when it ...". Only builds with CUDA's runtime library have it.
void check_cuda(int result, const char* doing);

}  // namespace caption
