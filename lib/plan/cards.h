// plan/cards.h: NVIDIA cards, so that one can be planned for (plan.h), and its kernels predicted
// (bench/cuda_prediction.h), on a machine without a GPU.
//
// Sources: NVIDIA's data sheets of T4, L4, A100 40GB PCIe, H100 SXM and H200 SXM, and the
// architectures' white papers; memory as nvidia-smi shows it; L2 of T4: arXiv:1903.07486. No figure
// of L2 was found for L4, H100 and H200: they are taken as 32, 40 and 40 bytes per clock and
// multiprocessor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace caption::plan {

struct Multiprocessors {
  double count = 0;
  double clock_hz = 0;            // highest
  double l2_bytes = 0;            // size
  double l2_bytes_per_clock = 0;  // per multiprocessor
  // Clocks that a quarter of a multiprocessor needs per m16n8k16 by mma.sync, and within a product
  // of a warpgroup (kernels/cuda/warpgroup.cuh); 0: it has none.
  double clocks_per_product = 0;
  double clocks_of_warpgroups = 0;
};

struct Card {
  const char* name = "";          // "t4", which is also that of the card's preset, if it has one
  const char* product = "";       // "NVIDIA T4 (16 GB)"
  std::int64_t memory_bytes = 0;  // as the driver reports it
  double bytes_per_s = 0;
  double flops_per_s = 0;       // dense, 16-bit operands
  double int8_flops_per_s = 0;  // dense, operands of 8-bit integers
  // As this program multiplies fp8: on an H100 and an H200 by the tensor cores of 16 bits. Cards
  // that cannot have flops_per_s.
  double fp8_flops_per_s = 0;
  int compute_capability = 0;  // 10 * major + minor
  Multiprocessors multiprocessors = {};
};

std::span<const Card> cards();
// Finds a card by its name, such as "t4", in any case.
std::optional<Card> find_card(std::string_view name);
std::vector<std::string_view> card_names();

}  // namespace caption::plan
