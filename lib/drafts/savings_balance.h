// drafts/savings_balance.h: whether drafts have saved time, by the steps as they were measured.
//
// What drafts save is expected from probabilities and mean times. Where these are wrong, steps with
// drafts lose time one after the other: when they have lost kMostLossSteps steps' time together,
// there is a pause, each time a longer one.
#pragma once

#include <cstdint>

namespace caption::drafts {

class SavingsBalance {
 public:
  explicit SavingsBalance(std::int64_t first_pause_steps) : next_pause_steps_(first_pause_steps) {}

  // Learns that the drafts of a step saved `saved_us` (below 0: lost them); the step takes
  // plain_us without them.
  void observe(double saved_us, double plain_us);
  // A step, with drafts or without, has ended.
  void count_step() {
    if (pause_steps_ > 0) --pause_steps_;
  }
  bool is_paused() const { return pause_steps_ > 0; }

  static constexpr double kMostLossSteps = 2;

 private:
  double balance_steps_ = 0;  // saved, in steps' times
  std::int64_t pause_steps_ = 0;
  std::int64_t next_pause_steps_;
};

}  // namespace caption::drafts
