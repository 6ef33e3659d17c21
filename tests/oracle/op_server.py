# SPDX-License-Identifier: Apache-2.0
"""Runs Lockstep's ops in a process of their own, for tests that have arrays. op_server.cpp has the
protocol."""

import json
import os
import pathlib
import select
import struct
import subprocess

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the server offers besides the catalogue.
FUNCTIONS = {
    "einsum", "rnn", "group_norm", "instance_norm", "global_avg_pool", "global_max_pool",
    "pixel_shuffle", "pixel_unshuffle", "cross_entropy", "kl_div",
}  # fmt: skip


class OpError(Exception):
    pass


class ServerDied(Exception):
    """In the middle of a request; the message says how, `way` what it was running."""

    way = ""


def is_floating(dtype):
    return "float" in dtype


class OpServer:
    def __init__(self, deadline=300.0):
        program = os.environ.get("LOCKSTEP_OP_SERVER", str(ROOT / "build/bin/op_server"))
        self.deadline = deadline
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def names(self):
        return set(self.ask({"command": "list"})["ops"]) | FUNCTIONS

    def ask(self, request):
        self._send(request)
        answer = self._receive()
        if "error" in answer:
            raise OpError(answer["error"])
        return answer

    def run(self, case, inputs, ways):
        """For each way (name, [array or None, ...]) or (name, OpError)."""
        elements = b"".join(numpy.ascontiguousarray(x).tobytes() for x in inputs)
        self._send({"command": "run", "case": case, "ways": list(ways)}, elements)
        way = ""
        try:
            while True:
                answer = self._receive()
                if "done" in answer:
                    return
                if "begin" in answer:
                    way = answer["begin"]
                elif "error" in answer:
                    yield way, OpError(answer["error"])
                else:
                    yield way, [self._array(t) for t in answer["tensors"]]
        except ServerDied as death:
            death.way = way
            raise

    def _array(self, tensor):
        if tensor is None:
            return None
        dtype = numpy.dtype(numpy.float64 if is_floating(tensor["dtype"]) else numpy.int64)
        count = int(numpy.prod(tensor["shape"], dtype=numpy.int64))
        values = numpy.frombuffer(self._read(count * dtype.itemsize), dtype)
        return values.reshape(tensor["shape"])

    def _send(self, request, elements=b""):
        text = json.dumps(request).encode()
        try:
            view = memoryview(struct.pack("<I", len(text)) + text + elements)
            while view:
                view = view[self.process.stdin.write(view) :]
        except OSError:
            self._fail()

    def _receive(self):
        (length,) = struct.unpack("<I", self._read(4))
        return json.loads(self._read(length))

    def _read(self, count):
        data = b""
        while len(data) < count:
            if not select.select([self.process.stdout], [], [], self.deadline)[0]:
                self.process.kill()
                self.process.wait()
                raise ServerDied(f"no answer in {self.deadline:.0f} s")
            part = self.process.stdout.read(count - len(data))
            if not part:
                self._fail()
            data += part
        return data

    def _fail(self):
        status = self.process.wait(timeout=self.deadline)
        raise ServerDied(f"signal {-status}" if status < 0 else f"exit status {status}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)
