"""Operations of floating-point numbers that numpy lacks, each rounded once, on arrays."""

import ctypes
import ctypes.util

import numpy as np


def add_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y in f64, rounded to odd: cut, with the last bit set where the sum is not exact. Rounding
    the result to a type with at most 50 significant bits rounds x + y once."""
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)
    bits = total.view(np.int64)
    is_even = (bits & 1) == 0
    away = np.where((rest > 0) == (total > 0), 1, -1)
    change = np.where(np.isfinite(total) & (rest != 0) & is_even, away, 0)
    return (bits + change).view(np.float64)


def fused32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of f32: the product is exact in f64."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    return add_to_odd(product, np.broadcast_to(np.asarray(c, np.float64), product.shape)).astype(np.float32)


def load_fma():
    libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    libm.fma.restype = ctypes.c_double
    libm.fma.argtypes = [ctypes.c_double] * 3
    return np.frompyfunc(libm.fma, 3, 1)


FMA = load_fma()


def fused64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of f64, by the C library, one element at a time."""
    return np.asarray(FMA(a, b, c), dtype=np.float64)


def bf16_of_f32(x: np.ndarray) -> np.ndarray:
    """Bits of bf16, to nearest, ties to even; of NaN 0x7FFF."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def bf16_of_f64(x: np.ndarray) -> np.ndarray:
    """The same of f64, rounded once: f32 is rounded to odd on the way."""
    near = x.astype(np.float32)
    is_beyond = np.abs(near.astype(np.float64)) > np.abs(x)
    cut = np.where(is_beyond & np.isfinite(x), np.nextafter(near, np.float32(0)), near)
    is_inexact = (cut.astype(np.float64) != x) & np.isfinite(x)
    return bf16_of_f32((cut.view(np.uint32) | is_inexact).astype(np.uint32).view(np.float32))


def least(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The lesser of floats: a number before NaN, -0 before 0."""
    return np.where((x == 0) & (y == 0) & np.signbit(x), x, np.fmin(x, y))


def greatest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == 0) & (y == 0) & ~np.signbit(x), x, np.fmax(x, y))
