// The runtime of backend/device_runtime.h by CUDA's runtime library.
#include "backend/device_runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "backend/internal/cuda_probe.h"
#include "base/error.h"

namespace caption {
namespace {

void check(cudaError_t result, const char* doing) { check_cuda(result, doing); }

cudaStream_t stream_of(void* queue) { return static_cast<cudaStream_t>(queue); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

// Null when there is not as much memory.
std::byte* allocated(cudaError_t result, void* begin, const char* doing) {
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // forgets the error, which no later call then returns
    return nullptr;
  }
  check(result, doing);
  return static_cast<std::byte*>(begin);
}

class CudaRuntime final : public DeviceRuntime {
 public:
  void use(int ordinal) override {
    thread_local int current = 0;  // the first GPU is current until cudaSetDevice() is called
    if (ordinal == current) return;
    check(cudaSetDevice(ordinal), "was chosen");
    current = ordinal;
  }

  std::byte* allocate(std::size_t size_bytes) override {
    void* begin = nullptr;
    const cudaError_t result = cudaMalloc(&begin, size_bytes);
    return allocated(result, begin, "allocated memory");
  }
  // An error of earlier work is returned by the next call that may throw.
  void free(std::byte* begin) noexcept override { static_cast<void>(cudaFree(begin)); }

  std::byte* allocate_pinned(std::size_t size_bytes) override {
    void* begin = nullptr;
    const cudaError_t result = cudaMallocHost(&begin, size_bytes);
    return allocated(result, begin, "allocated pinned memory");
  }
  void free_pinned(std::byte* begin) noexcept override { static_cast<void>(cudaFreeHost(begin)); }

  DeviceMemory memory() override {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "told its free memory");
    return {.free_bytes = static_cast<std::int64_t>(free_bytes),
            .total_bytes = static_cast<std::int64_t>(total_bytes)};
  }

  void* create_queue() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "made a stream");
    return stream;
  }
  void destroy_queue(void* queue) noexcept override {
    static_cast<void>(cudaStreamSynchronize(stream_of(queue)));
    static_cast<void>(cudaStreamDestroy(stream_of(queue)));
  }
  void synchronize(void* queue) override {
    check(cudaStreamSynchronize(stream_of(queue)), "computed");
  }
  void synchronize_all() override { check(cudaDeviceSynchronize(), "computed"); }

  void copy(void* queue, const RowsToCopy& rows) override {
    // CUDA takes no larger distance between rows.
    constexpr std::size_t kMostPitch = std::numeric_limits<std::int32_t>::max();
    if (rows.num_rows == 1 || std::max(rows.to_stride, rows.from_stride) > kMostPitch) {
      for (std::size_t row = 0; row < rows.num_rows; ++row) {
        check(cudaMemcpyAsync(rows.to + row * rows.to_stride, rows.from + row * rows.from_stride,
                              rows.row_bytes, cudaMemcpyDefault, stream_of(queue)),
              "copied memory");
      }
      return;
    }
    check(cudaMemcpy2DAsync(rows.to, rows.to_stride, rows.from, rows.from_stride, rows.row_bytes,
                            rows.num_rows, cudaMemcpyDefault, stream_of(queue)),
          "copied rows of memory");
  }
  void fill_zeros(void* queue, std::byte* begin, std::size_t size_bytes) override {
    check(cudaMemsetAsync(begin, 0, size_bytes, stream_of(queue)), "filled memory");
  }

  void* record(void* queue) override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "made an event");
    const cudaError_t result = cudaEventRecord(event, stream_of(queue));
    if (result != cudaSuccess) destroy_event(event);
    check(result, "recorded an event");
    return event;
  }
  void destroy_event(void* event) noexcept override {
    static_cast<void>(cudaEventDestroy(event_of(event)));
  }
  void synchronize_event(void* event) override {
    check(cudaEventSynchronize(event_of(event)), "computed");
  }
  void wait(void* queue, void* event) override {
    check(cudaStreamWaitEvent(stream_of(queue), event_of(event), 0), "waited for other work");
  }
  std::chrono::nanoseconds time_between(void* begin, void* end) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end)), "timed its work");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
  }

  // Other threads of the process may allocate memory and wait meanwhile.
  void begin_capture(void* queue) override {
    require_recorded(cudaStreamBeginCapture(stream_of(queue), cudaStreamCaptureModeThreadLocal));
  }
  void* end_capture(void* queue) override {
    cudaGraph_t recorded = nullptr;
    require_recorded(cudaStreamEndCapture(stream_of(queue), &recorded));
    cudaGraphExec_t graph = nullptr;
    const cudaError_t result = cudaGraphInstantiate(&graph, recorded, 0);
    static_cast<void>(cudaGraphDestroy(recorded));
    require_recorded(result);
    return graph;
  }
  void abandon_capture(void* queue) noexcept override {
    cudaGraph_t recorded = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_of(queue), &recorded));
    if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
    cudaGetLastError();
  }
  void launch_graph(void* graph, void* queue) override {
    check(cudaGraphLaunch(graph_of(graph), stream_of(queue)), "launched recorded work");
  }
  void destroy_graph(void* graph) noexcept override {
    static_cast<void>(cudaGraphExecDestroy(graph_of(graph)));
  }

 private:
  // The driver forgets the error of a graph that it refuses: other work may succeed.
  static void require_recorded(cudaError_t result) {
    if (result == cudaSuccess) return;
    cudaGetLastError();
    throw Error(ErrorCode::kUnavailable, std::string("cuda: the GPU refuses a graph: ") +
                                             cudaGetErrorString(result) + " (CUDA error " +
                                             std::to_string(result) + ")");
  }
};

// Graphs have had dependent launches since CUDA 12.3.
bool drives_dependent_launches() {
  constexpr int kLeastVersion = 12030;
  int version = 0;
  return CUDART_VERSION >= kLeastVersion && cudaDriverGetVersion(&version) == cudaSuccess &&
         version >= kLeastVersion;
}

}  // namespace

bool begins_early(void* queue) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream_of(queue), &status) != cudaSuccess ||
      status != cudaStreamCaptureStatusActive) {
    return false;
  }
  static const bool has_driver = drives_dependent_launches();
  int device = 0;
  int major = 0;
  return has_driver && cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9;
}

void check_cuda(int result, const char* doing) {
  if (result == cudaSuccess) return;
  throw Error(ErrorCode::kUnavailable,
              std::string("cuda: the GPU failed when it ") + doing + ": " +
                  cudaGetErrorString(static_cast<cudaError_t>(result)) + " (CUDA error " +
                  std::to_string(result) +
                  "); what was finished is saved: run the command again to go on, or use the "
                  "preset \"cpu\"");
}

DeviceRuntime* device_runtime() {
  static CudaRuntime runtime;
  return &runtime;
}

// A runtime library starts with drivers of its major version and of later ones.
int internal::least_driver_version() { return CUDART_VERSION / 1000 * 1000; }

}  // namespace caption
