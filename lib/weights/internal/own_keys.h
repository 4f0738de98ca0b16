// weights/internal/own_keys.h: keys of GGUF files that this program writes and reads beside those
// of llama.cpp, which ignores them.
#pragma once

#include <string_view>

namespace caption::weights {

// Where SentencePiece BPE puts a space before the parts of a text between added tokens, unless it
// is before every part: kGgufFirstSegment or kGgufEverySegment.
inline constexpr std::string_view kGgufSpacePrefixKey = "caption_cli.tokenizer.space_prefix";
inline constexpr std::string_view kGgufFirstSegment = "first";
inline constexpr std::string_view kGgufEverySegment = "every";

// vision_config.tokens_per_second of Qwen2.5-VL, u32. Without it: 2.
inline constexpr std::string_view kGgufTokensPerSecondKey = "caption_cli.tokens_per_second";

// caption_cli_demonstration (bool) and caption_cli_unlike (string) of config.json, which mark the
// demonstration model.
inline constexpr std::string_view kGgufDemonstrationKey = "caption_cli.demonstration";
inline constexpr std::string_view kGgufUnlikeKey = "caption_cli.unlike";

// Followed by the name of a JSON file: the text of that file of the model's folder (string).
inline constexpr std::string_view kGgufFilesPrefix = "caption_cli.files.";

}  // namespace caption::weights
