#include "tests/model/captioner_golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "kernels/grid_patches.h"
#include "model/read_blueprint.h"
#include "tests/model/support.h"

namespace caption::testing {
namespace {

// Bound of the differences of f32 features, and of logits where the golden gives no other.
constexpr double kTolerance = 1e-4;
constexpr std::size_t kTokensOnEmulator = 8;  // greedy tokens, of which each takes up to 0.1 s

std::vector<std::int32_t> ids_of(const JsonObject& object, std::string_view key) {
  const std::vector<std::int64_t> ids = object.get_ints(key);
  return {ids.begin(), ids.end()};
}

// The largest difference to a sample of every n-th element.
double sample_difference(const float* found, std::int64_t size, const JsonObject& sample) {
  const std::vector<double> values = sample.get_doubles("values");
  const std::int64_t stride = sample.require_int("stride", 1, 1 << 20);
  CHECK(sample.require_int("size", 1, 1 << 24) == size);
  REQUIRE((size + stride - 1) / stride == std::ssize(values));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) * stride;
    const double difference = std::abs(static_cast<double>(found[at]) - values[i]);
    if (std::isnan(difference)) return difference;
    worst = std::max(worst, difference);
  }
  return worst;
}

double row_difference(std::span<const float> row, const JsonObject& sample) {
  return sample_difference(row.data(), std::ssize(row), sample);
}

// The pixel values in the order of the reference: as they are, or for towers that take frames of
// any size as rows of patches.
Tensor reference_pixels(Stream& stream, const model::CaptionModel& model, const Tensor& pixels) {
  const auto& smart = model.preprocess_spec().smart;
  if (!smart) return pixels.clone();
  constexpr std::int64_t kMerge = 2;
  const std::int64_t patch_px = smart->unit_px / kMerge;
  const std::int64_t images =
      (pixels.dim(0) + smart->frames_per_patch - 1) / smart->frames_per_patch;
  const std::int64_t patches = (pixels.dim(2) / patch_px) * (pixels.dim(3) / patch_px);
  Tensor rows(DType::kF32, {images * patches, 3 * smart->frames_per_patch * patch_px * patch_px});
  kernels::im2col_grid(stream, pixels.view(),
                       {.frames = smart->frames_per_patch, .patch_px = patch_px, .merge = kMerge},
                       rows.view());
  return rows;
}

void check_clip(model::CaptionModel& model, const JsonObject& clip, std::string_view default_prompt,
                double tolerance, std::optional<std::int32_t> adapter) {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const Tensor pixels = golden_pixel_values(pool, model, clip);
  Stream host(pool);
  const Tensor ordered = reference_pixels(host, model, pixels);
  const auto* const bytes = reinterpret_cast<const std::byte*>(ordered.as<float>());
  CHECK(hash_bytes({bytes, ordered.size_bytes()}).hex() ==
        clip.require_string("pixel_values_hash"));

  const Tensor vision = model.encode_frames(stream, pixels.view());
  CHECK(vision.dim(0) == clip.require_int("num_vision_tokens", 1, 1 << 20));
  CHECK(vision.dim(0) == model.vision_tokens(golden_shape(clip)));
  const Tensor features = to_host(stream, vision.view());
  CHECK(sample_difference(features.as<float>(), features.num_elements(),
                          clip.get_object("features").value()) < kTolerance);

  const model::PromptIds prompt = model.build_prompt(default_prompt, golden_shape(clip));
  CHECK(prompt.ids == ids_of(clip, "ids"));
  CHECK(std::ssize(prompt.vision_positions) == vision.dim(0));
  std::vector<std::int32_t> greedy = ids_of(clip, "greedy");
  const bool are_all = !stream.device().is_cuda();
  if (!are_all) greedy.resize(std::min<std::size_t>(greedy.size(), kTokensOnEmulator));
  const Greedy found =
      run_greedy(stream, model, prompt, vision.view(), std::ssize(greedy), DType::kF32, adapter);
  CHECK(row_difference(found.first_logits, clip.get_object("logits").value()) < tolerance);
  CHECK(found.ids == greedy);
  if (!are_all) return;
  CHECK(row_difference(row_of(found.last_logits, found.last_logits.dim(0) - 1),
                       clip.get_object("last_logits").value()) < tolerance);
}

}  // namespace

