#include "tests/support/cuda/queues.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace caption::cuda_emulator {
namespace {

struct Queue {
  int device = 0;
  std::deque<std::function<void()>> work;
};

struct EventState {
  bool is_reached = false;
  std::chrono::steady_clock::time_point time;
};

struct Event {
  Queue* queue = nullptr;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

struct Queues {
  std::vector<std::unique_ptr<Queue>> queues;
  std::uint64_t seed = 0;
  std::mt19937_64 random;
};

Queues& all() {
  static Queues queues;
  return queues;
}

thread_local int current = 0;

void run_first(Queue& queue) {
  const std::function<void()> work = std::move(queue.work.front());
  queue.work.pop_front();
  work();
}

// Runs work of the queue, or, with a seed, of one that is drawn.
void run_something(Queue& wanted) {
  Queues& queues = all();
  if (queues.seed == 0) return run_first(wanted);
  std::vector<Queue*> ready;
  for (const auto& queue : queues.queues) {
    if (!queue->work.empty()) ready.push_back(queue.get());
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
      .queues.emplace_back(std::make_unique<Queue>(Queue{.device = current, .work = {}}))
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
  if (queue == nullptr) return work();
  static_cast<Queue*>(queue)->work.push_back(std::move(work));
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

void run_until(void* event) {
  const std::scoped_lock lock(device_mutex());
  const Event& awaited = *static_cast<Event*>(event);
  while (!awaited.state->is_reached) run_something(*awaited.queue);
}

std::chrono::steady_clock::time_point time_of(void* event) {
  const std::scoped_lock lock(device_mutex());
  return static_cast<Event*>(event)->state->time;
}

void seed_queues(std::uint64_t seed) {
  const std::scoped_lock lock(device_mutex());
  all().seed = seed;
  all().random.seed(seed);
}

}  // namespace caption::cuda_emulator
