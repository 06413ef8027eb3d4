"""Pictures of the page, read and held against each other: coarse enough for another machine's fonts."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.int32]
_BLOCK = 40


def read_png(content: bytes) -> Pixels:
    """Return the pixels of a PNG of eight bits without interlacing, as a browser writes it: height × width × 3."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, colour = struct.unpack(">IIBB", content[16:26])
    assert depth == 8 and colour in (2, 6), "a picture as Chromium writes it"
    data, at = b"", 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + length]
        at += length + 12
    each = 3 if colour == 2 else 4
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * each)
    return _unfiltered(lines[:, :1], lines[:, 1:].reshape(height, width, each).astype(np.int32))[:, :, :3]


def _unfiltered(filters: npt.NDArray[np.uint8], given: Pixels) -> Pixels:
    """Return the pixels that were filtered, each row by its own filter: left, up, their mean, or Paeth's guess.

    A pixel is guessed from those left of it and above it, so a whole diagonal can be worked out at once.
    """
    height, width, each = given.shape
    found = np.zeros(
        (height + 1, width + 1, each), np.int32
    )  # with a border of nothing above and to the left
    for diagonal in range(height + width - 1):
        row = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        column = diagonal - row
        left, up, corner = found[row + 1, column], found[row, column + 1], found[row, column]
        to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        nearest = np.where(to_up <= to_corner, up, corner)
        nearest = np.where((to_left <= to_up) & (to_left <= to_corner), left, nearest)
        guess = np.choose(filters[row], (np.zeros_like(left), left, up, (left + up) // 2, nearest))
        found[row + 1, column + 1] = (given[row, column] + guess) & 255
    return found[1:, 1:]


def compact(content: bytes) -> bytes:
    """Return a PNG with the same pixels, smaller: flat areas compress best unfiltered, and a browser is in a hurry."""
    pixels = read_png(content).astype(np.uint8)
    height, width = pixels.shape[:2]
    lines = np.hstack((np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    found = content[:8]
    for name, data in chunks:
        found += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return found


def difference(one: bytes, other: bytes) -> float:
    """Return how much two pictures differ, from 0 to 1: the share of blocks whose mean colour is clearly another."""
    first, second = read_png(one), read_png(other)
    if first.shape != second.shape:
        return 1.0
    means = [_blocks(each) for each in (first, second)]
    return float((np.abs(means[0] - means[1]).max(axis=2) > 24).mean())


def _blocks(pixels: Pixels) -> npt.NDArray[np.float64]:
    height, width = (size // _BLOCK for size in pixels.shape[:2])
    cut = pixels[: height * _BLOCK, : width * _BLOCK]
    return cut.reshape(height, _BLOCK, width, _BLOCK, 3).mean(axis=(1, 3))
