// Rows of x rounded to e4m3 numbers, a scale per row. Measured on no GPU.
#include "kernels/cuda/code_rows.cuh"
#include "tensor/e4m3.h"

namespace caption::kernels::cuda {

// In no unnamed namespace: for the other GPUs nothing of it is used.
struct E4M3Codes {
  static constexpr Gpus kGpus = kGpusOfE4M3;
  static constexpr float kLargest = kLargestE4M3;
  static CAPTION_DEVICE Packed<std::uint8_t, kPack> rounded(const Packed<float, kPack>& x) {
    Packed<std::uint8_t, kPack> codes;
    for (int i = 0; i < kPack; i += 2) {
      const std::uint32_t pair = e4m3_pair_of_floats(x.x[i], x.x[i + 1]);
      codes.x[i] = static_cast<std::uint8_t>(pair);
      codes.x[i + 1] = static_cast<std::uint8_t>(pair >> 8);
    }
    return codes;
  }
};

void quantise_rows_to_e4m3(Stream& stream, Grid grid, const RowsParams& params) {
  launch<QuantiseRows<E4M3Codes>>(stream, grid, params);
}

}  // namespace caption::kernels::cuda
