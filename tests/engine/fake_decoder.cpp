#include "tests/engine/fake_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "backend/dispatch.h"
#include "base/error.h"
#include "kv/page_pool.h"
#include "sampling/loop_detector.h"
#include "sampling/sampler.h"
#include "tensor/copy.h"
#include "tests/engine/host_step.h"
#include "tests/support/search_of_logits.h"

namespace caption::engine {
namespace {

constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kHeadDim = 4;
constexpr std::int64_t kRowWidth = kKvHeads * kHeadDim;  // the bytes of a hash, one number per byte
constexpr std::uint64_t kPoison = 0xDEADBEEFCAFEF00D;

// The finaliser of MurmurHash3: any change of the input changes about half of the output bits.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCD;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53;
  x ^= x >> 33;
  return x;
}

std::uint64_t hash_token(std::int32_t token, std::int64_t position, std::int32_t poison_token) {
  if (token == poison_token) return kPoison;
  return mix(mix(static_cast<std::uint64_t>(token) + 1) + static_cast<std::uint64_t>(position));
}

std::uint64_t hash_vision(std::span<const float> row, std::int64_t position) {
  std::uint64_t hash = 77;
  for (const float x : row) hash = mix(hash + std::bit_cast<std::uint32_t>(x));
  return mix(hash + static_cast<std::uint64_t>(position));
}

// The hash that a page holds for a token in one layer; its bytes are exact in f32 and bf16.
std::uint64_t salt(std::uint64_t hash, std::int64_t layer, bool is_v) {
  return hash ^ mix(static_cast<std::uint64_t>(2 * layer + (is_v ? 1 : 0)));
}

void store(View pages, std::int32_t slot, std::uint64_t hash) {
  dispatch_float(pages.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* row = pages.as<T>() + slot * kRowWidth;
    for (std::int64_t i = 0; i < kRowWidth; ++i) {
      row[i] = from_float<T>(static_cast<float>(hash >> (8 * i) & 0xFF));
    }
  });
}

std::uint64_t load(ConstView pages, std::int64_t slot) {
  std::uint64_t hash = 0;
  dispatch_float(pages.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* row = pages.as<T>() + slot * kRowWidth;
    for (std::int64_t i = 0; i < kRowWidth; ++i) {
      const float byte = to_float(row[i]);
      // Memory that was never written may hold any value.
      const bool is_byte = byte >= 0 && byte <= 255;
      hash |= (is_byte ? static_cast<std::uint64_t>(byte) : 0) << (8 * i);
    }
  });
  return hash;
}

std::uint64_t extend_context(std::uint64_t context, std::uint64_t token_hash) {
  if (context == kPoison || token_hash == kPoison) return kPoison;
  return mix(context * 31 + token_hash);
}

bool computes(const testing::BatchArrays& batch, std::size_t layer) {
  return batch.layers.empty() ||
         std::count(batch.layers.begin(), batch.layers.end(), static_cast<std::int32_t>(layer)) > 0;
}

