// bench/internal/turns.h: the order in which engines take turns.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

namespace caption::bench {

// Puts the engines into a random order for their next turns, the first of which is not that of the
// engine whose turn was last: its weights and pages would be in the caches then.
template <class T>
void shuffle_turns(std::vector<T*>& order, std::mt19937_64& random) {
  const T* const last = order.back();
  do {
    std::shuffle(order.begin(), order.end(), random);
  } while (order.size() > 1 && order.front() == last);
}

}  // namespace caption::bench
