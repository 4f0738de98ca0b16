#include "drafts/savings_balance.h"

#include <algorithm>

namespace caption::drafts {
namespace {

constexpr double kMostSavedSteps = 32;  // savings beyond these do not excuse later losses
constexpr std::int64_t kLongestPauseSteps = 16384;

}  // namespace

void SavingsBalance::observe(double saved_us, double plain_us) {
  if (plain_us <= 0) return;
  balance_steps_ = std::min(balance_steps_ + saved_us / plain_us, kMostSavedSteps);
  if (balance_steps_ > -most_loss_steps_) return;
  balance_steps_ = 0;
  pause_steps_ = next_pause_steps_;
  next_pause_steps_ = std::min(2 * next_pause_steps_, kLongestPauseSteps);
}

}  // namespace caption::drafts
