"""Deterministic rasters, bands first, that cover the whole range of a sample type."""

import zlib

import numpy as np

# numpy has no dtype for GDAL's complex integers; complex64 holds them instead.
COMPLEX_INT = "complex_int16"


def generator(seed: str) -> np.random.Generator:
    """A random generator that depends only on the case's name."""
    return np.random.default_rng(zlib.crc32(seed.encode()))


def relief(rng: np.random.Generator, bands: int, height: int, width: int) -> np.ndarray:
    """A smooth surface with some noise in 0..1: compressible, and different in every band."""
    y = np.linspace(0, 3, height)[:, None]
    x = np.linspace(0, 4, width)[None, :]
    surfaces = [np.sin(x * (1 + b / 3) + b) * np.cos(y + b / 2) for b in range(bands)]
    noisy = np.stack(surfaces) + rng.normal(scale=0.05, size=(bands, height, width))
    low, high = noisy.min(), noisy.max()
    return (noisy - low) / (high - low) if high > low else np.zeros_like(noisy)


def pixels(seed: str, dtype: str, bands: int, height: int, width: int, bits: int | None = None) -> np.ndarray:
    """A raster of `dtype` that uses its whole range, or its lowest `bits` bits."""
    rng = generator(seed)
    surface = relief(rng, bands, height, width)
    if dtype == COMPLEX_INT:
        parts = np.rint(surface * 65535 - 32768)
        return (parts + 1j * np.flip(parts, axis=2)).astype(np.complex64)
    kind = np.dtype(dtype)
    if kind.kind == "c":
        return (surface * 2e3 - 1e3 + 1j * np.flip(surface, axis=2)).astype(kind)
    if kind.kind == "f":
        return special_floats((surface * 2e3 - 1e3).astype(kind))
    low, high = (0, 2**bits - 1) if bits else (np.iinfo(kind).min, np.iinfo(kind).max)
    # A float surface cannot hold 64 bits, so integer noise fills the low bits.
    values = np.clip(surface * (high - low) + low, low, high * (1 - 2**-53)).astype(kind)
    if kind.itemsize == 8:
        values ^= rng.integers(0, 1 << 20, values.shape).astype(kind)
    values.flat[0], values.flat[-1] = high, low
    return values


def special_floats(values: np.ndarray) -> np.ndarray:
    """Inserts the values that a predictor or a cast damages most easily."""
    limits = np.finfo(values.dtype)
    special = [np.nan, np.inf, -np.inf, -0.0, limits.max, limits.tiny, limits.smallest_subnormal]
    if values.size > 4 * len(special):
        values.flat[3 :: values.size // len(special)][: len(special)] = special
    return values


def photo(seed: str, bands: int, height: int, width: int, dtype: str = "uint8", top: int = 255) -> np.ndarray:
    """A smooth picture for lossy codecs: colour changes slowly, as in a photograph."""
    rng = generator(seed)
    y = np.linspace(0, 2, height)[:, None]
    x = np.linspace(0, 2, width)[None, :]
    planes = [0.5 + 0.35 * np.sin(2 * x + y + b) * np.cos(y - b / 3) for b in range(bands)]
    noise = rng.normal(scale=0.008, size=(height, width))
    return np.clip((np.stack(planes) + noise) * top, 0, top).astype(dtype)
