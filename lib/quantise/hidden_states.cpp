#include "quantise/internal/hidden_states.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "kernels/embedding.h"
#include "kernels/rows.h"

namespace caption::quantise {

HiddenStates::HiddenStates(Stream& stream, const model::DecoderSpec& spec,
                           const Calibration& calibration, ConstView embedding, OnWork on_work)
    : stream_(stream),
      spec_(spec),
      on_work_(std::move(on_work)),
      hidden_(DType::kF32, {calibration.num_tokens(), spec.hidden}),
      attended_(DType::kF32, {calibration.num_tokens(), spec.q_dim()}) {
  std::int64_t first = 0;
  for (const CalibrationPrompt& prompt : calibration.prompts) {
    CAPTION_CHECK(std::ssize(prompt.positions) == spec.position_axes() * prompt.num_tokens(),
                  "one position per axis and token");
    prompts_.push_back({.source = &prompt,
                        .first_row = first,
                        .positions = model::PromptPositions(stream, spec, prompt.positions)});
    embed(prompts_.back(), embedding);
    report_work(on_work_, 0);
    first += prompt.num_tokens();
  }
}

std::int64_t HiddenStates::attend_work() const {
  std::int64_t sum = 0;
  for (const Prompt& prompt : prompts_) {
    sum += model::DecoderLayer::attend_work(spec_, prompt.num_tokens());
  }
  return sum;
}

void HiddenStates::embed(const Prompt& prompt, ConstView embedding) {
  const CalibrationPrompt& source = *prompt.source;
  const View x = hidden_.view().rows(prompt.first_row, prompt.num_tokens());
  kernels::embedding(stream_, view_of(std::span(source.ids)), embedding, x);
  if (source.vision_rows.empty()) return;
  CAPTION_CHECK(
      source.vision->shape() == Shape({std::ssize(source.vision_rows), spec_.vision_width()}),
      "vision tokens of another shape");
  kernels::scatter_rows(stream_, source.vision->view().columns(0, spec_.hidden),
                        view_of(std::span(source.vision_rows)), x);
}

void HiddenStates::show_attention_inputs(const Layer& layer, const See& see) {
  const model::DecoderLayer math(stream_, spec_, index_, on_work_);
  for (const Prompt& prompt : prompts_) {
    report_work(on_work_, 0);
    Tensor normed(DType::kF32, {prompt.num_tokens(), spec_.hidden});
    math.attention_input(layer, rows().rows(prompt.first_row, prompt.num_tokens()), normed.view());
    see(normed.view());
  }
}

void HiddenStates::show_attended(const Layer& layer, const See& see) {
  const model::DecoderLayer math(stream_, spec_, index_, on_work_);
  std::size_t next = 0;
  show_attention_inputs(layer, [&](ConstView normed) {
    Tensor attended(DType::kF32, {normed.dim(0), spec_.q_dim()});
    math.attend(layer, prompts_[next++].positions, normed, attended.view());
    see(attended.view());
  });
}

void HiddenStates::attend(const Layer& layer) {
  const model::DecoderLayer math(stream_, spec_, index_, on_work_);
  auto prompt = prompts_.begin();
  show_attention_inputs(layer, [&](ConstView normed) {
    math.attend(layer, prompt->positions, normed,
                attended_.view().rows(prompt->first_row, normed.dim(0)));
    ++prompt;
  });
}

void HiddenStates::add_attention(const Layer& layer) {
  model::add_dense(stream_, layer.o, attended(), hidden_.view(), on_work_);
}

void HiddenStates::show_mlp_inputs(const Layer& layer, const See& see) {
  const model::DecoderLayer math(stream_, spec_, index_, on_work_);
  Tensor normed(DType::kF32, {std::min(kPieceRows, num_tokens()), spec_.hidden});
  for (std::int64_t first = 0; first < num_tokens(); first += kPieceRows) {
    report_work(on_work_, 0);
    const std::int64_t count = std::min(kPieceRows, num_tokens() - first);
    const View piece = normed.view().rows(0, count);
    math.mlp_input(layer, rows().rows(first, count), piece);
    see(piece);
  }
}

void HiddenStates::show_down_inputs(const Layer& layer, const See& see) {
  const model::DecoderLayer math(stream_, spec_, index_, on_work_);
  Tensor inner(DType::kF32, {std::min(kPieceRows, num_tokens()), spec_.intermediate});
  show_mlp_inputs(layer, [&](ConstView normed) {
    const View piece = inner.view().rows(0, normed.dim(0));
    math.gate_and_up(layer, normed, piece);
    see(piece);
  });
}

void HiddenStates::add_mlp(const Layer& layer) {
  std::int64_t first = 0;
  // A piece's rows are read before they are changed.
  show_down_inputs(layer, [&](ConstView inner) {
    model::add_dense(stream_, layer.down, inner, hidden_.view().rows(first, inner.dim(0)),
                     on_work_);
    first += inner.dim(0);
  });
  add_deepstack();
}

void HiddenStates::add_deepstack() {
  if (static_cast<std::int64_t>(index_) >= spec_.deepstack_layers) return;
  const std::int64_t first_column = (1 + static_cast<std::int64_t>(index_)) * spec_.hidden;
  for (const Prompt& prompt : prompts_) {
    const CalibrationPrompt& source = *prompt.source;
    if (source.vision_rows.empty()) continue;
    kernels::add_rows(stream_, source.vision->view().columns(first_column, spec_.hidden),
                      view_of(std::span(source.vision_rows)),
                      hidden_.view().rows(prompt.first_row, prompt.num_tokens()));
  }
}

}  // namespace caption::quantise
