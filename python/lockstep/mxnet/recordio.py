# SPDX-License-Identifier: Apache-2.0
"""RecordIO files: records of any bytes one after the other, and images packed into them.

A record is `u32 magic, u32 flag and length, bytes, zeros up to a multiple of 4`. Where the magic
itself stands in a record's bytes at a multiple of 4, the record is cut there into parts.
"""

import numbers
import os
import struct
from collections import namedtuple

import numpy as np

from lockstep.errors import Corrupt, InvalidArgument

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)

IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
_IR_FORMAT = "<IfQQ"
_IR_SIZE = struct.calcsize(_IR_FORMAT)


def _parts(data):
    """The bytes between those magics that stand at a multiple of 4."""
    parts, begin, at = [], 0, data.find(_MAGIC_BYTES)
    while at >= 0:
        if at % 4 == 0:
            parts.append(data[begin:at])
            begin = at + 4
            at = data.find(_MAGIC_BYTES, begin)
        else:
            at = data.find(_MAGIC_BYTES, at + 1)
    parts.append(data[begin:])
    return parts


def encode_record(data):
    """A record as it stands in a file."""
    if len(data) >= 1 << _LENGTH_BITS:
        raise InvalidArgument(f"recordio: a record of {len(data)} bytes, expected less than 2^29")
    parts = _parts(data)
    out = []
    for number, part in enumerate(parts):
        flag = _WHOLE
        if len(parts) > 1:
            flag = _FIRST if number == 0 else _LAST if number == len(parts) - 1 else _MIDDLE
        out.append(struct.pack("<II", MAGIC, flag << _LENGTH_BITS | len(part)))
        out += [part, bytes(-len(part) % 4)]
    return b"".join(out)


class MXRecordIO:
    """Records of a file in their order, to read ('r') or to write ('w')."""

    def __init__(self, uri, flag):
        self.uri, self.flag = str(uri), flag
        self.record, self.is_open, self.pid = None, False, None
        self.open()

    def open(self):
        """Opens the file, at its first record."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"recordio: the flag is {self.flag!r}, expected 'r' or 'w'")
        self.writable = self.flag == "w"
        self.record = open(self.uri, "wb" if self.writable else "rb")
        self.size = 0 if self.writable else os.fstat(self.record.fileno()).st_size
        self.pid, self.is_open = os.getpid(), True

    def close(self):
        """Closes the file."""
        if self.is_open:
            self.record.close()
            self.is_open, self.pid = False, None

    def __del__(self):
        if getattr(self, "is_open", False):
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        state = dict(self.__dict__)
        was_open = self.is_open
        if self.writable:
            raise RuntimeError("recordio: a file that is written cannot be pickled")
        state.update(record=None, is_open=was_open)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        was_open, self.is_open = self.is_open, False
        if was_open:
            self.open()

    def _check_pid(self, allow_reset=False):
        # A file's position is shared with the process it was inherited from.
        if self.pid == os.getpid():
            return
        if not allow_reset:
            raise RuntimeError("recordio: the file was opened by another process")
        self.reset()

    def reset(self):
        """Back to the first record; a file that is written begins anew."""
        self.close()
        self.open()

    def write(self, buf):
        """Appends a record: bytes, or a string."""
        if not self.writable:
            raise RuntimeError("recordio: the file is open to read")
        self._check_pid()
        self.record.write(encode_record(buf.encode() if isinstance(buf, str) else bytes(buf)))

    def _chunk(self):
        at = self.record.tell()
        head = self.record.read(8)
        if not head:
            return None
        if len(head) < 8:
            raise Corrupt(f"{self.uri}: the file ends within a record's head at byte {at}")
        magic, word = struct.unpack("<II", head)
        if magic != MAGIC:
            raise Corrupt(f"{self.uri}: no record begins at byte {at}")
        length = word & ((1 << _LENGTH_BITS) - 1)
        padded = length + -length % 4
        if at + 8 + length > self.size:
            raise Corrupt(f"{self.uri}: the record at byte {at} has {length} bytes, and "
                          f"{self.size - at - 8} are left")
        return word >> _LENGTH_BITS, self.record.read(padded)[:length]

    def read(self):
        """The next record's bytes, or None at the end."""
        if self.writable:
            raise RuntimeError("recordio: the file is open to write")
        self._check_pid(allow_reset=True)
        at = self.record.tell()
        chunk = self._chunk()
        if chunk is None or chunk[0] == _WHOLE:
            return chunk and chunk[1]
        if chunk[0] != _FIRST:
            raise Corrupt(f"{self.uri}: the record at byte {at} begins with a later part")
        parts = [chunk[1]]
        while chunk[0] != _LAST:
            chunk = self._chunk()
            if chunk is None or chunk[0] not in (_MIDDLE, _LAST):
                raise Corrupt(f"{self.uri}: the record at byte {at} lacks its last part")
            parts.append(chunk[1])
        return _MAGIC_BYTES.join(parts)

    def tell(self):
        """The byte that the next record begins at."""
        return self.record.tell()


