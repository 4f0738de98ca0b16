// drafts/step_costs.h: what steps of so many tokens cost, as measured while they run.
#pragma once

#include <array>
#include <cstdint>

namespace caption::drafts {

// Wall times by the number of tokens: each number up to 16 is a class, since kernels compute rows
// in tiles and a further row may cost much or little; beyond, a class is about 1.4 times the one
// before. Times have outliers, upwards: the least of the first four times of a class counts, a
// later one as at most twice the mean of its class, or, where its class is new, in proportion to
// the tokens of the class below. A mean is trusted for a while: what it says beyond the class below
// halves when the class has not been seen for kTrusted steps, so that a few slow steps do not
// decide for ever. Not thread-safe.
class StepCosts {
 public:
  void observe(std::int64_t num_tokens, double us);

  // The time of a step of so many tokens; 0 before the first observation. Interpolated between
  // classes, never decreasing. Beyond the largest one a token costs kUnknownShare of the mean token
  // of that class, so that larger steps are tried, but from kMostGrowth times its tokens and 2 on
  // as much as the mean token.
  double us(std::int64_t num_tokens) const;

  // Whether a class within a factor of 1.5 of `num_tokens` was observed at least `least` times;
  // least <= 4.
  bool has_measured(std::int64_t num_tokens, int least) const;

  static constexpr double kUnknownShare = 0.05;
  static constexpr double kMostGrowth = 1.5;
  static constexpr std::int64_t kTrusted = 512;

 private:
  static constexpr std::size_t kNumClasses = 48;
  struct Class {
    double num_tokens = 0;  // mean; 0: never seen
    double us = 0;          // mean
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

  std::array<Class, kNumClasses> classes_{};
  // Indexed by class, kNumClasses being the end: the seen class that is next, the class itself
  // included, and the one before; kNumClasses where there is none.
  std::array<std::size_t, kNumClasses + 1> seen_from_ = filled();
  std::array<std::size_t, kNumClasses + 1> seen_below_ = filled();
  std::int64_t num_steps_ = 0;
};

}  // namespace caption::drafts
