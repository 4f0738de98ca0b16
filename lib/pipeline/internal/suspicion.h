// pipeline/internal/suspicion.h: what speaks against a caption, without knowing the film.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "video/clip.h"

namespace caption::pipeline {

// Says why the frames show nothing that a caption could tell ("every frame is black"); empty when
// they may show something. Takes far less time than their preprocessing.
std::string suspicion_of_frames(std::span<const video::Frame> frames);

// Says what speaks against a caption: that it is empty, that it holds U+FFFD or control characters,
// that words repeat, or that it is `unlike`, the sentence with which the model declares that it
// cannot describe a clip (CaptionModel::unlike_sentence(); empty: it has none; white space around
// either is left out). Empty when nothing does.
std::string suspicion_of_caption(std::string_view caption, std::string_view unlike = {});

}  // namespace caption::pipeline
