// pipeline/threads.h: how the machine's threads are shared between the stages.
#pragma once

#include <string>

namespace caption::pipeline {

struct ThreadPlan {
  int decode = 1;  // clips read at a time, one thread each
  int vision = 1;  // of the pool that preprocesses and encodes frames
  int engine = 1;  // of the pool that runs the language model
};

// For `num_threads` >= 1. The sum may exceed it: a stage that is ahead sleeps at a full queue and
// leaves its share to the one that limits.
ThreadPlan plan_threads(int num_threads);

// "2: engine 2, vision 1, decode 2; a stage that is ahead sleeps"
std::string describe_threads(int num_threads, const ThreadPlan& plan);

}  // namespace caption::pipeline
