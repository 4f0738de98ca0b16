// bench/logit_price.h: how far the next-token distributions of a model are from those of a
// reference, on the tokens that the reference wrote.
//
//   KL(p || q) = sum_i p_i (log p_i - log q_i)   in nats, over the whole vocabulary, sums in double
//
// The reference writes captions (TokenLog). It and every other model are then led through the same
// tokens (teacher forcing), so that position t of all of them follows the same text: the reference
// stores its logits, the others are compared with them (ForcedCaptions).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/temporary_file.h"
#include "engine/engine.h"

namespace caption::bench {

struct Divergence {
  double kl = 0;             // KL(reference || other), >= 0; infinite where only `other` rules out
  bool has_same_top = true;  // whether the largest logit has the same id; the lowest among equals
};

// Both are [vocab]; -inf is the logit of an impossible token. Exactly 0 for equal logits. Throws
// Error(kBadModel) for a logit that is NaN or +inf, or when every token is impossible.
Divergence divergence(std::span<const float> reference, std::span<const float> other);

// The divergences of many positions.
struct LogitPrice {
  std::int64_t positions = 0;
  double mean_kl = 0;
  double p99_kl = 0;  // as percentile()
  double top1_agreement = 1;
};
LogitPrice summarise(std::span<const Divergence> divergences);

struct WrittenCaption {
  std::vector<std::int32_t> prompt_ids = {};
  std::vector<std::int32_t> tokens = {};  // with the stop id, if it was chosen
};

// Notes the tokens that requests choose. It must outlive the requests that it watches.
class TokenLog {
 public:
  // Sets the request's on_token, which calls the earlier one. A request that is watched under the
  // key of an earlier one replaces its tokens.
  void watch(const std::string& key, engine::Request& request);
  // The tokens of the request with this key, or null.
  const WrittenCaption* find(const std::string& key) const;

 private:
  std::map<std::string, WrittenCaption> captions_;
};

// Captions through which models are led, and the reference's logits at each of their positions:
// positions() * vocab * 4 bytes in a temporary file. For use by one thread at a time; it must
// outlive the requests that it leads.
class ForcedCaptions {
 public:
  // The captions by key; none is empty. The file is in `folder`. Throws as TemporaryFile.
  ForcedCaptions(std::map<std::string, WrittenCaption> captions,
                 const std::filesystem::path& folder);

  // Reserves space for rows of `vocab` logits, so that a full disk is found before the models run.
  // Throws as TemporaryFile::reserve().
  void reserve(std::int64_t vocab) const;

  std::int64_t positions() const { return positions_; }  // summed over all captions

  // Make the request choose the caption's tokens and end after the last one, whatever its sampling
  // was, and store the logits, or compare them with the stored ones. Throw Error(kUsage) when the
  // key is unknown or the prompt has other tokens than the reference's: the models are not of one
  // family then.
  void record(const std::string& key, engine::Request& request);
  void compare(const std::string& key, engine::Request& request);

  // The positions compared since the last call; their order is not defined. Throws Error(kInternal)
  // unless each was compared once.
  std::vector<Divergence> take_divergences();

 private:
  struct Caption {
    WrittenCaption written;
    std::int64_t first_row = 0;
  };
  enum class Use { kRecord, kCompare };

  void lead(const std::string& key, engine::Request& request, Use use);
  void visit(std::int64_t row, std::span<const float> logits, Use use);

  std::map<std::string, Caption> captions_;
  std::int64_t positions_ = 0;
  std::int64_t vocab_ = 0;  // 0 before the first row is stored
  TemporaryFile file_;
  std::vector<float> reference_;  // [vocab], a row that was read
  std::vector<Divergence> divergences_;
};

}  // namespace caption::bench
