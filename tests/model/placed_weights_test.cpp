// Compares the bytes that a blueprint predicts with those that its placed weights hold.
#include "model/internal/placed_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/read_blueprint.h"
#include "model/vit_blueprint.h"
#include "plan/known_models.h"
#include "tests/model/support.h"
#include "weights/random_source.h"

namespace caption {
namespace {

using namespace testing;
using model::Blueprint;
using model::Parameter;
using weights::WeightFormat;

constexpr WeightFormat kMadeAtLoad[] = {
    WeightFormat::kF32,  WeightFormat::kBF16,      WeightFormat::kInt8,
    WeightFormat::kInt4, WeightFormat::kNf4,       WeightFormat::kW8A8,
    WeightFormat::kW4A8, WeightFormat::kInt4Head4, WeightFormat::kW4A8Head4};

// Reduces large dimensions to sizes for which panels need padding, and keeps one parameter of each
// kind, which is its group, role and shape.
Blueprint shrink(Blueprint blueprint) {
  std::vector<Parameter> kept;
  for (Parameter& parameter : blueprint.parameters) {
    std::vector<std::int64_t> extents;
    for (int i = 0; i < parameter.shape.rank(); ++i) {
      const std::int64_t extent = parameter.shape[i];
      extents.push_back(extent > 64 ? extent / 32 + 1 : extent);
    }
    if (extents.size() == 1) parameter.shape = {extents[0]};
    if (extents.size() == 2) parameter.shape = {extents[0], extents[1]};
    if (extents.size() == 3) parameter.shape = {extents[0], extents[1], extents[2]};
    if (extents.size() == 4) parameter.shape = {extents[0], extents[1], extents[2], extents[3]};
    if (extents.size() == 5) {
      parameter.shape = {extents[0], extents[1], extents[2], extents[3], extents[4]};
    }
    const bool is_known = std::any_of(kept.begin(), kept.end(), [&](const Parameter& other) {
      return other.group == parameter.group && other.role == parameter.role &&
             other.shape == parameter.shape;
    });
    if (!is_known) kept.push_back(std::move(parameter));
  }
  blueprint.parameters = std::move(kept);
  return blueprint;
}

std::int64_t placed_size(const Blueprint& blueprint, WeightFormat format) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(std::make_unique<weights::RandomSource>(pool, model::new_tensors(blueprint),
                                                            blueprint.groups.front().stored, 3));
  return model::PlacedWeights(stream, blueprint, std::move(sources), format).size_bytes();
}

TEST_SUITE("model/placed_weights") {
  TEST_CASE("every known model is held in the bytes that are planned for it") {
    for (const std::string& name : plan::known_model_names()) {
      CAPTURE(name);
      const Blueprint blueprint = shrink(plan::find_known_model(name).value());
      REQUIRE(blueprint.parameters.size() > 3);
      for (const WeightFormat format : kMadeAtLoad) {
        CAPTURE(weights::describe(format));
        CHECK(model::placed_bytes(tested_context(), blueprint, format) ==
              placed_size(blueprint, format));
      }
    }
  }

  TEST_CASE("random numbers of a large vector are made by the threads that place it") {
    Blueprint blueprint = shrink(plan::find_known_model("qwen3-vl-2b").value());
    const auto vector = std::find_if(
        blueprint.parameters.begin(), blueprint.parameters.end(),
        [](const Parameter& parameter) { return parameter.role == model::Role::kVector; });
    REQUIRE(vector != blueprint.parameters.end());
    vector->shape = {257, 1024};  // several of the ranges that RandomSource fills on threads
    CHECK(model::placed_bytes(tested_context(), blueprint, WeightFormat::kBF16) ==
          placed_size(blueprint, WeightFormat::kBF16));
  }

  TEST_CASE("tensors that no parameter takes are refused, but for those that are known") {
    Blueprint blueprint = model::clip_tower_blueprint({.num_layers = 1,
                                                       .unused_layers = 2,
                                                       .hidden = 8,
                                                       .intermediate = 8,
                                                       .num_heads = 2,
                                                       .patch_px = 2,
                                                       .image_px = 4,
                                                       .num_positions = 5});
    model::add_decoder(blueprint,
                       {.num_layers = 1,
                        .hidden = 8,
                        .intermediate = 8,
                        .num_heads = 2,
                        .num_kv_heads = 1,
                        .head_dim = 4,
                        .vocab = 9,
                        .tied_embeddings = true},
                       {""}, {""});
    const auto place_with = [&](const std::vector<std::string>& more) {
      ThreadPool pool(1);
      Stream stream(tested_context(), pool);
      std::vector<weights::NewTensor> tensors = model::new_tensors(blueprint);
      for (const std::string& name : more) tensors.push_back({name, {9, 8}});
      std::vector<std::unique_ptr<weights::Source>> sources;
      sources.push_back(
          std::make_unique<weights::RandomSource>(pool, std::move(tensors), DType::kF32, 1));
      model::PlacedWeights(stream, blueprint, std::move(sources), WeightFormat::kF32);
    };
    CHECK_NOTHROW(place_with({}));
    CHECK_NOTHROW(place_with({"embeddings.position_ids", "layers.0.self_attn.rotary_emb.inv_freq",
                              "post_layernorm.weight", "head.mlp.fc1.weight",
                              "encoder.layers.1.mlp.fc1.weight", "encoder.layers.2.mlp.fc1.weight",
                              "lm_head.weight"}));
    for (const char* const name :
         {"encoder.layers.3.mlp.fc1.weight", "encoder.layers.0.mlp.fc3.weight",
          "layers.0.self_attn.q_proj.bias", "layers.1.mlp.up_proj.weight", "lm_head.bias",
          "multi_modal_projector.linear_1.weight", "deepstack_merger_list.0.norm.weight"}) {
      CAPTURE(std::string(name));
      CHECK_THROWS_WITH_AS(place_with({name, "post_layernorm.bias"}),
                           doctest::Contains((std::string("random weights: holds 1 tensor that the "
                                                          "configuration does not describe: ") +
                                              name + ";")
                                                 .c_str()),
                           Error);
    }
    CHECK_THROWS_WITH_AS(place_with({"a", "d", "c", "b"}),
                         doctest::Contains("4 tensors that the configuration does not describe: "
                                           "a, b, c, ...;"),
                         Error);
  }

  TEST_CASE("so is every checkpoint") {
    for (const char* name : {"llama_bf16", "qwen3_shards", "llama_old"}) {
      CAPTURE(name);
      const Blueprint blueprint = model::read_blueprint(golden_folder() / name);
      for (const WeightFormat format : kMadeAtLoad) {
        CAPTURE(weights::describe(format));
        CHECK(model::placed_bytes(tested_context(), blueprint, format) ==
              open_case(name, format)->weight_bytes());
      }
    }
  }

  TEST_CASE("so is a composed model") {
    const model::ComposedSource source = composed_source();
    const Blueprint blueprint = model::compose_blueprint(model::read_blueprint(source.vision),
                                                         model::read_blueprint(source.llm), source);
    for (const WeightFormat format : kMadeAtLoad) {
      CAPTURE(weights::describe(format));
      CHECK(model::placed_bytes(tested_context(), blueprint, format) ==
            model::open_composed(testing::tested_context(), source, format)->weight_bytes());
    }
  }

  TEST_CASE("a tensor that is missing is named with all places where it was looked for") {
    const Blueprint blueprint = plan::find_known_model("demo").value();
    ThreadPool pool(1);
    Stream stream(tested_context(), pool);
    std::vector<std::unique_ptr<weights::Source>> sources;
    sources.push_back(std::make_unique<weights::RandomSource>(pool, model::new_tensors(blueprint),
                                                              DType::kBF16, 3));
    Blueprint other = blueprint;
    other.parameters.front().name = "absent.weight";
    other.groups.front().prefixes = {"a.", "b."};
    CHECK_THROWS_WITH_AS(
        model::PlacedWeights(stream, other, std::move(sources), WeightFormat::kBF16),
        doctest::Contains("tensor absent.weight is missing (looked for "
                          "a.absent.weight, b.absent.weight)"),
        Error);
  }
}

}  // namespace
}  // namespace caption