class MXIndexedRecordIO(MXRecordIO):
    """Records that are found by a key; the index is a text file of keys and bytes."""

    def __init__(self, idx_path, uri, flag, key_type=int):
        self.idx_path, self.key_type = str(idx_path), key_type
        self.idx, self.keys, self.fidx = {}, [], None
        super().__init__(uri, flag)

    def open(self):
        super().open()
        self.idx, self.keys = {}, []
        self.fidx = open(self.idx_path, self.flag)
        if not self.writable:
            for number, line in enumerate(self.fidx, 1):
                self._take_line(number, line)

    def _take_line(self, number, line):
        fields = line.strip().split("\t")
        try:
            key, at = self.key_type(fields[0]), int(fields[1])
        except (IndexError, ValueError):
            raise Corrupt(f"{self.idx_path}:{number}: expected a key, a tab and a byte") from None
        self.idx[key] = at
        self.keys.append(key)

    def close(self):
        if self.is_open:
            super().close()
            self.fidx.close()

    def __getstate__(self):
        state = super().__getstate__()
        state["fidx"] = None
        return state

    def seek(self, idx):
        """To the record of a key."""
        if self.writable:
            raise RuntimeError("recordio: the file is open to write")
        self._check_pid(allow_reset=True)
        if idx not in self.idx:
            raise KeyError(f"{self.idx_path}: there is no record {idx!r}")
        self.record.seek(self.idx[idx])

    def read_idx(self, idx):
        """The record of a key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx, buf):
        """Appends a record and remembers its key."""
        key = self.key_type(idx)
        at = self.tell()
        self.write(buf)
        self.fidx.write(f"{key}\t{at}\n")
        self.idx[key] = at
        self.keys.append(key)


def pack(header, s):
    """A record of a header and bytes; labels that are several stand behind the header."""
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        header = header._replace(flag=0)
    else:
        label = np.asarray(header.label, dtype=np.float32)
        header = header._replace(flag=label.size, label=0)
        s = label.tobytes() + s
    return struct.pack(_IR_FORMAT, *header) + s


def unpack(s):
    """The header and the bytes of a record."""
    if len(s) < _IR_SIZE:
        raise Corrupt(f"recordio: a record of {len(s)} bytes has no header of {_IR_SIZE}")
    header = IRHeader(*struct.unpack(_IR_FORMAT, s[:_IR_SIZE]))
    s = s[_IR_SIZE:]
    if header.flag > 0:
        if len(s) < 4 * header.flag:
            raise Corrupt(f"recordio: {header.flag} labels in {len(s)} bytes")
        label = np.frombuffer(s, np.float32, header.flag)
        header, s = header._replace(label=label), s[4 * header.flag:]
    return header, s


def pack_img(header, img, quality=95, img_fmt=".jpg"):
    """A record of an image, as PNG. A quality of JPEG does not matter to it."""
    from lockstep.mxnet import image

    if img_fmt.lower() not in (".jpg", ".jpeg", ".png"):
        raise ValueError(f"pack_img: the format is {img_fmt!r}, expected '.png' or '.jpg'")
    return pack(header, image.encode(img, bgr=True))


def unpack_img(s, iscolor=-1):
    """The header of a record, and its image as an array [H, W, C] in the order BGR."""
    from lockstep.mxnet import image

    header, s = unpack(s)
    return header, image.decode_bgr(s, iscolor)
