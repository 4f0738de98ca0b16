// Divergences against arithmetic by other means, and models that are led through the tokens of
// another one.
#include "bench/logit_price.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "model/random_model.h"

namespace caption::bench {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// sum p log(p / q) of normalised probabilities, in long double.
long double kl_by_definition(const std::vector<float>& reference, const std::vector<float>& other) {
  const auto softmax = [](const std::vector<float>& logits) {
    std::vector<long double> out;
    long double sum = 0;
    for (const float logit : logits) {
      out.push_back(std::exp(static_cast<long double>(logit)));
      sum += out.back();
    }
    for (long double& probability : out) probability /= sum;
    return out;
  };
  const std::vector<long double> p = softmax(reference);
  const std::vector<long double> q = softmax(other);
  long double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) kl += p[i] * std::log(p[i] / q[i]);
  }
  return kl;
}

std::vector<float> random_logits(std::size_t count, float spread, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  for (float& logit : out) logit = normal(generator);
  return out;
}

TEST_SUITE("bench/logit_price") {
  TEST_CASE("distributions of a hand-made pair") {
    // p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2): KL = ln(2) / 2 - ln(2) / 4. The logits are rounded
    // to float, relative 2^-24, so each log is off by at most 1.4 * 6e-8.
    const float half = std::log(0.5F);
    const float quarter = std::log(0.25F);
    const Divergence pair = divergence(std::vector<float>{half, quarter, quarter},
                                       std::vector<float>{quarter, quarter, half});
    CHECK(pair.kl == doctest::Approx(std::log(2.0) / 4).epsilon(1e-6));
    CHECK_FALSE(pair.has_same_top);
    // Logits count up to a constant; -inf is a probability of 0, which is not rounded.
    const Divergence shifted =
        divergence(std::vector<float>{3, 3, kImpossible}, std::vector<float>{-8, -8, -8});
    CHECK(shifted.kl == doctest::Approx(std::log(1.5)).epsilon(1e-12));
    CHECK(shifted.has_same_top);
    CHECK(std::isinf(divergence(std::vector<float>{1, 1}, std::vector<float>{1, kImpossible}).kl));
  }

  TEST_CASE("a divergence is what the definition gives in long double") {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const std::vector<float> reference =
          random_logits(5003, 1.0F + static_cast<float>(seed), seed);
      std::vector<float> other =
          random_logits(5003, 0.1F * static_cast<float>(seed + 1), seed + 99);
      for (std::size_t i = 0; i < other.size(); ++i) other[i] += reference[i];
      // Each term's logs are off by a few units of 2^-53 of numbers below 200, and the terms'
      // weights add up to 1.
      CHECK(
          divergence(reference, other).kl ==
          doctest::Approx(static_cast<double>(kl_by_definition(reference, other))).epsilon(1e-12));
    }
  }

  TEST_CASE("a distribution is at distance 0 of itself, exactly, and nothing is below 0") {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      std::vector<float> logits = random_logits(4099, 5, seed);
      logits[seed] = kImpossible;
      const Divergence same = divergence(logits, logits);
      CHECK(same.kl == 0);
      CHECK(same.has_same_top);
      std::vector<float> near = logits;
      for (float& logit : near) logit *= 1 + 1e-7F;
      CHECK(divergence(logits, near).kl >= 0);
    }
  }

  TEST_CASE("logits that are no numbers are the model's fault") {
    const std::vector<float> good = {1, 2, 3};
    for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -kImpossible}) {
      const std::vector<float> bad = {1, wrong, 3};
      CHECK_THROWS_WITH_AS(divergence(good, bad), doctest::Contains("no finite number"), Error);
      CHECK_THROWS_WITH_AS(divergence(bad, good), doctest::Contains("no finite number"), Error);
    }
    CHECK_THROWS_AS(divergence(std::vector<float>(3, kImpossible), good), Error);
    CHECK_THROWS_AS(divergence(std::vector<float>{1}, good), Error);
  }

  TEST_CASE("the summary of many positions does not depend on their order") {
    std::vector<Divergence> divergences;
    for (int i = 0; i <= 100; ++i) {
      divergences.push_back({.kl = (i * 37) % 101 / 10.0, .has_same_top = i % 4 != 0});
    }
    const LogitPrice price = summarise(divergences);
    CHECK(price.positions == 101);
    CHECK(price.mean_kl == doctest::Approx(5).epsilon(1e-12));
    CHECK(price.p99_kl == 9.9);
    CHECK(price.top1_agreement == doctest::Approx(75.0 / 101).epsilon(1e-15));
    std::swap(divergences[3], divergences[70]);
    CHECK(summarise(divergences).mean_kl == price.mean_kl);
    CHECK(summarise({}).positions == 0);
  }
}

const model::DecoderSpec kShape = {.num_layers = 2,
                                   .hidden = 64,
                                   .intermediate = 128,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .head_dim = 16,
                                   .vocab = 320,
                                   .max_positions = 1024,
                                   .qk_norm = true};
constexpr int kNumRequests = 5;

