# SPDX-License-Identifier: Apache-2.0
"""Metrics for TensorBoard: event files that it reads, written here."""

import os
import socket
import struct
import time


def _crc_table():
    table = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ 0x82F63B78 if c & 1 else c >> 1
        table.append(c)
    return table


_TABLE = _crc_table()


def _masked_crc(data):
    """CRC-32C, rotated and shifted as event files have it."""
    c = 0xFFFFFFFF
    for byte in data:
        c = _TABLE[(c ^ byte) & 0xFF] ^ (c >> 8)
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number):
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _event(step=None, name=None, value=None, version=None):
    made = b"\x09" + struct.pack("<d", time.time())
    if step is not None:
        made += b"\x10" + _varint(step)
    if version is not None:
        made += _field(3, version.encode())
    if name is not None:
        item = _field(1, name.encode()) + b"\x15" + struct.pack("<f", value)
        made += _field(5, _field(1, item))
    return made


class SummaryWriter:
    """Scalars in an event file of a folder."""

    def __init__(self, logdir):
        os.makedirs(logdir, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(os.path.join(logdir, name), "ab")
        self._write(_event(version="brain.Event:2"))

    def _write(self, event):
        head = struct.pack("<Q", len(event))
        self._file.write(head + struct.pack("<I", _masked_crc(head)) + event
                         + struct.pack("<I", _masked_crc(event)))
        self._file.flush()

    def add_scalar(self, tag, value, global_step=0):
        """A number at a step."""
        self._write(_event(int(global_step), tag, float(value)))

    def close(self):
        """Closes the file."""
        self._file.close()


class LogMetricsCallback:
    """Writes the metric after a batch, or an epoch."""

    def __init__(self, logging_dir, prefix=None):
        self.prefix, self.step = prefix, 0
        self.summary_writer = SummaryWriter(logging_dir)

    def __call__(self, param):
        self.step += 1
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            name = f"{self.prefix}-{name}" if self.prefix is not None else name
            self.summary_writer.add_scalar(name, value, self.step)
