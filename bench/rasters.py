"""Synthetic rasters that compress like real ones, with fixed seeds. All are (height, width, bands)."""

import numpy as np

BANDS = 4
CLASSES = 12


def spectral_surface(size: int, falloff: float, rng: np.random.Generator) -> np.ndarray:
    """A random surface whose amplitude falls with frequency to the power of `falloff`, scaled to 0..1."""
    rows = np.fft.fftfreq(size).astype(np.float32)[:, None]
    cols = np.fft.rfftfreq(size).astype(np.float32)[None, :]
    frequency = np.hypot(rows, cols)
    frequency[0, 0] = np.inf
    spectrum = rng.standard_normal((2, *frequency.shape), dtype=np.float32)
    amplitude = frequency ** np.float32(-falloff)
    surface = np.fft.irfft2((spectrum[0] + 1j * spectrum[1]) * amplitude, s=(size, size)).astype(np.float32)
    surface -= surface.min()
    surface /= surface.max()
    return surface


def dem(size: int) -> np.ndarray:
    """Elevations in metres, rounded to millimetres, float32."""
    metres = spectral_surface(size, 2.0, np.random.default_rng(1)) * 3000
    return np.round(metres.astype(np.float64), 3).astype(np.float32)[..., None]


def scene(size: int) -> np.ndarray:
    """Digital numbers of four correlated bands with sensor noise, uint16."""
    rng = np.random.default_rng(2)
    ground = spectral_surface(size, 1.4, rng)
    out = np.empty((size, size, BANDS), np.uint16)
    for band in range(BANDS):
        own = spectral_surface(size, 1.4, rng)
        signal = 400 + band * 250 + (0.7 * ground + 0.3 * own) * (2000 + band * 700)
        # Shot noise grows with the signal; read noise does not.
        noise = rng.standard_normal(signal.shape, dtype=np.float32) * np.sqrt(64 + signal * 0.05)
        out[..., band] = np.clip(np.rint(signal + noise), 0, 65535)
    return out


def rgb(size: int) -> np.ndarray:
    """Colours of an aerial photograph, uint8."""
    rng = np.random.default_rng(3)
    ground = spectral_surface(size, 1.0, rng)
    out = np.empty((size, size, 3), np.uint8)
    for band in range(3):
        signal = 20 + (0.85 * ground + 0.15 * spectral_surface(size, 1.0, rng)) * 215
        out[..., band] = np.clip(np.rint(signal + rng.standard_normal(signal.shape, dtype=np.float32) * 3), 0, 255)
    return out


def classes(size: int) -> np.ndarray:
    """Land cover classes with connected regions, uint8. Deflate makes them about thirty times smaller."""
    quarter = spectral_surface(size // 2, 1.75, np.random.default_rng(4))
    labels = (quarter * CLASSES).astype(np.uint8)
    # Mirrored copies: a codec sees one tile at a time, so they do not help it, and a quarter is made four times faster.
    half = np.concatenate([labels, labels[:, ::-1]], axis=1)
    return np.concatenate([half, half[::-1]], axis=0)[..., None]


RASTERS = {"dem": dem, "scene": scene, "rgb": rgb, "classes": classes}
PIECE = 4096
LARGEST = 8192
"""A larger terrain, or one that is not square, repeats a piece: codecs see one tile at a time and do not notice."""


def make(raster: str, width: int, height: int) -> np.ndarray:
    if width == height and (width <= LARGEST or raster == "classes"):
        return RASTERS[raster](width)
    piece = RASTERS[raster](PIECE)
    return np.tile(piece, (-(-height // PIECE), -(-width // PIECE), 1))[:height, :width]
