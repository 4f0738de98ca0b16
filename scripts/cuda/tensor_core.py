"""Products of tensor cores on numpy arrays, c + a * b of many warps at once.

The sums of 16-bit and e4m3 products are those of tests/support/cuda/tensor_core.h, which names its sources.
"""

import numpy as np

from rounding import fused32

# Of zeros: lower than any sum of two exponents, so that a zero never is the largest.
ZERO_EXPONENT = -400
FRACTION_BITS = {"ampere": 24, "hopper": 25}  # to which terms are cut
DEPTH = {"ampere": 8, "hopper": 16}           # products of a step
LAYOUTS = {"bf16": (7, 8), "f16": (10, 5), "e4m3": (3, 4)}  # fraction bits, exponent bits
E4M3_BITS = 13                                # fractional, of terms and of sums on Ada
E4M3_DEPTH = 16


def split(bits: np.ndarray, fraction_bits: int, exponent_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as signed magnitude * 2^(exponent - fraction_bits)."""
    bits = bits.astype(np.int64)
    field = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    magnitude = bits & ((1 << fraction_bits) - 1)
    magnitude = np.where(field != 0, magnitude | 1 << fraction_bits, magnitude)
    exponent = np.maximum(field, 1) - ((1 << (exponent_bits - 1)) - 1)
    is_negative = bits >> (fraction_bits + exponent_bits) & 1
    return (np.where(is_negative != 0, -magnitude, magnitude),
            np.where(magnitude == 0, ZERO_EXPONENT, exponent))


def cut(magnitude: np.ndarray, drop: np.ndarray) -> np.ndarray:
    """Magnitudes with a sign, shifted right by `drop` towards zero."""
    return np.sign(magnitude) * (np.abs(magnitude) >> np.minimum(drop, 62))


def cut_to_f32(total: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """total * 2^exponent, towards zero to f32; total has fewer than 53 bits."""
    exact = np.ldexp(total.astype(np.float64), exponent)
    near = exact.astype(np.float32)
    is_beyond = np.abs(near.astype(np.float64)) > np.abs(exact)
    near = np.where(is_beyond, np.nextafter(near, np.float32(0)), near)
    return np.where(np.abs(exact) >= 2.0**128, np.copysign(np.float32(np.inf), near), near)


def widen(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return bits.view(np.float16).astype(np.float32)
    if kind == "e4m3":
        return E4M3_NUMBERS[bits]
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def number_of_e4m3(code: int) -> float:
    exponent, fraction = code >> 3 & 15, code & 7
    magnitude = fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0**(exponent - 10)
    magnitude = np.nan if code & 0x7F == 0x7F else magnitude
    return -magnitude if code & 0x80 else magnitude


E4M3_NUMBERS = np.array([number_of_e4m3(code) for code in range(256)], np.float32)


def is_finite(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str) -> np.ndarray:
    """For each warp, whether all of its elements are numbers."""
    return (np.isfinite(widen(a, kind)).all((1, 2)) & np.isfinite(widen(b, kind)).all((1, 2))
            & np.isfinite(c).all((1, 2)))


def multiply_fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str) -> np.ndarray:
    wide_a, wide_b = widen(a, kind), widen(b, kind)
    for k in range(a.shape[2]):
        c = fused32(np.broadcast_to(wide_a[:, :, k, None], c.shape),
                    np.broadcast_to(wide_b[:, k, None, :], c.shape), c)
    return c


def multiply_floats(sums: str, kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a [warps, m, k] and b [warps, k, n] are bits of `kind`, c [warps, m, n] is f32. Of e4m3 numbers
    `sums` are Ada's for "ampere"; Hopper has no such product."""
    finite = is_finite(a, b, c, kind)
    if sums == "fused" or not finite.any():
        return multiply_fused(a, b, c, kind)
    if not finite.all():
        result = c.copy()
        result[finite] = multiply_floats(sums, kind, a[finite], b[finite], c[finite])
        result[~finite] = multiply_fused(a[~finite], b[~finite], c[~finite], kind)
        return result
    fraction_bits, exponent_bits = LAYOUTS[kind]
    kept_bits, depth = FRACTION_BITS[sums], DEPTH[sums]
    if kind == "e4m3":
        kept_bits, depth = E4M3_BITS, E4M3_DEPTH
    am, ae = split(a, fraction_bits, exponent_bits)
    bm, be = split(b, fraction_bits, exponent_bits)
    for k in range(0, a.shape[2], depth):
        step = slice(k, k + depth)
        cm, ce = split(np.ascontiguousarray(c).view(np.uint32), 23, 8)
        products = am[:, :, step, None] * bm[:, None, step]
        exponents = ae[:, :, step, None] + be[:, None, step]
        largest = np.maximum(exponents.max(2), ce)
        terms = cut(products << (kept_bits - 2 * fraction_bits), largest[:, :, None] - exponents)
        wide_c = cm << max(kept_bits - 23, 0)
        total = terms.sum(2) + cut(wide_c, largest - ce + max(23 - kept_bits, 0))
        c = cut_to_f32(total, largest - kept_bits)
        if kind == "e4m3":
            mask = np.uint32(2**32 - 2**(23 - kept_bits))
            c = (np.ascontiguousarray(c).view(np.uint32) & mask).view(np.float32)
    return c


def multiply_bytes(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a [warps, m, k] and b [warps, k, n] of 8 bits, c [warps, m, n] of 32, modulo 2^32."""
    return (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.uint32).view(np.int32)
