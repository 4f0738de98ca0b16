// drafts/savings_balance.h: whether drafts have saved time, by the steps as they were measured.
//
// What drafts save is expected from probabilities and mean times. Where these are wrong, steps with
// drafts lose time one after the other: when they have lost the time of some steps together, there
// is a pause, each time a longer one. How many steps that are is a matter of how much the savings
// of single steps scatter: the balance of drafts that pay by the mean mu falls by x steps with the
// probability exp(-2 mu x / sigma^2), about.
#pragma once

#include <cstdint>

namespace caption::drafts {

class SavingsBalance {
 public:
  // A loss of most_loss_steps, > 0, ends in a pause, the first of which takes first_pause_steps.
  SavingsBalance(std::int64_t first_pause_steps, double most_loss_steps)
      : most_loss_steps_(most_loss_steps), next_pause_steps_(first_pause_steps) {}

  // Learns that the drafts of a step saved `saved_us` (below 0: lost them); the step takes
  // plain_us without them.
  void observe(double saved_us, double plain_us);
  // A step, with drafts or without, has ended.
  void count_step() {
    if (pause_steps_ > 0) --pause_steps_;
  }
  bool is_paused() const { return pause_steps_ > 0; }

 private:
  double most_loss_steps_;
  double balance_steps_ = 0;  // saved, in steps' times
  std::int64_t pause_steps_ = 0;
  std::int64_t next_pause_steps_;
};

}  // namespace caption::drafts
