"""Synthetic rasters that compress like real ones: terrain, a four-band satellite scene, an aerial photograph."""

import argparse
from pathlib import Path

import numpy as np

SIZE = 8192
BANDS = 4


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


def dem(size: int = SIZE, seed: int = 1) -> np.ndarray:
    """Elevations in metres, rounded to millimetres, (1, size, size) float32."""
    metres = spectral_surface(size, 2.0, np.random.default_rng(seed)) * 3000
    return np.round(metres.astype(np.float64), 3).astype(np.float32)[None]


def scene(size: int = SIZE, seed: int = 2) -> np.ndarray:
    """Digital numbers of four correlated bands with sensor noise, (4, size, size) uint16."""
    rng = np.random.default_rng(seed)
    ground = spectral_surface(size, 1.4, rng)
    out = np.empty((BANDS, size, size), np.uint16)
    for band in range(BANDS):
        own = spectral_surface(size, 1.4, rng)
        signal = 400 + band * 250 + (0.7 * ground + 0.3 * own) * (2000 + band * 700)
        # Shot noise grows with the signal; read noise does not.
        noise = rng.standard_normal(signal.shape, dtype=np.float32) * np.sqrt(64 + signal * 0.05)
        out[band] = np.clip(np.rint(signal + noise), 0, 65535)
    return out


def rgb(size: int = SIZE, seed: int = 3) -> np.ndarray:
    """Colours of an aerial photograph, (3, size, size) uint8."""
    rng = np.random.default_rng(seed)
    ground = spectral_surface(size, 1.0, rng)
    out = np.empty((3, size, size), np.uint8)
    for band in range(3):
        signal = 20 + (0.85 * ground + 0.15 * spectral_surface(size, 1.0, rng)) * 215
        out[band] = np.clip(np.rint(signal + rng.standard_normal(signal.shape, dtype=np.float32) * 3), 0, 255)
    return out


PRODUCTS = {"dem": dem, "scene": scene, "rgb": rgb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder of the .npy files")
    parser.add_argument("--size", type=int, default=SIZE, help="rows and columns (default %(default)s)")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    for name, make in PRODUCTS.items():
        path = args.dir / f"{name}_{args.size}.npy"
        array = make(args.size)
        np.save(path, array)
        print(f"{path}: {array.shape} {array.dtype}, {array.min()} to {array.max()}")


if __name__ == "__main__":
    main()
