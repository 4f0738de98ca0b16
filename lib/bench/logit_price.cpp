#include "bench/logit_price.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "bench/statistics.h"

namespace caption::bench {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// log(sum_i exp(logits[i]))
double log_sum_exp(std::span<const float> logits) {
  float largest = kImpossible;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == -kImpossible) {
      throw Error(ErrorCode::kBadModel, "the model gives a logit that is no finite number");
    }
    largest = std::max(largest, logit);
  }
  if (largest == kImpossible) {
    throw Error(ErrorCode::kBadModel, "the model gives no token a probability");
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

std::ptrdiff_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

// Leaves one token as the only one that can be chosen; the model's logit of it may be -inf.
void allow_only(std::int32_t token, std::span<float> logits) {
  std::fill(logits.begin(), logits.end(), kImpossible);
  logits[static_cast<std::size_t>(token)] = 0;
}

}  // namespace

Divergence divergence(std::span<const float> reference, std::span<const float> other) {
  CAPTION_CHECK(reference.size() == other.size(), "divergence: vocabularies of " +
                                                      std::to_string(reference.size()) + " and " +
                                                      std::to_string(other.size()));
  const double reference_norm = log_sum_exp(reference);
  const double other_norm = log_sum_exp(other);
  double kl = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (reference[i] == kImpossible) continue;
    const double log_p = static_cast<double>(reference[i]) - reference_norm;
    const double log_q = static_cast<double>(other[i]) - other_norm;
    const double p = std::exp(log_p);
    // A probability below the smallest double adds nothing, also beside log q = -inf.
    if (p > 0) kl += p * (log_p - log_q);
  }
  // Rounding can give a sum that is a little below 0.
  return {.kl = std::max(0.0, kl), .has_same_top = likeliest(reference) == likeliest(other)};
}

LogitPrice summarise(std::span<const Divergence> divergences) {
  if (divergences.empty()) return {};
  std::vector<double> kls;
  std::int64_t num_same = 0;
  for (const Divergence& one : divergences) {
    kls.push_back(one.kl);
    num_same += one.has_same_top ? 1 : 0;
  }
  // Ascending, so that the sum does not depend on the order of the positions.
  std::sort(kls.begin(), kls.end());
  double sum = 0;
  for (const double kl : kls) sum += kl;
  const auto count = static_cast<double>(kls.size());
  return {.positions = std::ssize(divergences),
          .mean_kl = sum / count,
          .p99_kl = percentile(std::move(kls), 99),
          .top1_agreement = static_cast<double>(num_same) / count};
}

void TokenLog::watch(const std::string& key, engine::Request& request) {
  WrittenCaption& caption = captions_[key];  // its address stays
  caption = {.prompt_ids = request.prompt_ids};
  request.on_token = [&caption, earlier = std::move(request.on_token)](std::int32_t token) {
    caption.tokens.push_back(token);
    return earlier ? earlier(token) : engine::TokenVerdict::kContinue;
  };
}

const WrittenCaption* TokenLog::find(const std::string& key) const {
  const auto found = captions_.find(key);
  return found == captions_.end() ? nullptr : &found->second;
}

ForcedCaptions::ForcedCaptions(std::map<std::string, WrittenCaption> captions,
                               const std::filesystem::path& folder)
    : file_(folder) {
  for (auto& [key, written] : captions) {
    CAPTION_CHECK(!written.tokens.empty(), "a caption of no token");
    const std::int64_t num_tokens = std::ssize(written.tokens);
    captions_[key] = {.written = std::move(written), .first_row = positions_};
    positions_ += num_tokens;
  }
}

void ForcedCaptions::reserve(std::int64_t vocab) const {
  file_.reserve(positions_ * vocab * static_cast<std::int64_t>(sizeof(float)));
}

void ForcedCaptions::record(const std::string& key, engine::Request& request) {
  lead(key, request, Use::kRecord);
}

void ForcedCaptions::compare(const std::string& key, engine::Request& request) {
  lead(key, request, Use::kCompare);
}

void ForcedCaptions::lead(const std::string& key, engine::Request& request, Use use) {
  const auto found = captions_.find(key);
  if (found == captions_.end()) {
    throw Error(ErrorCode::kUsage, "bench: the reference wrote no caption of this clip");
  }
  const Caption& caption = found->second;
  if (request.prompt_ids != caption.written.prompt_ids) {
    throw Error(ErrorCode::kUsage,
                "bench: the prompt has " + std::to_string(request.prompt_ids.size()) +
                    " tokens that are not the reference's " +
                    std::to_string(caption.written.prompt_ids.size()) +
                    "; --price-base names the model that the other one was made of");
  }
  const std::vector<std::int32_t>& tokens = caption.written.tokens;
  // Nothing but the length ends the output, and no penalty rules out a token.
  request.sampling = {.temperature = 0,
                      .max_new_tokens = static_cast<std::int32_t>(tokens.size()),
                      .seed = request.sampling.seed};
  request.process_logits = [this, &caption, use,
                            position = std::size_t{0}](std::span<float> logits) mutable {
    const std::int32_t token = caption.written.tokens.at(position);
    visit(caption.first_row + static_cast<std::int64_t>(position), logits, use);
    CAPTION_CHECK(token >= 0 && token < std::ssize(logits), "a forced token without a logit");
    allow_only(token, logits);
    ++position;
  };
  request.on_token = [&tokens, position = std::size_t{0}](std::int32_t token) mutable {
    CAPTION_CHECK(token == tokens.at(position), "a token that was not forced");
    ++position;
    return engine::TokenVerdict::kContinue;
  };
}

void ForcedCaptions::visit(std::int64_t row, std::span<const float> logits, Use use) {
  if (vocab_ == 0) {
    vocab_ = std::ssize(logits);
    reference_.resize(logits.size());
  }
  if (std::ssize(logits) != vocab_) {
    throw Error(ErrorCode::kUsage, "bench: the model has " + std::to_string(logits.size()) +
                                       " logits and the reference " + std::to_string(vocab_) +
                                       "; --price-base names the model that the other one was "
                                       "made of");
  }
  const std::int64_t begin = row * static_cast<std::int64_t>(logits.size_bytes());
  if (use == Use::kRecord) return file_.write_at(begin, std::as_bytes(logits));
  file_.read_at(begin, std::as_writable_bytes(std::span(reference_)));
  const Divergence found = divergence(reference_, logits);
  if (!std::isfinite(found.kl)) {
    throw Error(ErrorCode::kBadModel,
                "the model gives no probability to a token that the reference gives one");
  }
  divergences_.push_back(found);
}

std::vector<Divergence> ForcedCaptions::take_divergences() {
  CAPTION_CHECK(std::ssize(divergences_) == positions_, std::to_string(divergences_.size()) +
                                                            " positions were compared, of " +
                                                            std::to_string(positions_));
  return std::exchange(divergences_, {});
}

}  // namespace caption::bench