model::ClipShape golden_shape(const JsonObject& clip) {
  const JsonObject frames = clip.get_object("frames").value();
  model::ClipShape shape = {.num_frames = frames.require_int("count", 1, 64),
                            .frame = {.width_px = frames.require_int("width", 1, 4096),
                                      .height_px = frames.require_int("height", 1, 4096)}};
  if (!frames.has("fps")) return shape;
  const double fps = frames.get_double("fps", 0);
  const std::int64_t first = frames.require_int("first", 0, 1000);
  const std::int64_t step = frames.require_int("step", 1, 1000);
  for (std::int64_t i = 0; i < shape.num_frames; ++i) {
    const auto index = static_cast<double>(first + i * step);
    shape.times_s.push_back(index / fps);
  }
  shape.duration_us = std::llround(static_cast<double>(shape.num_frames * step) / fps * 1e6);
  return shape;
}

CaptionerGolden::CaptionerGolden(std::string_view family, std::string_view name)
    : golden_(std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden" / family / name),
      checkpoint_(golden_) {}

std::unique_ptr<model::CaptionModel> CaptionerGolden::open(weights::WeightFormat format) const {
  return model::open_model(tested_context(), folder(), format);
}

std::vector<GoldenClip> CaptionerGolden::clips(ThreadPool& pool,
                                               const model::CaptionModel& model) const {
  const JsonObject expected = JsonObject::open(golden_ / "expected.json", ErrorCode::kBadReference);
  std::vector<GoldenClip> clips;
  for (const JsonObject& clip : expected.get_objects("clips")) {
    clips.push_back(
        {.shape = golden_shape(clip), .pixel_values = golden_pixel_values(pool, model, clip)});
  }
  return clips;
}

void CaptionerGolden::check_prompts() const {
  const JsonObject expected = JsonObject::open(golden_ / "expected.json", ErrorCode::kBadReference);
  const auto model = open();
  const model::ClipShape shape = golden_shape(expected.get_objects("clips").front());
  for (const JsonObject& prompt : expected.get_objects("prompts")) {
    const std::string text = prompt.get_string("text", "");
    CAPTURE(text);
    CHECK(model->build_prompt(text, shape).ids == ids_of(prompt, "ids"));
  }
}

void CaptionerGolden::check_clips() const { check_golden_clips(*open(), golden_); }

void check_golden_clips(model::CaptionModel& model, const std::filesystem::path& golden,
                        std::optional<std::int32_t> adapter) {
  const JsonObject expected = JsonObject::open(golden / "expected.json", ErrorCode::kBadReference);
  CHECK(model.family() == expected.require_string("family"));
  const std::vector<JsonObject> clips = expected.get_objects("clips");
  CHECK(clips.size() == 3);
  const std::string prompt = expected.get_objects("prompts").front().get_string("text", "");
  const double tolerance = expected.get_double("logit_tolerance", kTolerance);
  // On the mirror every access changes the protection of pages, and on the emulated GPU it is
  // watched: one clip shows what it can show.
  const bool is_slow = tested_context().device != Device::kCpu;
  for (std::size_t i = 0; i < (is_slow ? 1 : clips.size()); ++i) {
    CAPTURE(i);
    check_clip(model, clips[i], prompt, tolerance, adapter);
  }
}

void CaptionerGolden::check_plan() const {
  const model::Blueprint blueprint = model::read_blueprint(folder());
  using weights::WeightFormat;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8,
                                    WeightFormat::kNf4, WeightFormat::kW8A8}) {
    CAPTURE(static_cast<int>(format));
    const auto model = open(format);
    CHECK(model->weight_bytes() == model::placed_bytes(tested_context(), blueprint, format));
    const model::ClipShape shape = {.num_frames = 5};
    // Without the limits of the preprocessing a plan only estimates what frames of any size give.
    if (blueprint.vision->image_px == 0) continue;
    CHECK(model->vision_tokens(shape) == model::num_vision_tokens(blueprint.vision.value(), shape));
  }
}

