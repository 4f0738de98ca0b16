// drafts/savings_balance.h: pauses drafts that lose time, by the measured times of steps.
//
// What drafts save is predicted from probabilities and mean times. Where these are wrong, one step
// with drafts after the other loses time. So the savings of steps are added up, in units of the
// time of a step without drafts, and when the sum falls to -most_loss_steps, there is a pause, each
// time a longer one. The sum of drafts that pay falls as well, by chance: where a step saves mu > 0
// on average with variance sigma^2, it ever falls by x with a probability of about exp(-2 mu x /
// sigma^2). The more the savings scatter, the larger most_loss_steps has to be.
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
  double balance_steps_ = 0;  // the sum of the savings, at most kMostSavedSteps
  std::int64_t pause_steps_ = 0;
  std::int64_t next_pause_steps_;
};

}  // namespace caption::drafts
