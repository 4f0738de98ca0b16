// bench/internal/multiply_add_integers.h: the chains of multiply_add.h of integers, for x86-64. As
// there, each file that includes it has its own copy, and nothing else is included.
//
// The products are written in assembly, because a compiler would move a product of constants out of
// the loop, and disagrees with others on the types of builtins. "v" are all registers of vectors
// that the file's instruction set has.
#pragma once

#include "bench/internal/multiply_add.h"

namespace caption::bench {

// Adds products of pairs of 16-bit integers to sums of 32 bits.
struct AddWordPairs {
  template <class Vector>
  void operator()(Vector& sums, const Vector& factors) const {
    Vector products;
    asm volatile("vpmaddwd %[x], %[x], %[p]\n\tvpaddd %[p], %[s], %[s]"
                 : [s] "+v"(sums), [p] "=&v"(products)
                 : [x] "v"(factors));
  }
};

// Adds products of pairs of bytes to sums of 16 bits.
struct AddBytePairs {
  template <class Vector>
  void operator()(Vector& sums, const Vector& factors) const {
    Vector products;
    asm volatile("vpmaddubsw %[x], %[x], %[p]\n\tvpaddw %[p], %[s], %[s]"
                 : [s] "+v"(sums), [p] "=&v"(products)
                 : [x] "v"(factors));
  }
};

// Runs `rounds` rounds of independent chains of `Vector`, which holds integers of 32 bits.
// add_products(sums, factors) adds products to the sums of one chain.
template <class Vector, class AddProducts>
static inline float run_integer_chains(std::int64_t rounds, float start, AddProducts add_products) {
  Vector chains[kMultiplyAddChains];
#pragma GCC unroll 12
  for (int i = 0; i < kMultiplyAddChains; ++i) chains[i] = Vector{} + static_cast<int>(start) + i;
  const Vector factors = Vector{} + 0x01010101;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kMultiplyAddChains; ++i) add_products(chains[i], factors);
  }
  Vector sum{};
#pragma GCC unroll 12
  for (int i = 0; i < kMultiplyAddChains; ++i) sum ^= chains[i];
  return static_cast<float>(sum[0]);
}

}  // namespace caption::bench
