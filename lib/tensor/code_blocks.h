// tensor/code_blocks.h: the blocks of codes, scales and offsets that GGUF files hold.
//
// Files compiled for an instruction set include this header, so it holds no functions.
#pragma once

namespace caption {

// Their bytes are described in weights/internal/ggml_blocks.h. Blocks of IQ4_NL are like those of
// Q4_0.
enum class CodeBlocks { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

}  // namespace caption
