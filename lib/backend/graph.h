// backend/graph.h: work of a stream that is recorded once and then launched with one call.
//
//   GraphCapture capture(stream);
//   kernels::rms_norm(stream, x, weight, eps, y);   // is recorded and does not run
//   const Graph graph = capture.finish();
//   graph.launch(stream);                           // runs it, as often as it is called
//
// A launch has the parameters and the addresses of the capture, so the memory must stay where it
// is; what differs from launch to launch is read from that memory.
#pragma once

#include <memory>

#include "backend/device.h"
#include "backend/stream.h"

namespace caption {

// Whether work of the stream can be recorded: on a GPU.
inline bool has_graphs(const Stream& stream) { return stream.device().is_cuda(); }

// Moves, does not copy. Destroyed when its launches are done. For one thread at a time.
class Graph {
 public:
  // Runs the recorded work as work of `stream`, of the GPU of the capture. Throws
  // Error(kUnavailable) when the device fails.
  void launch(Stream& stream) const;

 private:
  friend class GraphCapture;
  struct Destroy {
    Device device;
    void operator()(void* graph) const noexcept;
  };
  Graph(Device device, void* graph) : graph_(graph, Destroy{device}) {}

  std::unique_ptr<void, Destroy> graph_;
};

// Records what a stream is given during its lifetime. Meanwhile its thread may launch kernels on
// the stream and copy between pinned memory and the device; it may neither allocate nor free memory
// of a GPU, nor wait, nor use another stream.
class GraphCapture {
 public:
  // `stream`, which has graphs, is borrowed. Throws Error(kUnavailable) when the device refuses.
  explicit GraphCapture(Stream& stream);
  // Forgets what was recorded, unless it was finished.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  // Ends the recording. Throws Error(kUnavailable) when the device refuses such work.
  Graph finish();

 private:
  Stream& stream_;
  void* queue_;  // null when the recording has ended
};

}  // namespace caption
