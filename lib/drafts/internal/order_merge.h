// drafts/internal/order_merge.h: the order of the positions of two runs together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "drafts/internal/context_index.h"
#include "drafts/internal/run_array.h"

namespace caption::drafts {

// The tokens before two positions, read backwards.
struct Comparison {
  std::uint8_t shared = 0;  // tokens that are equal, kBegin included; kMaxContext: all are
  bool is_less = false;     // the first position's are smaller
};

// The contexts of `a` and `b`, of which `known` tokens are known to be equal, none of them kBegin.
Comparison compare_contexts(std::span<const std::int32_t> tokens, std::uint32_t a, std::uint32_t b,
                            std::uint8_t known);

// The order of a run without the positions before `first`, each of which is moved by `shift`.
struct OrderPart {
  std::span<const OrderEntry> order = {};
  std::span<const std::uint8_t> shared = {};
  std::uint32_t first = 0;
  std::uint32_t shift = 0;  // is added, modulo 2^32
};

// Merges two orders of positions of the same tokens, in pieces; contexts of `older` precede equal
// ones. The numbers of tokens that neighbours share decide most comparisons without reading
// tokens (Ng and Kakehi, Merging string sequences by longest common prefixes, IPSJ Digital Courier
// 2008).
class OrderMerge {
 public:
  // The parts are borrowed.
  OrderMerge(const OrderPart& older, const OrderPart& newer) : older_(older), newer_(newer) {}

  // Takes from `steps` as many as it computes, until none is left or the merge is complete; returns
  // whether it is. `tokens` and the arrays, which have room for all positions, are the same in each
  // call.
  bool advance(std::int64_t& steps, std::span<const std::int32_t> tokens,
               RunArray<OrderEntry>& order, RunArray<std::uint8_t>& shared);

 private:
  // The next position of an order that is not left out.
  struct Head {
    explicit Head(const OrderPart& the_part) : part(the_part) { skip(); }
    bool is_at_end() const { return next == part.order.size(); }
    std::uint32_t position() const { return part.order[next].position + part.shift; }
    OrderEntry take();
    void skip();

    const OrderPart part;
    std::size_t next = 0;
    std::uint8_t shared = 0;  // tokens that it shares with the latest position taken of both orders
  };

  // Whether the older order has the next position. Sets what the other one shares with it.
  bool is_older_next(std::span<const std::int32_t> tokens);

  Head older_;
  Head newer_;
  std::size_t num_taken_ = 0;
};

}  // namespace caption::drafts
