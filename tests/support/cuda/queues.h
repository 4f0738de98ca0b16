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
void run_until(void* event);
// When a point was reached, after run_until().
std::chrono::steady_clock::time_point time_of(void* event);

// The order of what is enqueued from now on; 0, the initial value, runs no other queue's work than
// that which is waited for.
void seed_queues(std::uint64_t seed);

}  // namespace caption::cuda_emulator
