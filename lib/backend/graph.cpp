#include "backend/graph.h"

#include <utility>

#include "backend/device_runtime.h"
#include "base/error.h"

namespace caption {

void Graph::Destroy::operator()(void* graph) const noexcept {
  releasing_runtime(device).destroy_graph(graph);
}

void Graph::launch(Stream& stream) const {
  CAPTION_CHECK(stream.device() == graph_.get_deleter().device, "a graph of another device");
  require_device_runtime(stream.device()).launch_graph(graph_.get(), stream.queue());
}

GraphCapture::GraphCapture(Stream& stream) : stream_(stream), queue_(stream.queue()) {
  CAPTION_CHECK(has_graphs(stream), "work of a device without graphs is to be recorded");
  require_device_runtime(stream.device()).begin_capture(queue_);
}

GraphCapture::~GraphCapture() {
  if (queue_ != nullptr) releasing_runtime(stream_.device()).abandon_capture(queue_);
}

Graph GraphCapture::finish() {
  DeviceRuntime& runtime = require_device_runtime(stream_.device());
  return Graph(stream_.device(), runtime.end_capture(std::exchange(queue_, nullptr)));
}

}  // namespace caption
