// pipeline/internal/suspicion.h: what speaks against a caption, without knowing the film.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "video/clip.h"

namespace caption::pipeline {

// Why frames show nothing that a caption could tell ("every sampled frame is black"); empty: they
// may. Cheap beside their preprocessing.
std::string suspicion_of_frames(std::span<const video::Frame> frames);

// Why a caption is none: empty, U+FFFD or control characters in it, or words that repeat; or it is
// the sentence with which the model declares that it cannot describe a clip (`unlike`, see
// CaptionModel::unlike_sentence(); empty: it has none), white space around either left out. Empty
// when nothing speaks against it.
std::string suspicion_of_caption(std::string_view caption, std::string_view unlike = {});

}  // namespace caption::pipeline
