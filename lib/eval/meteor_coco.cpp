#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <utility>

#include "eval/meteor_coco.h"

namespace caption::eval {
namespace {

constexpr std::size_t kBeamWidth = 40;
constexpr std::int64_t kNone = -1;

// One partial alignment of the reference's words up to the current one.
struct Path {
  std::int64_t num_matches = 0;
  std::int64_t num_chunks = 0;
  std::int64_t distance = 0;
  std::int64_t last_hypothesis_end = kNone;  // end of the open chunk in the hypothesis
  std::size_t parent = 0;                    // index in the previous beam
  std::int64_t taken = kNone;                // index of the hypothesis word matched in this step
};

bool is_better(const Path& a, const Path& b) {
  if (a.num_matches != b.num_matches) return a.num_matches > b.num_matches;
  if (a.num_chunks != b.num_chunks) return a.num_chunks < b.num_chunks;
  return a.distance < b.distance;
}

// The best kBeamWidth paths in order; equal paths are in the order in which they were offered.
class Beam {
 public:
  void offer(const Path& path) {
    if (paths_.size() == kBeamWidth && !is_better(path, paths_.back())) return;
    paths_.insert(std::upper_bound(paths_.begin(), paths_.end(), path, is_better), path);
    if (paths_.size() > kBeamWidth) paths_.pop_back();
  }
  const std::vector<Path>& paths() const { return paths_; }

 private:
  std::vector<Path> paths_;
};

void take(Path& path, std::int64_t hypothesis_idx) {
  ++path.num_matches;
  if (path.last_hypothesis_end != kNone && hypothesis_idx != path.last_hypothesis_end) {
    ++path.num_chunks;
  }
  path.last_hypothesis_end = hypothesis_idx + 1;
  path.taken = hypothesis_idx;
}

// The hypothesis words that each path of a beam has used, one row of bits per path.
class UsedWords {
 public:
  explicit UsedWords(std::size_t num_words)
      : stride_((num_words + 63) / 64), rows_(kBeamWidth * stride_, 0), next_(rows_) {}

  bool has(std::size_t row, std::int64_t word) const {
    const auto bit = static_cast<std::size_t>(word);
    return (rows_[row * stride_ + bit / 64] >> (bit % 64) & 1) != 0;
  }

  // Replaces the rows by those of `paths`: each is the row of its parent with the newly matched
  // word added.
  void advance(const std::vector<Path>& paths) {
    for (std::size_t row = 0; row < paths.size(); ++row) {
      std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(paths[row].parent * stride_), stride_,
                  next_.begin() + static_cast<std::ptrdiff_t>(row * stride_));
      if (paths[row].taken == kNone) continue;
      const auto bit = static_cast<std::size_t>(paths[row].taken);
      next_[row * stride_ + bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
    rows_.swap(next_);
  }

 private:
  std::size_t stride_;  // 64-bit words per row
  std::vector<std::uint64_t> rows_;
  std::vector<std::uint64_t> next_;
};

// Whether all words of both sides match, in one chunk.
bool is_perfect(const Meteor15Statistics& statistics) {
  return statistics.num_matches == statistics.hypothesis_length &&
         statistics.num_matches == statistics.reference_length && statistics.num_chunks == 1;
}

}  // namespace

Meteor15Statistics meteor15_align(std::span<const std::int32_t> hypothesis,
                                  std::span<const std::int32_t> reference) {
  std::unordered_map<std::int32_t, std::vector<std::int64_t>> places;  // hypothesis indices
  for (std::size_t i = 0; i < hypothesis.size(); ++i) {
    places[hypothesis[i]].push_back(static_cast<std::int64_t>(i));
  }
  std::unordered_map<std::int32_t, std::int64_t> num_in_reference;
  for (const std::int32_t word : reference) ++num_in_reference[word];

  std::vector<Path> paths(1);
  UsedWords used(hypothesis.size());
  for (std::size_t j = 0; j < reference.size(); ++j) {
    Beam next;
    const auto candidates = places.find(reference[j]);
    const bool is_definite = candidates != places.end() && candidates->second.size() == 1 &&
                             num_in_reference[reference[j]] == 1;
    for (std::size_t rank = 0; rank < paths.size(); ++rank) {
      Path path = paths[rank];
      path.parent = rank;
      path.taken = kNone;
      const auto distance_to = [&](std::int64_t i) {
        return std::abs(static_cast<std::int64_t>(j) - i);
      };
      if (is_definite) {  // a unique match on both sides: no alternatives to try
        path.distance += distance_to(candidates->second[0]);
        take(path, candidates->second[0]);
        next.offer(path);
        continue;
      }
      if (candidates != places.end()) {
        for (const std::int64_t i : candidates->second) {
          if (used.has(rank, i)) continue;
          Path taken = path;
          take(taken, i);
          next.offer(taken);
          // The Java tool adds the distance to the path that continues without this match.
          path.distance += distance_to(i);
        }
      }
      if (path.last_hypothesis_end != kNone) {
        ++path.num_chunks;
        path.last_hypothesis_end = kNone;
      }
      next.offer(path);
    }
    used.advance(next.paths());
    paths = next.paths();
  }
  for (Path& path : paths) {
    if (path.last_hypothesis_end != kNone) ++path.num_chunks;
  }
  const Path& best = *std::min_element(paths.begin(), paths.end(), is_better);
  return {static_cast<std::int64_t>(hypothesis.size()), static_cast<std::int64_t>(reference.size()),
          best.num_matches, best.num_chunks};
}

std::int64_t summed_chunks(const Meteor15Statistics& segment) {
  return is_perfect(segment) ? 0 : segment.num_chunks;
}

double meteor15_score(const Meteor15Statistics& statistics, const Meteor15Parameters& parameters) {
  if (statistics.num_matches == 0) return 0.0;
  const auto m = static_cast<double>(statistics.num_matches);
  const double precision = m / static_cast<double>(statistics.hypothesis_length);
  const double recall = m / static_cast<double>(statistics.reference_length);
  const double f_mean = 1.0 / ((1.0 - parameters.alpha) / precision + parameters.alpha / recall);
  const double fragmentation = static_cast<double>(summed_chunks(statistics)) / m;
  return std::max(0.0,
                  f_mean * (1.0 - parameters.gamma * std::pow(fragmentation, parameters.beta)));
}

Meteor15Statistics meteor15_best(std::span<const std::int32_t> hypothesis,
                                 std::span<const std::vector<std::int32_t>> references,
                                 const Meteor15Parameters& parameters) {
  Meteor15Statistics best{static_cast<std::int64_t>(hypothesis.size()), 0, 0, 0};
  double best_score = -1.0;
  for (const std::vector<std::int32_t>& reference : references) {
    const Meteor15Statistics statistics = meteor15_align(hypothesis, reference);
    const double score = meteor15_score(statistics, parameters);
    if (score > best_score) {
      best_score = score;
      best = statistics;
    }
  }
  return best;
}

}  // namespace caption::eval
