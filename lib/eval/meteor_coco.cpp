#include "eval/meteor_coco.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <utility>

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

// A set of hypothesis words: bit i % 64 of element i / 64 is that of word i.
using WordBits = std::vector<std::uint64_t>;
constexpr std::int64_t kBits = 64;

std::uint64_t bit_of(std::int64_t word) { return std::uint64_t{1} << (word % kBits); }

WordBits bits_of(const std::vector<std::int64_t>& words, std::size_t num_words) {
  WordBits bits((num_words + kBits - 1) / kBits, 0);
  for (const std::int64_t word : words) {
    bits[static_cast<std::size_t>(word / kBits)] |= bit_of(word);
  }
  return bits;
}

// How many bits are set, and the sum of their positions.
struct BitSums {
  std::int64_t count = 0;
  std::int64_t positions = 0;
};

// Sums of 2, 4 and 8 neighbouring bits, in fields of as many bits, and then of the 8 bytes by a
// product, whose top byte they are: no field overflows.
BitSums sums_of(std::uint64_t bits) {
  constexpr std::uint64_t kPairs = 0x5555555555555555;
  constexpr std::uint64_t kFours = 0x3333333333333333;
  constexpr std::uint64_t kBytes = 0x0F0F0F0F0F0F0F0F;
  constexpr std::uint64_t kSum = 0x0101010101010101;
  constexpr std::uint64_t kSumOfIndices = 0x0001020304050607;  // byte k counts k times
  constexpr int kTopByte = 56;
  std::uint64_t upper = (bits >> 1) & kPairs;
  std::uint64_t count = (bits & kPairs) + upper;
  std::uint64_t positions = upper;
  upper = (count >> 2) & kFours;
  count = (count & kFours) + upper;
  positions = (positions & kFours) + ((positions >> 2) & kFours) + 2 * upper;
  upper = (count >> 4) & kBytes;
  count = (count & kBytes) + upper;
  positions = (positions & kBytes) + ((positions >> 4) & kBytes) + 4 * upper;
  return {static_cast<std::int64_t>((count * kSum) >> kTopByte),
          static_cast<std::int64_t>(((positions * kSum) >> kTopByte) +
                                    8 * ((count * kSumOfIndices) >> kTopByte))};
}

// The sum of |j - i| over the words i of an element whose bit 0 is that of word `first`.
std::int64_t sum_of_distances(std::uint64_t bits, std::int64_t first, std::int64_t j) {
  if (bits == 0) return 0;
  const BitSums all = sums_of(bits);
  // The sum of i - j over all words i of the element.
  const std::int64_t sum = all.count * (first - j) + all.positions;
  if (j <= first) return sum;
  if (j >= first + kBits) return -sum;
  const BitSums before = sums_of(bits & (bit_of(j - first) - 1));
  return sum - 2 * (before.count * (first - j) + before.positions);
}

// Offers `path` continued by each of the words `places`, in their order, that are not in `used`.
// Adds to the path what the Java tool adds to the one that continues without a match: the distances
// to all of these words.
//
// All matches but the one that continues the path's chunk make equally many chunks, and their
// distances do not fall, so that a beam that was offered kBeamWidth of them takes no later one.
void offer_matches(Path& path, const WordBits& places, std::span<const std::uint64_t> used,
                   std::int64_t j, Beam& beam) {
  const auto offer = [&](std::int64_t word) {
    Path taken = path;
    take(taken, word);
    beam.offer(taken);
  };
  const std::int64_t next = path.last_hypothesis_end;
  std::size_t num_offered = 0;
  for (std::size_t k = 0; k < places.size(); ++k) {
    std::uint64_t bits = places[k] & ~used[k];
    const std::int64_t first = static_cast<std::int64_t>(k) * kBits;
    for (; bits != 0 && num_offered < kBeamWidth; bits &= bits - 1, ++num_offered) {
      const std::int64_t word = first + std::countr_zero(bits);
      offer(word);
      path.distance += std::abs(j - word);
    }
    if (next >= first && next < first + kBits && (bits & bit_of(next)) != 0) {
      const std::uint64_t before = bits & (bit_of(next) - 1);
      path.distance += sum_of_distances(before, first, j);
      offer(next);
      bits &= ~before;
    }
    path.distance += sum_of_distances(bits, first, j);
  }
}

// The hypothesis words that each path of a beam has used.
class UsedWords {
 public:
  explicit UsedWords(std::size_t num_words)
      : stride_((num_words + kBits - 1) / kBits), rows_(kBeamWidth * stride_, 0), next_(rows_) {}

  std::span<const std::uint64_t> of(std::size_t path) const {
    return std::span(rows_).subspan(path * stride_, stride_);
  }

  // Replaces the rows by those of `paths`: each is the row of its parent with the newly matched
  // word added.
  void advance(const std::vector<Path>& paths) {
    for (std::size_t row = 0; row < paths.size(); ++row) {
      std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(paths[row].parent * stride_), stride_,
                  next_.begin() + static_cast<std::ptrdiff_t>(row * stride_));
      if (paths[row].taken == kNone) continue;
      const std::int64_t word = paths[row].taken;
      next_[row * stride_ + static_cast<std::size_t>(word / kBits)] |= bit_of(word);
    }
    rows_.swap(next_);
  }

 private:
  std::size_t stride_;  // elements of a path's row
  WordBits rows_;
  WordBits next_;
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
  for (std::size_t idx = 0; idx < reference.size(); ++idx) {
    const auto j = static_cast<std::int64_t>(idx);
    Beam next;
    const auto candidates = places.find(reference[idx]);
    const bool has_match = candidates != places.end();
    // A unique match on both sides has no alternatives to try.
    const bool is_definite =
        has_match && candidates->second.size() == 1 && num_in_reference[reference[idx]] == 1;
    const WordBits bits =
        has_match && !is_definite ? bits_of(candidates->second, hypothesis.size()) : WordBits();
    for (std::size_t rank = 0; rank < paths.size(); ++rank) {
      Path path = paths[rank];
      path.parent = rank;
      path.taken = kNone;
      if (is_definite) {
        path.distance += std::abs(j - candidates->second[0]);
        take(path, candidates->second[0]);
        next.offer(path);
        continue;
      }
      offer_matches(path, bits, used.of(rank), j, next);
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