engine::Request make_request(int number) {
  engine::Request request;
  request.prompt_ids = {number + 1, 7, 2 * number + 3};
  request.sampling.temperature = 1;  // outputs that are not what greedy decoding writes
  request.sampling.max_new_tokens = 9 + number;
  request.sampling.stop_ids = {11, 12, 13};
  request.sampling.seed = static_cast<std::uint64_t>(number);
  return request;
}

std::string key_of(int number) { return "clip " + std::to_string(number); }

// The same random weights in some format, and an engine.
class Model {
 public:
  explicit Model(weights::WeightFormat format, model::DecoderSpec shape = kShape)
      : decoder_(model::make_random_decoder(stream_, shape, format, 3)) {}

  // Runs the requests, each changed by `prepare`, and returns their outputs.
  template <class Prepare>
  std::vector<std::vector<std::int32_t>> run(const Prepare& prepare) {
    engine::Engine engine(*decoder_, stream_,
                          {.max_num_seqs = 3,
                           .max_num_batched_tokens = 16,
                           .kv_cache_bytes = 8 << 20,
                           .kv_dtype = DType::kF32});
    for (int number = 0; number < kNumRequests; ++number) {
      engine::Request request = make_request(number);
      prepare(key_of(number), request);
      engine.submit(std::move(request));
    }
    std::vector<std::vector<std::int32_t>> outputs(kNumRequests);
    while (!engine.idle()) {
      for (engine::Completion& completion : engine.step()) {
        if (completion.error.has_value()) throw Error(*completion.error);
        outputs.at(static_cast<std::size_t>(completion.id)) = std::move(completion.output_ids);
      }
    }
    return outputs;
  }

 private:
  ThreadPool pool_{2};
  Stream stream_{pool_};
  std::unique_ptr<model::Decoder> decoder_;
};

std::map<std::string, WrittenCaption> write_captions(Model& reference) {
  TokenLog log;
  const auto outputs = reference.run(
      [&](const std::string& key, engine::Request& request) { log.watch(key, request); });
  std::map<std::string, WrittenCaption> captions;
  for (int number = 0; number < kNumRequests; ++number) {
    const WrittenCaption* const written = log.find(key_of(number));
    REQUIRE(written != nullptr);
    CHECK(written->tokens == outputs[static_cast<std::size_t>(number)]);
    CHECK(written->prompt_ids == make_request(number).prompt_ids);
    captions[key_of(number)] = *written;
  }
  CHECK(log.find("another clip") == nullptr);
  return captions;
}

TEST_SUITE("bench/logit_price") {
  TEST_CASE("models are led through the reference's tokens; itself is at distance 0") {
    Model reference(weights::WeightFormat::kF32);
    const std::map<std::string, WrittenCaption> captions = write_captions(reference);
    ForcedCaptions forced(captions, CAPTION_TEST_TMP);
    std::int64_t num_tokens = 0;
    for (const auto& [key, caption] : captions) num_tokens += std::ssize(caption.tokens);
    CHECK(forced.positions() == num_tokens);
    const auto check_tokens = [&](const std::vector<std::vector<std::int32_t>>& outputs) {
      for (int number = 0; number < kNumRequests; ++number) {
        CHECK(outputs[static_cast<std::size_t>(number)] == captions.at(key_of(number)).tokens);
      }
    };
    check_tokens(reference.run(
        [&](const std::string& key, engine::Request& request) { forced.record(key, request); }));
    const auto compare = [&](const std::string& key, engine::Request& request) {
      forced.compare(key, request);
    };
    check_tokens(reference.run(compare));
    for (const Divergence& one : forced.take_divergences()) {
      CHECK(one.kl == 0);
      CHECK(one.has_same_top);
    }
    double last = 0;
    for (const auto format : {weights::WeightFormat::kInt8, weights::WeightFormat::kInt4}) {
      Model rounded(format);
      check_tokens(rounded.run(compare));
      const LogitPrice price = summarise(forced.take_divergences());
      CHECK(price.positions == num_tokens);
      CHECK(price.mean_kl > last);
      CHECK(price.p99_kl > price.mean_kl);
      last = price.mean_kl;
    }
    CHECK_THROWS_AS(forced.take_divergences(), Error);  // nothing was compared since
  }

  TEST_CASE("another prompt, clip or vocabulary is no rounded copy of the reference") {
    Model reference(weights::WeightFormat::kF32);
    ForcedCaptions forced(write_captions(reference), CAPTION_TEST_TMP);
    reference.run(
        [&](const std::string& key, engine::Request& request) { forced.record(key, request); });
    engine::Request other = make_request(0);
    other.prompt_ids.back() += 1;
    CHECK_THROWS_WITH_AS(forced.compare(key_of(0), other), doctest::Contains("--price-base"),
                         Error);
    CHECK_THROWS_WITH_AS(forced.compare("clip 99", other), doctest::Contains("no caption"), Error);
    model::DecoderSpec wider = kShape;
    wider.vocab = 640;
    Model stranger(weights::WeightFormat::kF32, wider);
    const auto compare = [&](const std::string& key, engine::Request& request) {
      forced.compare(key, request);
    };
    CHECK_THROWS_WITH_AS(stranger.run(compare),
                         doctest::Contains("has 640 logits and the reference 320"), Error);
  }
}

}  // namespace
}  // namespace caption::bench
