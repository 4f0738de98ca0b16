// tests/support/cuda/queues.h: the emulated GPUs' queues (CUDA's streams) and events.
//
// Work begins when somebody waits for it, as late as CUDA permits: a missing synchronisation, or
// memory that is used again too early, changes results. Work of one queue runs in its order. While
// a queue is waited for, a seed other than 0 also runs work of the others, in any order. A null
// queue runs its work at once. Thread-safe; one thread runs work at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace caption::cuda_emulator {

// Held by whoever runs work or changes memory.
std::recursive_mutex& device_mutex();

// The calling thread's current GPU; initially 0.
int current_device();
void set_current_device(int device);

// A queue of the current GPU.
void* create_queue();
// The GPU of a queue; the current one for null.
int device_of(void* queue);
// Runs what is left in the queue first.
void destroy_queue(void* queue);
void enqueue(void* queue, std::function<void()> work);
// Exceptions of the work pass through; the work that threw is gone.
void run_queue(void* queue);
void run_all_queues();
void run_queues_of(int device);

// Returns the point after all work that the queue has so far.
void* record_event(void* queue);
void destroy_event(void* event);
// Work that the queue is given from now on runs after the point is reached.
void wait_for_event(void* queue, void* event);
void run_until(void* event);
// When a point was reached, after run_until().
std::chrono::steady_clock::time_point time_of(void* event);

// ---- graphs ----
// Until the capture ends, work that the calling thread gives the queue is recorded and does not
// run. Work that it gives another queue, or another thread this one, throws Error(kInternal).
void begin_capture(void* queue);
// Returns the recorded work as a graph. Throws Error(kInternal) with what
// note_while_capturing() was told; the capture has ended all the same.
void* end_capture(void* queue);
void abandon_capture(void* queue);
// Enqueues the recorded work again, as pieces that work of other queues may come between.
void launch_graph(void* graph, void* queue);
void destroy_graph(void* graph);
std::int64_t count_graph_launches();  // since the process began
// Whether the calling thread records work.
bool is_capturing();
// For calls of the runtime that a thread must not make while it records: throws Error(kInternal),
// or makes end_capture() throw it. `call` completes "the thread that records work".
void refuse_while_capturing(const char* call);
void note_while_capturing(const char* call) noexcept;
// Throws Error(kInternal) while any thread records work of the GPU.
void refuse_while_any_captures(int device);

// The order of what is enqueued from now on; 0, the initial value, runs no other queue's work than
// that which is waited for.
void seed_queues(std::uint64_t seed);

}  // namespace caption::cuda_emulator