void fill_logits(std::uint64_t context, std::span<float> logits) {
  for (std::size_t id = 0; id < logits.size(); ++id) {
    logits[id] = static_cast<float>(mix(context + id) >> 40) * 0x1p-21F - 4.0F;  // [-4, 4)
  }
  if (context == kPoison) logits[5] = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

FakeDecoder::FakeDecoder(std::int64_t max_positions, std::vector<std::int64_t> windows,
                         std::int64_t num_layers)
    : spec_{.num_layers = num_layers,
            .hidden = kFakeHidden,
            .num_heads = kKvHeads,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .vocab = kFakeVocab,
            .max_positions = max_positions,
            .windows = std::move(windows)} {}

std::int64_t FakeDecoder::step_weight_bytes(std::span<const std::int32_t> layers) const {
  return 1 + std::ssize(layers);
}

void FakeDecoder::reserve(std::int64_t, std::int64_t) {}

void FakeDecoder::forward(Stream& stream, const model::StepBatch& batch, const model::KvPages& kv,
                          View logits) {
  if (stream.device() == Device::kCuda) {
    testing::HostStep step(stream, batch, kv, logits);
    compute(testing::BatchArrays(step.batch()), step.kv(), step.logits());
    step.upload(stream, kv, logits);
    return;
  }
  dispatch(stream.device(), [&](Cpu) { compute(testing::BatchArrays(batch), kv, logits); });
}

void FakeDecoder::compute(const testing::BatchArrays& batch, const model::KvPages& kv,
                          View logits) {
  if (on_forward) on_forward(batch);
  const auto num_tokens = std::ssize(batch.tokens);
  const auto num_sequences = std::ssize(batch.context_lens);
  CAPTION_CHECK(std::ssize(batch.positions) == num_tokens && std::ssize(batch.slots) == num_tokens,
                "fake decoder: arrays of different lengths");
  CAPTION_CHECK(std::ssize(batch.cu_seqlens) == num_sequences + 1 && batch.cu_seqlens[0] == 0 &&
                    batch.cu_seqlens.back() == num_tokens,
                "fake decoder: cu_seqlens");
  CAPTION_CHECK(std::ssize(batch.block_tables) == num_sequences * batch.max_pages,
                "fake decoder: block tables");
  CAPTION_CHECK((logits.shape() == Shape{std::ssize(batch.logit_rows), kFakeVocab}),
                "fake decoder: logits");
  write_tokens(batch, kv);
  for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
    write_logits(batch, kv, batch.logit_rows[i],
                 {logits.as<float>() + static_cast<std::int64_t>(i) * kFakeVocab, kFakeVocab});
  }
}

void FakeDecoder::write_tokens(const testing::BatchArrays& batch, const model::KvPages& kv) {
  std::size_t vision_row = 0;
  std::size_t piece = 0;
  std::int64_t row_in_piece = 0;
  for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
    std::uint64_t hash = hash_token(batch.tokens[t], batch.positions[t], poison_token);
    if (vision_row < batch.vision_rows.size() &&
        batch.vision_rows[vision_row] == static_cast<std::int32_t>(t)) {
      const ConstView& rows = batch.vision.at(piece);
      const float* row = rows.as<float>() + row_in_piece * rows.row_stride();
      hash = hash_vision({row, kFakeHidden}, batch.positions[t]);
      ++vision_row;
      if (++row_in_piece == rows.dim(0)) {
        ++piece;
        row_in_piece = 0;
      }
    }
    for (std::size_t layer = 0; layer < kv.k.size(); ++layer) {
      if (!computes(batch, layer)) continue;
      const auto number = static_cast<std::int64_t>(layer);
      store(kv.k[layer], batch.slots[t], salt(hash, number, false));
      store(kv.v[layer], batch.slots[t], salt(hash, number, true));
    }
  }
  CAPTION_CHECK(vision_row == batch.vision_rows.size() && piece == batch.vision.size(),
                "fake decoder: vision rows and pieces do not match");
}

void FakeDecoder::write_logits(const testing::BatchArrays& batch, const model::KvPages& kv,
                               std::int64_t row, std::span<float> logits) const {
  std::size_t s = 0;
  while (batch.cu_seqlens[s + 1] <= row) ++s;
  const std::int64_t position = batch.positions[static_cast<std::size_t>(row)];
  CAPTION_CHECK(position < batch.context_lens[s], "fake decoder: a position beyond the context");
  std::uint64_t context = 0;
  const std::int64_t window = spec_.window_of_all_layers();
  const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(position - window + 1, 0);
  for (std::int64_t p = first; p <= position; ++p) {
    const std::int64_t entry = static_cast<std::int64_t>(s) * batch.max_pages + p / kv.page_tokens;
    const std::int64_t page = batch.block_tables[static_cast<std::size_t>(entry)];
    CAPTION_CHECK(page >= 0, "fake decoder: an unused page is read");
    const std::int64_t slot = page * kv.page_tokens + p % kv.page_tokens;
    const std::uint64_t hash = salt(load(kv.k[0], slot), 0, false);
    for (std::size_t layer = 0; layer < kv.k.size(); ++layer) {
      if (!computes(batch, layer)) continue;
      const auto number = static_cast<std::int64_t>(layer);
      CAPTION_CHECK(salt(load(kv.k[layer], slot), number, false) == hash &&
                        salt(load(kv.v[layer], slot), number, true) == hash,
                    "fake decoder: layers, or K and V, hold different tokens");
    }
    context = extend_context(context, hash);
  }
  for (std::size_t layer = 0; layer < kv.k.size(); ++layer) {
    if (computes(batch, layer)) continue;
    if (mix(context + layer) % 100 < percent_changed.at(layer)) context = mix(context);
  }
  fill_logits(context, logits);
}