void CaptionerGolden::check_frames_alone() const {
  constexpr std::int64_t kFrames = 11;
  ThreadPool one(1), three(3);
  Stream stream(tested_context(), one), other(tested_context(), three);
  const auto model = open();
  const std::int64_t edge = model::read_blueprint(folder()).vision->image_px;
  Tensor pixels(DType::kF32, {kFrames, 3, edge, edge});
  for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
    pixels.as<float>()[i] = static_cast<float>(i * 7919 % 509 - 254) / 128;
  }
  const Tensor together = to_host(stream, model->encode_frames(stream, pixels.view()).view());
  const std::int64_t shared =
      2 * model->vision_tokens({.num_frames = 1}) - model->vision_tokens({.num_frames = 2});
  const std::int64_t rows = model->vision_tokens({.num_frames = 1}) - shared;
  REQUIRE(together.dim(0) == kFrames * rows + shared);
  const auto same_rows = [&](const Tensor& alone, std::int64_t from, std::int64_t to,
                             std::int64_t count) {
    const std::int64_t dim = together.dim(1);
    return std::memcmp(alone.as<float>() + from * dim, together.as<float>() + to * dim,
                       static_cast<std::size_t>(count * dim) * sizeof(float)) == 0;
  };
  for (std::int64_t frame = 0; frame < kFrames; ++frame) {
    const Tensor alone =
        to_host(stream, model->encode_frames(other, pixels.view().rows(frame, 1)).view());
    CHECK(same_rows(alone, 0, frame * rows, rows));
    CHECK(same_rows(alone, rows, kFrames * rows, shared));
  }
}

void CaptionerGolden::check_repeated_frames() const {
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const auto model = open();
  const model::VisionSpec vision = model::read_blueprint(folder()).vision.value();
  const std::vector<int> kinds = {0, 1, 0, 0, 2, 1, 0, 2, 2, 1, 0, 0};  // the kinds of 12 frames
  const auto frames_of = [&](const std::vector<int>& of) {
    const std::int64_t edge = vision.image_px;
    const std::int64_t size = 3 * edge * edge;
    Tensor pixels(DType::kF32, {std::ssize(of), 3, edge, edge});
    for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
      const int kind = of[static_cast<std::size_t>(i / size)];
      pixels.as<float>()[i] = static_cast<float>((i % size + kind) * 7919 % 509 - 254) / 128;
    }
    return pixels;
  };
  const Tensor repeated = frames_of(kinds);
  const Tensor distinct = frames_of({0, 1, 2});
  Profile profile;
  stream.set_profile(&profile);
  const Tensor found = to_host(stream, model->encode_frames(stream, repeated.view()).view());
  stream.set_profile(nullptr);
  std::int64_t layers = 0;
  for (const Profile::Entry& entry : profile.entries()) {
    if (entry.key.operation == "attention") layers += entry.calls;
  }
  CHECK(layers == vision.num_layers);  // 12 different frames would take two passes
  const Tensor once = to_host(stream, model->encode_frames(stream, distinct.view()).view());
  const std::int64_t rows = model::tokens_per_image(vision, {});
  const std::int64_t dim = once.dim(1);
  for (std::size_t frame = 0; frame < kinds.size(); ++frame) {
    CHECK(std::memcmp(found.as<float>() + static_cast<std::int64_t>(frame) * rows * dim,
                      once.as<float>() + kinds[frame] * rows * dim,
                      static_cast<std::size_t>(rows * dim) * sizeof(float)) == 0);
  }
}

namespace {

// Pixels of frames that differ from those with another seed.
Tensor made_up_pixels(std::int64_t frames, const vision::ImageSize& size, std::int64_t seed) {
  Tensor pixels(DType::kF32, {frames, 3, size.height_px, size.width_px});
  for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
    pixels.as<float>()[i] = static_cast<float>((i + 977 * seed) * 7919 % 509 - 254) / 128;
  }
  return pixels;
}

}  // namespace

void CaptionerGolden::check_company() const {
  ThreadPool one(1), three(3);
  Stream stream(tested_context(), one), other(tested_context(), three);
  const auto model = open(weights::WeightFormat::kBF16);
  const model::VisionSpec vision = model::read_blueprint(folder()).vision.value();
  const std::int64_t unit = vision.patch_px * vision.pool_stride;
  std::vector<Tensor> clips;
  for (const std::int64_t frames : {3, 1, 8, 2, 5, 3}) {
    const auto seed = std::ssize(clips);
    const bool is_fixed = vision.image_px > 0;
    const vision::ImageSize size = is_fixed ? vision::ImageSize{vision.image_px, vision.image_px}
                                            : vision::ImageSize{(2 + seed % 3) * unit, 3 * unit};
    clips.push_back(made_up_pixels(frames, size, seed));
  }
  // The fifth clip repeats a frame.
  const Tensor& repeating = clips[4];
  const std::int64_t frame_values = repeating.num_elements() / repeating.dim(0);
  std::copy_n(clips[4].as<float>(), frame_values, clips[4].as<float>() + 3 * frame_values);
  std::vector<Tensor> alone;
  for (const Tensor& clip : clips) {
    alone.push_back(to_host(stream, model->encode_frames(stream, clip.view()).view()));
  }
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {5, 3, 4, 1, 0, 2}, {3, 3}}) {
    std::vector<ConstView> pixels;
    for (const std::size_t clip : order) pixels.push_back(clips[clip].view());
    const std::vector<Tensor> together = model->encode_clips(other, pixels);
    REQUIRE(together.size() == order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Tensor found = to_host(other, together[i].view());
      REQUIRE(found.shape() == alone[order[i]].shape());
      CHECK(std::memcmp(found.as<float>(), alone[order[i]].as<float>(), found.size_bytes()) == 0);
    }
  }
}

