#include "tests/support/cuda/queues.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/support/cuda/state.h"

namespace caption::cuda_emulator {
namespace {

using Work = std::function<void()>;

struct Recording {
  std::vector<Work> work;
  std::string fault;  // the first
};

struct EventState {
  bool is_reached = false;
  std::chrono::steady_clock::time_point time;
};

struct Queue;

// A point of a queue.
struct Event {
  Queue* queue = nullptr;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

// Work that begins after a point, of a queue that is there until the point is reached.
struct QueuedWork {
  Work run;
  Event after = {.queue = nullptr, .state = nullptr};  // without a state: at once

  bool is_ready() const { return after.state == nullptr || after.state->is_reached; }
};

struct Queue {
  int device = 0;
  std::deque<QueuedWork> work;
  std::unique_ptr<Recording> recording;  // null unless a thread records
};

struct Graph {
  int device = 0;
  std::vector<Work> work;
};

struct Queues {
  std::vector<std::unique_ptr<Queue>> queues;
  std::uint64_t seed = 0;
  std::mt19937_64 random;
  std::int64_t num_graph_launches = 0;
};

Queues& all() {
  static Queues queues;
  return queues;
}

thread_local int current = 0;
thread_local Queue* recorded = nullptr;  // the queue whose work this thread records

// In its lifetime work of a graph runs, whose phases began with this one.
class WorkOfGraph {
 public:
  explicit WorkOfGraph(std::uint32_t first_phase) { State::first_phase_of_graph = first_phase; }
  ~WorkOfGraph() { State::first_phase_of_graph = 0; }
  WorkOfGraph(const WorkOfGraph&) = delete;
  WorkOfGraph& operator=(const WorkOfGraph&) = delete;
};

std::string refusal_of(const char* call) {
  return std::string("the thread that records work ") + call;
}

std::unique_ptr<Recording> stop_recording(void* queue) {
  CAPTION_CHECK(recorded != nullptr && recorded == queue,
                "a capture is ended by a thread that did not begin it");
  return std::move(std::exchange(recorded, nullptr)->recording);
}

// Runs the first work of the queue, or of the queue for which it waits.
void run_first(Queue& queue) {
  if (!queue.work.front().is_ready()) return run_first(*queue.work.front().after.queue);
  const Work work = std::move(queue.work.front().run);
  queue.work.pop_front();
  work();
}

// Runs work of the queue, or, with a seed, of one that is drawn.
void run_something(Queue& wanted) {
  Queues& queues = all();
  if (queues.seed == 0) return run_first(wanted);
  std::vector<Queue*> ready;
  for (const auto& queue : queues.queues) {
    if (!queue->work.empty() && queue->work.front().is_ready()) ready.push_back(queue.get());
  }
  run_first(*ready[queues.random() % ready.size()]);
}

}  // namespace

std::recursive_mutex& device_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

int current_device() { return current; }

void set_current_device(int device) { current = device; }

void* create_queue() {
  const std::scoped_lock lock(device_mutex());
  return all()
      .queues
      .emplace_back(
          std::make_unique<Queue>(Queue{.device = current, .work = {}, .recording = nullptr}))
      .get();
}

int device_of(void* queue) {
  return queue == nullptr ? current : static_cast<Queue*>(queue)->device;
}

void destroy_queue(void* queue) {
  const std::scoped_lock lock(device_mutex());
  run_queue(queue);
  std::erase_if(all().queues, [queue](const auto& other) { return other.get() == queue; });
}

void enqueue(void* queue, std::function<void()> work) {
  const std::scoped_lock lock(device_mutex());
  if (recorded != nullptr && recorded != queue) refuse_while_capturing("gives it to another queue");
  if (queue == nullptr) return work();
  auto& wanted = *static_cast<Queue*>(queue);
  if (wanted.recording == nullptr) return wanted.work.push_back({.run = std::move(work)});
  CAPTION_CHECK(recorded == queue, "a queue whose work another thread records is given work");
  wanted.recording->work.push_back(std::move(work));
}

void run_queue(void* queue) {
  const std::scoped_lock lock(device_mutex());
  if (queue == nullptr) return;
  auto& wanted = *static_cast<Queue*>(queue);
  while (!wanted.work.empty()) run_something(wanted);
}

void run_all_queues() {
  const std::scoped_lock lock(device_mutex());
  for (const auto& queue : all().queues) run_queue(queue.get());
}

void run_queues_of(int device) {
  const std::scoped_lock lock(device_mutex());
  for (const auto& queue : all().queues) {
    if (queue->device == device) run_queue(queue.get());
  }
}

void* record_event(void* queue) {
  const std::scoped_lock lock(device_mutex());
  auto* const event = new Event{.queue = static_cast<Queue*>(queue)};
  enqueue(queue, [state = event->state] {
    state->is_reached = true;
    state->time = std::chrono::steady_clock::now();
  });
  return event;
}

void destroy_event(void* event) {
  const std::scoped_lock lock(device_mutex());
  delete static_cast<Event*>(event);
}

void wait_for_event(void* queue, void* event) {
  const std::scoped_lock lock(device_mutex());
  if (queue == nullptr) return run_until(event);
  static_cast<Queue*>(queue)->work.push_back({.run = [] {}, .after = *static_cast<Event*>(event)});
}

void run_until(void* event) {
  const std::scoped_lock lock(device_mutex());
  const Event& awaited = *static_cast<Event*>(event);
  while (!awaited.state->is_reached) run_something(*awaited.queue);
}

std::chrono::steady_clock::time_point time_of(void* event) {
  const std::scoped_lock lock(device_mutex());
  return static_cast<Event*>(event)->state->time;
}

void begin_capture(void* queue) {
  const std::scoped_lock lock(device_mutex());
  refuse_while_capturing("begins another capture");
  CAPTION_CHECK(queue != nullptr, "work of the default queue is recorded");
  auto& wanted = *static_cast<Queue*>(queue);
  CAPTION_CHECK(wanted.recording == nullptr, "two threads record the work of a queue");
  wanted.recording = std::make_unique<Recording>();
  recorded = &wanted;
}

void* end_capture(void* queue) {
  const std::scoped_lock lock(device_mutex());
  const std::unique_ptr<Recording> ended = stop_recording(queue);
  CAPTION_CHECK(ended->fault.empty(), ended->fault);
  return new Graph{.device = device_of(queue), .work = std::move(ended->work)};
}

void abandon_capture(void* queue) {
  const std::scoped_lock lock(device_mutex());
  stop_recording(queue);
}

void launch_graph(void* graph, void* queue) {
  const std::scoped_lock lock(device_mutex());
  refuse_while_capturing("launches a graph");
  const Graph& launched = *static_cast<Graph*>(graph);
  CAPTION_CHECK(device_of(queue) == launched.device && current == launched.device,
                "a graph is launched on another GPU than that of its capture");
  // Phases of the emulator, from the first of the graph's work on.
  const auto first_phase = std::make_shared<std::uint32_t>(0);
  for (const Work& work : launched.work) {
    enqueue(queue, [work, first_phase] {
      if (*first_phase == 0) *first_phase = State::last_phase + 1;
      const WorkOfGraph of_graph(*first_phase);
      work();
    });
  }
  ++all().num_graph_launches;
}

void destroy_graph(void* graph) {
  const std::scoped_lock lock(device_mutex());
  delete static_cast<Graph*>(graph);
}

std::int64_t count_graph_launches() {
  const std::scoped_lock lock(device_mutex());
  return all().num_graph_launches;
}

bool is_capturing() { return recorded != nullptr; }

void refuse_while_capturing(const char* call) {
  CAPTION_CHECK(recorded == nullptr, refusal_of(call));
}

void note_while_capturing(const char* call) noexcept {
  if (recorded == nullptr) return;
  std::string& fault = recorded->recording->fault;
  if (fault.empty()) fault = refusal_of(call);
}

void refuse_while_any_captures(int device) {
  const std::scoped_lock lock(device_mutex());
  for (const auto& queue : all().queues) {
    CAPTION_CHECK(queue->device != device || queue->recording == nullptr,
                  "a GPU is waited for while work of one of its queues is recorded");
  }
}

void seed_queues(std::uint64_t seed) {
  const std::scoped_lock lock(device_mutex());
  all().seed = seed;
  all().random.seed(seed);
}

}  // namespace caption::cuda_emulator
