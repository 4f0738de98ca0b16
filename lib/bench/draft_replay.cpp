#include "bench/draft_replay.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "bench/internal/turns.h"
#include "engine/self_draft.h"

namespace caption::bench {
namespace {

using Ids = std::vector<std::int32_t>;

// An engine with one kind of drafts, which gets the requests in their order.
class Player {
 public:
  Player(model::Decoder& decoder, Stream& stream, std::span<const ReplayedRequest> requests,
         const ReplayedMethod& method, const ReplayOptions& options)
      : requests_(requests),
        outputs_(requests.size()),
        max_num_seqs_(options.engine.max_num_seqs),
        engine_(decoder, stream, with_drafts(method, options, decoder.spec().vocab)) {}

  bool is_done() const { return next_ == requests_.size() && engine_.idle(); }
  engine::EngineStats stats() const { return engine_.stats(); }
  const std::vector<Ids>& outputs() const { return outputs_; }

  // Steps until the outputs have `num_tokens` tokens in all, or all are done.
  void advance_to(std::int64_t num_tokens) {
    while (!is_done() && engine_.stats().decode_tokens < num_tokens) {
      submit();
      for (engine::Completion& completion : engine_.step()) take(std::move(completion));
    }
  }

 private:
  engine::EngineOptions with_drafts(const ReplayedMethod& method, const ReplayOptions& options,
                                    std::int64_t vocab) {
    engine::EngineOptions engine = options.engine;
    const drafts::Method kind = method.how.method;
    if (kind == drafts::Method::kNone) return engine;
    std::shared_ptr<drafts::TokenArchive> archive;
    std::shared_ptr<drafts::NearestTexts> nearest;
    if (kind == drafts::Method::kArchive) {
      archive = std::make_shared<drafts::TokenArchive>(options.archive_bytes);
      for (const Ids& text : options.known_texts) archive->add(text);
      while (archive->merge_on()) continue;
      nearest = std::make_shared<drafts::NearestTexts>(options.nearest_bytes);
    }
    drafts::DraftModel* model = nullptr;
    if (kind == drafts::Method::kSelf) {
      model = engine.self_draft = &self_draft_.emplace(method.layers);
    } else if (method.make_model) {
      draft_model_ = method.make_model(engine);
      model = draft_model_.get();
    }
    std::int64_t most_new_tokens = 1;
    for (const ReplayedRequest& request : requests_) {
      most_new_tokens =
          std::max<std::int64_t>(most_new_tokens, request.request.sampling.max_new_tokens);
    }
    engine.draft_source = &drafter_.emplace(method.how, archive, nearest, model);
    engine.max_drafts = method.how.max_drafts;
    engine.max_copied_tokens =
        static_cast<std::int32_t>(drafts::most_copied_tokens(kind, most_new_tokens, vocab));
    return engine;
  }

  // As many as the pipeline's engine stage: a sequence that ends is replaced in the next step.
  void submit() {
    while (next_ < requests_.size() && engine_.num_unfinished() < 2 * max_num_seqs_) {
      const ReplayedRequest& replayed = requests_[next_];
      const engine::RequestId id = engine_.submit(replayed.request);
      const auto number = static_cast<std::int64_t>(id);
      numbers_.emplace(number, next_++);
      if (drafter_.has_value() && replayed.look.has_value()) {
        drafter_->begin(number, replayed.topic, *replayed.look);
      }
      if (draft_model_ != nullptr && replayed.draft_prompt.has_value()) {
        draft_model_->begin(number, *replayed.draft_prompt);
      }
    }
  }

  void take(engine::Completion completion) {
    if (completion.error.has_value()) throw Error(*completion.error);
    const auto number = static_cast<std::int64_t>(completion.id);
    outputs_[numbers_.at(number)] = std::move(completion.output_ids);
    if (drafter_.has_value()) drafter_->take_counts(number);
  }

  std::span<const ReplayedRequest> requests_;
  std::vector<Ids> outputs_;
  std::int64_t max_num_seqs_;
  std::size_t next_ = 0;
  std::unordered_map<std::int64_t, std::size_t> numbers_;
  std::optional<engine::SelfDraft> self_draft_;
  std::unique_ptr<engine::DraftDecoder> draft_model_;
  std::optional<drafts::Drafter> drafter_;
  engine::Engine engine_;
};

std::int64_t num_tokens(const std::vector<Ids>& outputs) {
  std::int64_t sum = 0;
  for (const Ids& output : outputs) sum += std::ssize(output);
  return sum;
}

// Lets the players take turns until all are done.
void play(const std::vector<std::unique_ptr<Player>>& players, std::int64_t tokens_per_turn,
          std::mt19937_64& random) {
  std::vector<Player*> order;
  for (const auto& player : players) order.push_back(player.get());
  const auto is_done = [](const Player* player) { return player->is_done(); };
  for (std::int64_t turn = 1; !std::all_of(order.begin(), order.end(), is_done); ++turn) {
    shuffle_turns(order, random);
    for (Player* const player : order) player->advance_to(turn * tokens_per_turn);
  }
}

// A ratio for each round in which both took time.
template <class TimePerToken>
MedianInterval ratio_of(const ReplayedRow& row, const ReplayedRow& base, const TimePerToken& time) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(row.rounds.size(), base.rounds.size()); ++i) {
    const double own = time(row.rounds[i]);
    if (own > 0) ratios.push_back(time(base.rounds[i]) / own);
  }
  return median_interval(std::move(ratios));
}

}  // namespace

// The outputs are equal, and with them the tokens of all steps.
MedianInterval ReplayedRow::speed_ratio(const ReplayedRow& base) const {
  return ratio_of(*this, base,
                  [](const engine::EngineStats& stats) { return as_double(stats.busy_us); });
}

MedianInterval ReplayedRow::decode_speed_ratio(const ReplayedRow& base) const {
  return ratio_of(*this, base, [](const engine::EngineStats& stats) {
    return stats.decode_steps_tokens > 0
               ? as_double(stats.decode_steps_us) / as_double(stats.decode_steps_tokens)
               : 0;
  });
}

std::vector<ReplayedRow> replay_drafts(model::Decoder& decoder, Stream& stream,
                                       std::span<const ReplayedRequest> requests,
                                       std::span<const ReplayedMethod> methods,
                                       const ReplayOptions& options) {
  CAPTION_CHECK(!methods.empty() && options.tokens_per_turn >= 1, "bench: nothing to replay");
  std::vector<ReplayedRow> rows(methods.size());
  std::mt19937_64 random(options.seed);
  for (int round = 0; round < options.num_rounds; ++round) {
    if (options.on_round) options.on_round(round);
    std::vector<std::unique_ptr<Player>> players;
    for (const ReplayedMethod& method : methods) {
      players.push_back(std::make_unique<Player>(decoder, stream, requests, method, options));
    }
    play(players, options.tokens_per_turn, random);
    for (std::size_t i = 0; i < players.size(); ++i) {
      rows[i].rounds.push_back(players[i]->stats());
      rows[i].num_output_tokens = num_tokens(players[i]->outputs());
      if (players[i]->outputs() != players.front()->outputs()) rows[i].outputs_are_equal = false;
    }
  }
  return rows;
}

}  // namespace caption::bench
