// The projectors of composed models compared with PyTorch in float32 (scripts/
// make_goldens_projectors.py), and what is refused of them.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/read_blueprint.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::Activation;
using model::ComposedSource;
using model::ProjectorKind;
using weights::WeightFormat;

// A golden case and what a preset says besides the paths.
struct Case {
  const char* name;
  std::vector<std::int64_t> layers = {-1};
  std::int64_t stride = 1;
  model::ProjectorOptions options = {};
  std::vector<std::string> tensor_names = {};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {.name = "mlp_layers",
       .layers = {-2, 1, -2},
       .options = {.activation = Activation::kRelu},
       .tensor_names = {"projector:module.mm_projector.="}},
      {.name = "perceiver_clip", .layers = {-2}, .options = {.head_dim = 8}},
      {.name = "perceiver_siglip", .stride = 2},
      {.name = "idefics2_siglip", .layers = {1}, .options = {.head_dim = 12}},
      {.name = "idefics2_clip"},
      {.name = "c_abstractor_clip", .layers = {-2}, .options = {.tokens = 9}},
      {.name = "c_abstractor_siglip", .options = {.tokens = 4}},
      {.name = "c_abstractor_layers", .layers = {-1, 0}, .stride = 2, .options = {.tokens = 9}},
  };
  return kCases;
}

Case case_of(std::string_view name) {
  for (const Case& c : cases()) {
    if (c.name == name) return c;
  }
  throw Error(ErrorCode::kInternal, "no such case");
}

fs::path golden_of(const Case& c) {
  return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/projectors" / c.name;
}

ComposedSource source_of(const Case& c, const DrawnCheckpoint& parts) {
  ComposedSource source;
  source.vision = parts.path() / "vision";
  source.projector = parts.path() / "projector.safetensors";
  source.llm = parts.path() / "llm";
  source.vision_feature_layers = c.layers;
  source.pool_stride = c.stride;
  source.prompt = "{video}{prompt}";
  source.projector_options = c.options;
  source.tensor_names = c.tensor_names;
  return source;
}

std::unique_ptr<model::CaptionModel> open(const ComposedSource& source,
                                          WeightFormat format = WeightFormat::kF32) {
  return model::open_composed(tested_context(), source, format);
}

// Checks that a plan's scratch memory is what two passes leave behind.
void check_scratch(const ComposedSource& source, const model::VisionSpec& vision) {
  if (tested_context().device != Device::kCpu) return;  // a plan is for the host
  constexpr std::int64_t kFrames = 2;
  const model::ClipShape shape = {.num_frames = kFrames};
  Tensor pixels(DType::kF32, {kFrames, 3, vision.image_px, vision.image_px});
  for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
    pixels.as<float>()[i] = static_cast<float>(i * 7919 % 509 - 254) / 128;
  }
  const std::int64_t per_pass = model::images_per_pass(vision, model::tower_tokens(vision, shape));
  const std::vector<ConstView> clips(static_cast<std::size_t>(per_pass / kFrames + 1),
                                     std::as_const(pixels).view());
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
    const auto model = open(source, format);
    for (int pass = 0; pass < 2; ++pass) {
      model->encode_clips(stream, clips);
      CHECK(model->vision_scratch_bytes() ==
            model::encoder_scratch_bytes(tested_context(), vision, shape, format));
    }
  }
}

