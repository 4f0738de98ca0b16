// The search for the layers to leave out, on modelled decoders.
#include "drafts/layer_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "drafts/layer_choice.h"

using namespace caption::drafts;

namespace {

using Layers = LayerSearch::Layers;

// Guesses without layer l are wrong with probability harm[l], independently of other layers.
struct Modelled {
  std::vector<double> harm;
  double head = 2;  // cost of the head, in layers
  std::mt19937 rng{11};

  double alpha(const Layers& left_out) const {
    double product = 1;
    for (const std::int32_t layer : left_out) product *= 1 - harm[static_cast<std::size_t>(layer)];
    return product;
  }
  double cost(const Layers& left_out) const {
    const auto num_layers = static_cast<double>(harm.size());
    return (num_layers - static_cast<double>(left_out.size()) + head) / (num_layers + head);
  }
  LayerScore score(const Layers& left_out, std::int64_t num_texts) {
    std::uniform_real_distribution<double> uniform(0, 1);
    LayerScore score;
    for (std::int64_t text = 0; text < num_texts; ++text) {
      bool goes_on = true;
      for (int i = 0; i < 8; ++i) {
        score.log_likelihood += std::log(alpha(left_out) + 1e-3) + 0.01 * uniform(rng);
        if (!goes_on) continue;
        goes_on = uniform(rng) < alpha(left_out);
        ++score.num_known;
        score.num_right += goes_on ? 1 : 0;
      }
    }
    return score;
  }
};

// Returns the result, and in `num_scored` how many sets were scored with a text.
LeftOutLayers search(Modelled model, std::int64_t& num_scored) {
  LayerSearch search(static_cast<std::int64_t>(model.harm.size()),
                     [&](const Layers& left_out) { return model.cost(left_out); });
  num_scored = 0;
  std::int64_t num_texts = 0;
  while (!search.is_done()) {
    CHECK(search.progress().num_texts == num_texts);
    num_texts += search.num_texts();
    CHECK(num_texts <= search.progress().most_texts);
    std::vector<LayerScore> scores;
    for (const Layers& set : search.sets()) {
      CHECK(std::is_sorted(set.begin(), set.end()));
      CHECK(set.front() > 0);
      CHECK(set.back() + 1 < static_cast<std::int32_t>(model.harm.size()));
      scores.push_back(model.score(set, search.num_texts()));
      num_scored += search.num_texts();
    }
    search.observe(scores);
  }
  if (search.result().pays()) CHECK(num_texts == search.progress().most_texts);
  return search.result();
}

// The best gain of d guesses by the formula of drafts/layer_search.h.
double best_gain(double alpha, double cost) {
  double best = 1;
  for (int d = 1; d <= 8; ++d) {
    const double tokens = alpha == 1 ? d + 1 : (1 - std::pow(alpha, d + 1)) / (1 - alpha);
    best = std::max(best, tokens / (1 + d * (cost + LayerSearch::kRowShare)));
  }
  return best;
}

}  // namespace

TEST_CASE("layers without effect are left out, and no others") {
  for (const int num_layers : {4, 12, 28, 80}) {
    CAPTURE(num_layers);
    Modelled model{.harm = std::vector<double>(static_cast<std::size_t>(num_layers), 0.5)};
    for (int layer = num_layers / 3; layer < 2 * num_layers / 3; ++layer) {
      model.harm[static_cast<std::size_t>(layer)] = 0;
    }
    std::int64_t num_scored = 0;
    const LeftOutLayers found = search(model, num_scored);
    REQUIRE(found.pays());
    for (const std::int32_t layer : found.layers) {
      CHECK(model.harm[static_cast<std::size_t>(layer)] == 0);
    }
    // At most one step of the nested sets below all of them.
    CHECK(static_cast<int>(found.layers.size()) >=
          num_layers / 3 - (num_layers + LayerSearch::kMostSets - 1) / LayerSearch::kMostSets);
    CHECK(found.acceptance > 0.9);
    CHECK(found.gain > LayerSearch::kLeastGain);
    CHECK(num_scored <=
          LayerSearch::kFirstTexts * num_layers + 2 * LayerSearch::kMostSets * LayerSearch::kTexts);
  }
}

TEST_CASE("with graded effects the speed is near the best of all nested sets") {
  std::mt19937 rng(3);
  std::exponential_distribution<double> drawn(20);
  double sum = 0;
  constexpr int kModels = 40;
  for (int i = 0; i < kModels; ++i) {
    Modelled model;
    for (int layer = 0; layer < 28; ++layer) model.harm.push_back(std::min(0.9, drawn(rng)));
    model.rng.seed(static_cast<unsigned>(i));
    std::vector<std::int32_t> order;
    for (std::int32_t layer = 1; layer < 27; ++layer) order.push_back(layer);
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return model.harm[static_cast<std::size_t>(a)] < model.harm[static_cast<std::size_t>(b)];
    });
    double best = 1;
    Layers nested;
    for (const std::int32_t layer : order) {
      nested.push_back(layer);
      best = std::max(best, best_gain(model.alpha(nested), model.cost(nested)));
    }
    std::int64_t num_scored = 0;
    const LeftOutLayers found = search(model, num_scored);
    const double gain = best_gain(model.alpha(found.layers), model.cost(found.layers));
    CAPTURE(best);
    CHECK(gain >= 0.8 * best);
    sum += gain / best;
  }
  CHECK(sum / kModels > 0.93);
}

TEST_CASE("where every layer matters, and with no inner layer, nothing is left out") {
  std::int64_t num_scored = 0;
  for (const std::size_t num_layers : {0U, 1U, 2U, 3U, 4U, 30U}) {
    CAPTURE(num_layers);
    const LeftOutLayers found = search({.harm = std::vector<double>(num_layers, 0.7)}, num_scored);
    CHECK_FALSE(found.pays());
  }
  // One of three layers, right always, gains less than what its guesses cost with a large head.
  const LeftOutLayers found = search({.harm = {1, 0, 1}, .head = 60}, num_scored);
  CHECK_FALSE(found.pays());
}

TEST_CASE("the first choice stays") {
  int num_made = 0;
  LayerChoice choice(std::nullopt, [&](const LeftOutLayers& made) {
    ++num_made;
    CHECK(made.layers == Layers{2});
  });
  CHECK_FALSE(choice.get().has_value());
  choice.make({.layers = {2}});
  choice.make({.layers = {3}});
  CHECK(choice.get()->layers == Layers{2});
  CHECK(num_made == 1);
  LayerChoice known(LeftOutLayers{.layers = {1}}, [](const LeftOutLayers&) { FAIL("known"); });
  known.make({.layers = {3}});
  CHECK(known.get()->layers == Layers{1});
}