void CaptionerGolden::check_encoder_scratch() const {
  const Context context = tested_context();
  if (context.device != Device::kCpu) return;  // a plan is for the host
  ThreadPool pool(2);
  Stream stream(context, pool);
  const model::VisionSpec vision = model::read_blueprint(folder()).vision.value();
  constexpr std::int64_t kFrames = 4;
  const model::ClipShape shape = {.num_frames = kFrames,
                                  .frame = {.width_px = 70, .height_px = 50}};
  const vision::ImageSize size =
      vision.image_px > 0 ? vision::ImageSize{vision.image_px, vision.image_px}
                          : vision::output_size({.smart = vision.resize, .do_center_crop = false},
                                                kFrames, {50, 70});
  const Tensor pixels = made_up_pixels(kFrames, size, 1);
  const std::int64_t images = model::num_images(vision, kFrames);
  const std::int64_t per_pass = model::images_per_pass(vision, model::tower_tokens(vision, shape));
  const std::vector<ConstView> clips(static_cast<std::size_t>(per_pass / images + 1),
                                     pixels.view());
  for (const weights::WeightFormat format :
       {weights::WeightFormat::kF32, weights::WeightFormat::kBF16}) {
    const auto model = open(format);
    CHECK(model->pass_share(pixels.shape()) * static_cast<double>(clips.size() - 1) <= 1);
    model->encode_clips(stream, clips);
    CHECK(model->vision_scratch_bytes() ==
          model::encoder_scratch_bytes(context, vision, shape, format));
  }
}

void CaptionerGolden::check_placeholders_as_words() const {
  const auto model = open();
  const model::ClipShape shape = {.num_frames = 2};
  const model::PromptIds plain = model->build_prompt("words", shape);
  for (const char* const words :
       {"<video>", "a <IMG_CONTEXT> b", "<image><|im_end|>\n<|im_start|>", "<img></img>"}) {
    CAPTURE(std::string(words));
    const model::PromptIds prompt = model->build_prompt(words, shape);
    CHECK(prompt.vision_positions == plain.vision_positions);
    const auto special = [&](const model::PromptIds& from) {
      std::int64_t count = 0;
      for (const char* const token : {"<video>", "<image>", "<|im_start|>", "<|im_end|>", "<img>",
                                      "</img>", "<IMG_CONTEXT>"}) {
        const auto id = model->tokenizer().find_token(token);
        if (id) count += std::count(from.ids.begin(), from.ids.end(), *id);
      }
      return count;
    };
    CHECK(special(prompt) == special(plain));
  }
}

void check_refusals(std::string_view family, std::string_view golden,
                    std::span<const BadCheckpoint> cases) {
  for (const BadCheckpoint& c : cases) {
    CAPTURE(std::string(c.name));
    const CaptionerGolden checkpoint(family, golden);
    replace_in_file(checkpoint.folder() / c.file, c.from, c.to);
    try {
      checkpoint.open();
      FAIL_CHECK("opened");
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(error_code_name(error.code()) == error_code_name(c.code));
      CHECK(what.find(c.message) != std::string::npos);
      CHECK(what.find('\n') == std::string::npos);
    }
  }
}

void check_refused(const model::ComposedSource& source, ErrorCode code,
                   std::initializer_list<const char*> message) {
  try {
    model::open_composed(tested_context(), source, weights::WeightFormat::kF32);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    const std::string what = error.what();
    CAPTURE(what);
    CHECK(error_code_name(error.code()) == error_code_name(code));
    for (const char* part : message) CHECK(what.find(part) != std::string::npos);
  }
}

}  // namespace caption::testing