namespace {

// The vision token with this index, among those of all pieces.
std::span<const float> vision_token(const Request& request, std::int64_t index) {
  const auto row = [](const Tensor& piece, std::int64_t at) {
    return std::span<const float>(piece.as<float>() + at * kFakeHidden, kFakeHidden);
  };
  for (const SharedVision& shared : request.leading_vision) {
    if (index < shared.tokens->dim(0)) return row(*shared.tokens, index);
    index -= shared.tokens->dim(0);
  }
  return row(*request.vision, index);
}

// The hashes of a prompt's tokens.
std::vector<std::uint64_t> prompt_hashes(const Request& request, std::int32_t poison_token) {
  std::vector<std::uint64_t> hashes;
  std::size_t next_vision = 0;
  const auto next_token = [&] {
    return vision_token(request, static_cast<std::int64_t>(next_vision++));
  };
  for (std::size_t p = 0; p < request.prompt_ids.size(); ++p) {
    const auto position = static_cast<std::int64_t>(p);
    const bool is_vision = next_vision < request.vision_positions.size() &&
                           request.vision_positions[next_vision] == position;
    const std::uint64_t hash = is_vision
                                   ? hash_vision(next_token(), position)
                                   : hash_token(request.prompt_ids[p], position, poison_token);
    hashes.push_back(hash);
  }
  return hashes;
}

// What the token after these sees.
std::uint64_t context_of(std::span<const std::uint64_t> hashes, std::int64_t window) {
  const auto most = static_cast<std::size_t>(window);
  if (window > 0 && hashes.size() > most) hashes = hashes.last(most);
  std::uint64_t context = 0;
  for (const std::uint64_t hash : hashes) context = extend_context(context, hash);
  return context;
}

std::vector<std::int32_t> expected_beams(const Request& request, std::int32_t poison_token,
                                         std::int64_t window) {
  sampling::BeamScorer scorer(kFakeVocab);
  testing::SearchOfLogits search(request.sampling, request.prompt_ids);
  std::vector<std::vector<std::uint64_t>> beams = {prompt_hashes(request, poison_token)};
  auto position = std::ssize(request.prompt_ids);
  while (true) {
    std::vector<float> logits(beams.size() * kFakeVocab);
    for (std::size_t i = 0; i < beams.size(); ++i) {
      fill_logits(context_of(beams[i], window),
                  std::span(logits).subspan(i * kFakeVocab, kFakeVocab));
    }
    const sampling::BeamSearch::Step next = search.advance(scorer, logits);
    if (search.is_finished()) break;
    std::vector<std::vector<std::uint64_t>> extended;
    for (std::size_t i = 0; i < next.parents.size(); ++i) {
      extended.push_back(beams[static_cast<std::size_t>(next.parents[i])]);
      extended.back().push_back(hash_token(next.tokens[i], position, poison_token));
    }
    beams = std::move(extended);
    ++position;
  }
  const auto ids = search.best().output_ids;
  return {ids.begin(), ids.end()};
}

}  // namespace

