// pipeline/internal/suspicion.h: detects captions that are likely wrong, without a reference.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "video/clip.h"

namespace caption::pipeline {

// Returns the reason why the frames show nothing to describe ("every frame is black"); empty when
// they may show something. Costs far less than preprocessing the frames.
std::string suspicion_of_frames(std::span<const video::Frame> frames);

// Returns the reason why a caption of these frames is suspicious: fewer than half of the sampled
// frames could be decoded, so it leaves out most of the film. Empty when it is not.
std::string suspicion_of_losses(std::int64_t frames_used, std::int64_t frames_wanted);

// Returns the reason why a caption is suspicious: it is empty, contains U+FFFD or control
// characters, repeats words or the characters of a word, or equals `unlike`, the sentence by which
// the model declares that it cannot describe a clip (CaptionModel::unlike_sentence(); empty: the
// model has none; surrounding white space is ignored in both). Empty when the caption is not
// suspicious.
std::string suspicion_of_caption(std::string_view caption, std::string_view unlike = {});

}  // namespace caption::pipeline
