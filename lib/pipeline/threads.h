// pipeline/threads.h: division of the machine's threads between the stages.
#pragma once

#include <string>

namespace caption::pipeline {

struct ThreadPlan {
  int decode = 1;        // number of clips read at a time, one thread each
  int vision = 1;        // threads of the pool that preprocesses and encodes frames
  int engine = 1;        // threads of the pool that runs the language model
  int num_replicas = 1;  // each has pools of its own for vision and engine
};

// Requires `num_threads` and `num_replicas` >= 1. The sum may exceed it: a stage that is ahead
// blocks on a full queue and leaves its cores to the slowest stage.
ThreadPlan plan_threads(int num_threads, int num_replicas = 1);

// Returns text such as "2: engine 2, vision 1, decode 2; a stage that is ahead sleeps"; with
// replicas "16: engine 2 x 6, vision 2 x 2, decode 16; a stage that is ahead sleeps".
std::string describe_threads(int num_threads, const ThreadPlan& plan);

}  // namespace caption::pipeline