std::vector<std::int32_t> expected_output(const Request& request, std::int32_t poison_token,
                                          std::int64_t window) {
  if (request.sampling.num_beams > 1) return expected_beams(request, poison_token, window);
  sampling::Sampler sampler(kFakeVocab);
  sampling::LoopDetector loop;
  std::vector<std::int32_t> ids = request.prompt_ids;
  const auto num_prompt = std::ssize(ids);
  std::vector<std::uint64_t> hashes = prompt_hashes(request, poison_token);
  const auto& stop_ids = request.sampling.stop_ids;
  std::vector<float> logits(kFakeVocab);
  while (true) {
    fill_logits(context_of(hashes, window), logits);
    ids.push_back(sampler.sample(request.sampling, {ids, num_prompt}, logits));
    const auto output =
        std::span<const std::int32_t>(ids).subspan(static_cast<std::size_t>(num_prompt));
    loop.observe(output);
    if (std::find(stop_ids.begin(), stop_ids.end(), ids.back()) != stop_ids.end() ||
        loop.period() != 0 || std::ssize(output) == request.sampling.max_new_tokens) {
      return {output.begin(), output.end()};
    }
    hashes.push_back(hash_token(ids.back(), std::ssize(ids) - 1, poison_token));
  }
}

RequestId TestedEngine::submit(Request request) {
  const bool may_process = request.sampling.num_beams == 1 && !request.process_logits;
  if (stream_.device() == Device::kCuda && may_process) {
    request.process_logits = [](std::span<float>) {};
  }
  return submit_as_is(std::move(request));
}

RequestId TestedEngine::submit_as_is(Request request) {
  if (request.vision != nullptr && request.vision->device() != stream_.device()) {
    request.vision =
        std::make_shared<const Tensor>(copy_to(stream_, stream_.device(), request.vision->view()));
  }
  for (SharedVision& shared : request.leading_vision) {
    if (shared.tokens->device() == stream_.device()) continue;
    shared.tokens =
        std::make_shared<const Tensor>(copy_to(stream_, stream_.device(), shared.tokens->view()));
  }
  return Engine::submit(std::move(request));
}

std::vector<Completion> run_until_idle(Engine& engine) {
  std::vector<Completion> completions;
  for (int step = 0; !engine.idle(); ++step) {
    CAPTION_CHECK(step < 1'000'000, "the engine does not come to an end");
    for (Completion& completion : engine.step()) completions.push_back(std::move(completion));
  }
  return completions;
}

EngineOptions options_with_pages(std::int64_t num_pages, DType dtype, std::int64_t num_layers) {
  EngineOptions options;
  options.kv_dtype = dtype;
  options.kv_cache_bytes = num_pages * 2 * num_layers * kv::kPageTokens * kRowWidth *
                           static_cast<std::int64_t>(dtype_size_bytes(dtype));
  return options;
}

namespace {

// Beams share only the pages of the prompt, so short outputs let them fit the smallest pools.
constexpr std::int32_t kMostBeams = 4;
constexpr std::int32_t kMostBeamTokens = 20;

void choose_sampling(std::mt19937_64& rng, std::int64_t most_new_tokens, Request& request) {
  const auto uniform = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(bound));
  };
  sampling::SamplingParams& params = request.sampling;
  params.max_new_tokens =
      static_cast<std::int32_t>(1 + uniform(std::min<std::int64_t>(most_new_tokens, 90)));
  params.stop_ids = {3, 9};
  params.seed = rng();
  if (uniform(6) == 0) {
    params.num_beams = static_cast<std::int32_t>(2 + uniform(kMostBeams - 1));
    params.max_new_tokens = std::min(params.max_new_tokens, kMostBeamTokens);
    if (testing::tested_context().device == Device::kCuda) params.num_beams = 1;
    params.length_penalty = 1.2;
    params.early_stopping =
        uniform(2) == 0 ? sampling::EarlyStopping::kYes : sampling::EarlyStopping::kNo;
  } else if (uniform(2) == 0) {
    params.temperature = 0.8;
  }
  if (uniform(2) == 0) params.repetition_penalty = 1.2;
  if (uniform(2) == 0) params.no_repeat_ngram_size = 2;
  if (uniform(2) == 0) params.top_p = 0.9;
  if (uniform(2) == 0) params.min_new_tokens = std::min(12, params.max_new_tokens);
  request.priority = static_cast<std::int32_t>(uniform(4));
}

