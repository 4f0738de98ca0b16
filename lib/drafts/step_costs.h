// drafts/step_costs.h: what steps of so many tokens cost, as measured while they run.
#pragma once

#include <array>
#include <cstdint>

namespace caption::drafts {

// Wall times of steps by their number of tokens, learned while steps run. Not thread-safe.
//
// Numbers of tokens are put into classes: each number up to 16 has its own, since kernels compute
// rows in tiles and one further row may cost much or little; above 16 there are two classes per
// octave. A class keeps a typical time. Outliers are nearly always too slow, and a class that is
// taken for slow is chosen no more, so
//   - of the first four times of a class the least counts;
//   - a faster time moves the typical one by kWeightOfFaster of the difference, a slower one by
//     kWeightOfSlower: it becomes an expectile (Newey and Powell, Econometrica 1987), or the mean
//     where both have the weight kWeightOfMean;
//   - a later time counts as at most twice the typical one;
//   - the first time of a class counts as at most the time per token of each smaller class, times
//     its tokens.
// The trust in a class halves with every kTrusted steps in which it is not seen. With the trust
// falls the weight of the time by which a class exceeds the next smaller one, so that a few slow
// steps do not decide for ever.
class StepCosts {
 public:
  enum class Average { kTypical, kMean };
  explicit StepCosts(Average average = Average::kTypical);

  void observe(std::int64_t num_tokens, double us);

  // The time of a step of so many tokens; 0 before the first observation. Interpolated between
  // classes, never decreasing. Above the largest class, whose mean number of tokens is n, a further
  // token costs kUnknownShare of that class's time per token, so that larger steps are tried; a
  // token beyond kMostGrowth * n + 2 costs all of it.
  double us(std::int64_t num_tokens) const;

  // Whether a class within a factor of 1.5 of `num_tokens` was observed at least `least` times;
  // least <= 4.
  bool has_measured(std::int64_t num_tokens, int least) const;

  static constexpr double kUnknownShare = 0.05;
  static constexpr double kMostGrowth = 1.5;
  static constexpr std::int64_t kTrusted = 512;
  static constexpr double kWeightOfFaster = 1.0 / 4;
  static constexpr double kWeightOfSlower = 1.0 / 16;
  static constexpr double kWeightOfMean = 1.0 / 8;

 private:
  static constexpr std::size_t kNumClasses = 48;
  struct Class {
    double num_tokens = 0;  // mean; 0: never seen
    double us = 0;          // typical or mean time
    double trust = 0;       // observations, when it was last seen
    std::int64_t last_seen = 0;
    double estimate = 0;  // `us`, at most a larger class's and at least a smaller one's
  };

  static constexpr std::array<std::size_t, kNumClasses + 1> filled() {
    std::array<std::size_t, kNumClasses + 1> none{};
    none.fill(kNumClasses);
    return none;
  }
  static std::size_t class_of(std::int64_t num_tokens);
  double trust_in(const Class& c) const;
  void note_seen(std::size_t index);
  void estimate();

  const double weight_of_faster_;
  const double weight_of_slower_;
  std::array<Class, kNumClasses> classes_{};
  // Indexed by class, kNumClasses being the end: the seen class that is next, the class itself
  // included, and the one before; kNumClasses where there is none.
  std::array<std::size_t, kNumClasses + 1> seen_from_ = filled();
  std::array<std::size_t, kNumClasses + 1> seen_below_ = filled();
  std::int64_t num_steps_ = 0;
};

}  // namespace caption::drafts