TEST_SUITE("model/projectors") {
  TEST_CASE("pixels, features, logits and 64 greedy tokens are the reference's") {
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const DrawnCheckpoint parts(golden_of(c));
      check_golden_clips(*open(source_of(c, parts)), golden_of(c));
    }
  }

  TEST_CASE("a plan counts bytes and tokens of every projector as they are") {
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const DrawnCheckpoint parts(golden_of(c));
      const ComposedSource source = source_of(c, parts);
      const model::Blueprint blueprint = model::compose_blueprint(
          model::read_blueprint(source.vision), model::read_blueprint(source.llm), source);
      for (const WeightFormat format :
           {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kNf4, WeightFormat::kW8A8}) {
        const auto model = open(source, format);
        CHECK(model->weight_bytes() == model::placed_bytes(tested_context(), blueprint, format));
        CHECK(model->vision_tokens({.num_frames = 5}) ==
              model::num_vision_tokens(blueprint.vision.value(), {.num_frames = 5}));
      }
      check_scratch(source, *blueprint.vision);
    }
  }

  TEST_CASE("frames have the same bits one by one and together") {
    for (const char* const name : {"perceiver_clip", "idefics2_siglip", "c_abstractor_clip"}) {
      CAPTURE(std::string(name));
      const Case c = case_of(name);
      const DrawnCheckpoint parts(golden_of(c));
      const auto model = open(source_of(c, parts));
      ThreadPool one(1), three(3);
      Stream alone(tested_context(), one), together(tested_context(), three);
      const std::int64_t edge = model::read_blueprint(parts.path() / "vision").vision->image_px;
      Tensor pixels(DType::kF32, {3, 3, edge, edge});
      for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
        pixels.as<float>()[i] = static_cast<float>(i * 7919 % 509 - 254) / 128;
      }
      const Tensor all = to_host(together, model->encode_frames(together, pixels.view()).view());
      const std::int64_t rows = model->vision_tokens({.num_frames = 1});
      for (std::int64_t frame = 0; frame < 3; ++frame) {
        const Tensor found =
            to_host(alone, model->encode_frames(alone, pixels.view().rows(frame, 1)).view());
        CHECK(std::memcmp(found.as<float>(), all.as<float>() + frame * rows * all.dim(1),
                          found.size_bytes()) == 0);
      }
    }
  }

  TEST_CASE("a projector may be named, and then must be what it is called") {
    const Case c = case_of("perceiver_siglip");
    const DrawnCheckpoint parts(golden_of(c));
    ComposedSource source = source_of(c, parts);
    source.projector_options.kind = ProjectorKind::kPerceiverResampler;
    CHECK(open(source)->vision_tokens({.num_frames = 2}) == 10);
    source.projector_options.kind = ProjectorKind::kCAbstractor;
    check_refused(source, ErrorCode::kBadModel, {"projector_type is c_abstractor", "b1.conv1"});
    source.projector_options.kind = ProjectorKind::kMlp;
    check_refused(source, ErrorCode::kUnavailable, {"belongs to no linear layer"});
  }

  TEST_CASE("a projector that does not fit is refused in one sentence") {
    SUBCASE("heads of another width") {
      const Case c = case_of("perceiver_clip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      source.projector_options.head_dim = 0;
      check_refused(source, ErrorCode::kBadModel, {"heads of 64", "model.projector_head_dim"});
    }
    SUBCASE("no layer to the language model's width") {
      const Case c = case_of("perceiver_clip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      replace_in_file(source.projector, "\"proj_out.weight\"", "\"proj_oux.weight\"");
      check_refused(source, ErrorCode::kBadModel, {"36 numbers", "48", "no proj_out.weight"});
    }
    SUBCASE("a layer less than the norms say") {
      const Case c = case_of("idefics2_siglip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      replace_in_file(source.projector, "layers.1.self_attn.q_proj", "layers.1.self_attn.q_prox");
      check_refused(source, ErrorCode::kBadModel,
                    {"projector.safetensors", "that the configuration does not describe",
                     "perceiver_resampler.layers.1.", ", ...",
                     "take both from one folder, or save the weights again without these tensors"});
    }
    SUBCASE("tokens that are no square") {
      const Case c = case_of("c_abstractor_clip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      source.projector_options.tokens = 10;
      check_refused(source, ErrorCode::kBadPreset, {"model.projector_tokens is 10"});
    }
    SUBCASE("positions of another grid") {
      const Case c = case_of("c_abstractor_clip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      source.pool_stride = 2;
      check_refused(source, ErrorCode::kBadModel, {"pos_emb", "4 patches"});
    }
    SUBCASE("batch norms") {
      const Case c = case_of("c_abstractor_siglip");
      const DrawnCheckpoint parts(golden_of(c));
      ComposedSource source = source_of(c, parts);
      source.tensor_names = {
          "abstractor.net.0.b2.conv1.bn.bias=abstractor.net.0.b2.conv1.bn.running_mean"};
      check_refused(source, ErrorCode::kUnavailable,
                    {"net.0.b2.conv1.bn.running_mean", "not batch norms"});
    }
  }

  TEST_CASE("options that the projector does not read are refused by name") {
    struct Unread {
      const char* name;
      model::ProjectorOptions options;
      std::vector<const char*> message;
    };
    const std::vector<Unread> kUnread = {
        {"mlp_layers", {.tokens = 64}, {"model.projector_tokens", "only c_abstractor reads it"}},
        {"mlp_layers",
         {.head_dim = 64},
         {"model.projector_head_dim", "only perceiver_resampler reads it"}},
        {"perceiver_clip", {.tokens = 64, .head_dim = 8}, {"model.projector_tokens"}},
        {"idefics2_clip", {.tokens = 64}, {"model.projector_tokens"}},
        {"c_abstractor_clip", {.tokens = 9, .head_dim = 8}, {"model.projector_head_dim"}},
        {"c_abstractor_siglip",
         {.activation = Activation::kRelu, .tokens = 4},
         {"model.projector_hidden_act", "one linear layer"}},
    };
    for (const Unread& c : kUnread) {
      CAPTURE(std::string(c.name));
      const Case golden = case_of(c.name);
      const DrawnCheckpoint parts(golden_of(golden));
      ComposedSource source = source_of(golden, parts);
      source.projector_options = c.options;
      for (const char* const part : c.message) {
        check_refused(source, ErrorCode::kBadPreset, {"projector.safetensors", part});
      }
    }
  }

  TEST_CASE("names of tensors are mapped, and a map that fits nothing is refused") {
    const Case c = case_of("mlp_layers");
    const DrawnCheckpoint parts(golden_of(c));
    ComposedSource source = source_of(c, parts);
    const auto refused = [&](std::vector<std::string> names, ErrorCode code,
                             std::initializer_list<const char*> message) {
      source.tensor_names = std::move(names);
      check_refused(source, code, message);
    };
    // Any names are linear layers, so this map is not needed; towers and language models need one.
    source.tensor_names = {};
    check_golden_clips(*open(source), golden_of(c));
    replace_in_file(source.vision / "model.safetensors", "\"vision_model.", "\"vvsion_model.");
    replace_in_file(source.llm / "model.safetensors", "\"model.", "\"mxdel.");
    refused({}, ErrorCode::kBadModel, {"looked for vision_model."});
    source.tensor_names = {"vision:vvsion_model.=vision_model.", "llm:mxdel.=model.",
                           "module.mm_projector.="};
    check_golden_clips(*open(source), golden_of(c));
    refused({"vision:vvsion_model.=vision_model.", "mxdel.=model.", "module.mm_projectr.=x."},
            ErrorCode::kBadModel,
            {"\"module.mm_projectr.=x.\"", "begins so", "did you mean module.mm_projector."});
    refused({"vision:vvsion_model.=vision_modl.", "mxdel.=model."}, ErrorCode::kBadModel,
            {"is missing (looked for vision_model."});
    refused({"vision:vvsion_model.encoder.layers.0.=vision_model.encoder.layers.1.",
             "vision:vvsion_model.=vision_model."},
            ErrorCode::kBadModel, {"would both be called"});
    refused({"tower:a=b"}, ErrorCode::kBadPreset, {"a part other than"});
    refused({"a.b"}, ErrorCode::kBadPreset, {"does not have one ="});
    refused({"a=a"}, ErrorCode::kBadPreset, {"changes nothing"});
  }

  TEST_CASE("tensors that no parameter takes are refused, but for those that are known") {
    const Case c = case_of("idefics2_clip");
    const DrawnCheckpoint parts(golden_of(c));
    const ComposedSource source = source_of(c, parts);
    SUBCASE("of the tower: a layer that the configuration does not have") {
      replace_in_file(source.vision / "config.json", "\"num_hidden_layers\": 3",
                      "\"num_hidden_layers\": 2");
      check_refused(source, ErrorCode::kBadModel,
                    {"vision", "holds 16 tensors", "encoder.layers.2.layer_norm1.bias", ", ..."});
    }
    SUBCASE("of the tower: layers above the one that is taken") {
      ComposedSource lower = source;
      lower.vision_feature_layers = {1};
      CHECK(open(lower)->vision_tokens({.num_frames = 1}) == 3);
    }
    SUBCASE("of the language model: biases") {
      // Llama's attention has none, unless its configuration says so.
      replace_in_file(source.llm / "model.safetensors", "\"model.norm.weight\"",
                      "\"model.norm.weighx\"");
      check_refused(source, ErrorCode::kBadModel, {"model.norm.weight"});
    }
  }
}

}  // namespace
}  // namespace caption
