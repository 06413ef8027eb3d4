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
    found = np.zeros((height, width * each), np.uint8)
    above = np.zeros(width * each, np.uint8)
    for row in range(height):
        found[row] = above = _unfiltered(int(lines[row, 0]), lines[row, 1:], above, each)
    return found.reshape(height, width, each)[:, :, :3].astype(np.int32)


def _unfiltered(
    kind: int, line: npt.NDArray[np.uint8], above: npt.NDArray[np.uint8], each: int
) -> npt.NDArray[np.uint8]:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    found = bytearray(line.tobytes())
    up = above.tobytes()
    for at in range(len(found)):
        left = found[at - each] if at >= each else 0
        corner = up[at - each] if at >= each else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up[at]) // 2
        else:
            base = left + up[at] - corner
            guess = min((left, up[at], corner), key=lambda one: abs(base - one))
        found[at] = (found[at] + guess) & 255
    return np.frombuffer(bytes(found), np.uint8)


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
