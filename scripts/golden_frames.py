"""Synthetic frames for goldens: an integer formula that tests/vision/synthetic_frame.h repeats."""

import numpy as np


def _mix(x):
    """lowbias32 (Chris Wellons' hash prospector): 32 bits in, 32 well mixed bits out."""
    x = np.asarray(x, np.uint64) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return x


def synthetic_frame(height, width, seed, kind):
    """RGB8 [height, width, 3]. kind: "noise", "binary" (0 or 255), "waves" (smooth, plus noise)."""
    index = np.arange(height * width * 3, dtype=np.uint64)
    noise = _mix(index + np.uint64((seed * 0x9E3779B9) & 0xFFFFFFFF))
    if kind == "noise":
        value = noise & np.uint64(255)
    elif kind == "binary":
        value = (noise & np.uint64(1)) * np.uint64(255)
    elif kind == "waves":
        channel = index % np.uint64(3)
        x = (index // np.uint64(3)) % np.uint64(width)
        y = index // np.uint64(3 * width)
        phase = x * np.uint64(5 + seed % 7) + y * np.uint64(3 + seed % 5) + channel * np.uint64(
            60 + seed % 50)
        phase = (phase + np.uint64(seed * 17)) % np.uint64(512)
        triangle = np.where(phase < 256, phase, np.uint64(511) - phase)
        value = (triangle * np.uint64(15) + (noise & np.uint64(255))) // np.uint64(16)
    else:
        raise ValueError(kind)
    return value.astype(np.uint8).reshape(height, width, 3)