// Gives the request these vision tokens, the first `num_leading` of them as a piece of its own.
void set_vision(const Tensor& vision, std::int64_t num_leading, Request& request) {
  const std::int64_t num_rows = vision.dim(0);
  const auto copy_rows = [&](std::int64_t first, std::int64_t count) {
    Tensor rows(DType::kF32, Shape{count, kFakeHidden});
    std::copy_n(vision.as<float>() + first * kFakeHidden, count * kFakeHidden, rows.as<float>());
    return std::make_shared<const Tensor>(std::move(rows));
  };
  if (num_leading > 0) {
    request.leading_vision.push_back({.tokens = copy_rows(0, num_leading), .content = {}});
    const std::span numbers(vision.as<float>(),
                            static_cast<std::size_t>(num_leading * kFakeHidden));
    request.leading_vision.back().content = hash_bytes(std::as_bytes(numbers));
  }
  if (num_leading < num_rows) request.vision = copy_rows(num_leading, num_rows - num_leading);
}

}  // namespace

Request random_request(std::uint64_t seed, std::int64_t max_tokens) {
  std::mt19937_64 rng(seed);
  const auto uniform = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(bound));
  };
  Request request;
  const std::int64_t num_prompt = 1 + uniform(std::min<std::int64_t>(max_tokens - 1, 80));
  for (std::int64_t i = 0; i < num_prompt; ++i) {
    request.prompt_ids.push_back(static_cast<std::int32_t>(uniform(kFakeVocab)));
  }
  if (uniform(3) != 0) {  // two ranges of vision tokens, as with two clips
    const std::int64_t begin = uniform(num_prompt);
    const std::int64_t gap = begin + uniform(num_prompt - begin);
    const std::int64_t end = gap + uniform(num_prompt - gap);
    for (std::int64_t p = begin; p <= end; ++p) {
      if (p == gap) continue;
      request.vision_positions.push_back(static_cast<std::int32_t>(p));
      request.prompt_ids[static_cast<std::size_t>(p)] = 32000;  // a placeholder beyond the head
    }
    const auto num_vision = static_cast<std::int64_t>(request.vision_positions.size());
    Tensor vision(DType::kF32, Shape{num_vision, kFakeHidden});
    for (std::int64_t i = 0; i < num_vision * kFakeHidden; ++i) {
      vision.as<float>()[i] = static_cast<float>(uniform(1 << 20));
    }
    // Split anywhere, without a random number.
    if (num_vision > 0) {
      set_vision(vision, static_cast<std::int64_t>(*vision.as<float>()) % (num_vision + 1),
                 request);
    }
  }
  choose_sampling(rng, max_tokens - num_prompt, request);
  return request;
}

Request family_request(std::uint64_t family, std::uint64_t seed, std::int64_t max_tokens) {
  constexpr std::int64_t kNumVision = 40;
  std::mt19937_64 of_family(family);
  std::mt19937_64 rng(seed);
  Request request;
  for (int i = 0; i < 5; ++i)
    request.prompt_ids.push_back(static_cast<std::int32_t>(of_family() % 50));
  Tensor vision(DType::kF32, Shape{kNumVision, kFakeHidden});
  for (std::int64_t i = 0; i < kNumVision * kFakeHidden; ++i) {
    vision.as<float>()[i] = static_cast<float>(of_family() % (1 << 20));
  }
  for (std::int32_t i = 0; i < kNumVision; ++i) {
    request.vision_positions.push_back(5 + i);
    request.prompt_ids.push_back(32000);
  }
  request.vision = std::make_shared<const Tensor>(std::move(vision));
  for (auto count = rng() % 20; count > 0; --count) {
    request.prompt_ids.push_back(static_cast<std::int32_t>(rng() % kFakeVocab));
  }
  choose_sampling(rng, max_tokens - std::ssize(request.prompt_ids), request);
  return request;
}

}  // namespace caption::engine
