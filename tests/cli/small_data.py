# SPDX-License-Identifier: Apache-2.0
"""A few files of each kind of data: every recipe trains on them in a moment."""
import random
import struct
import zlib

KIND = {"mnist-lenet": "images", "cifar-cnn": "images", "cifar-resnet18": "images",
        "text-lstm": "mails", "char-gpt": "book"}
WORDS = "the white whale swims below a grey sky and the old ship waits for wind".split()


def png(width, height, pixels):
    """Grey ones, row by row."""
    def chunk(name, contents):
        return (struct.pack(">I", len(contents)) + name + contents
                + struct.pack(">I", zlib.crc32(name + contents)))
    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_all(folder):
    """Folders by name: images, mails, book."""
    draws = random.Random(1)
    for part, count in (("train", 8), ("test", 2)):
        for name in ("dark", "light"):
            images = folder / "images" / part / name
            images.mkdir(parents=True)
            for i in range(count):
                (images / f"{i}.png").write_bytes(png(32, 32, draws.randbytes(32 * 32)))
    for name in ("ham", "spam"):
        mails = folder / "mails" / name
        mails.mkdir(parents=True)
        for i in range(12):
            (mails / f"{i}.txt").write_text(" ".join(draws.choices(WORDS, k=40)))
    (folder / "book").mkdir()
    (folder / "book" / "book.txt").write_text(" ".join(draws.choices(WORDS, k=600)))
    return {name: folder / name for name in ("images", "mails", "book")}
