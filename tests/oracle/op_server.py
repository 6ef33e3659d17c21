# SPDX-License-Identifier: Apache-2.0
"""Runs Lockstep's ops in a process of their own, for tests that have torch tensors."""

import json
import os
import pathlib
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
# What the server offers besides the catalogue.
FUNCTIONS = {"rnn", "group_norm", "instance_norm", "global_avg_pool", "global_max_pool"}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def encode(tensor):
    if tensor is None:
        return None
    data = tensor.detach().to(torch.float64).reshape(-1).tolist()
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data": data}


def decode(value):
    if value is None:
        return None
    data = [float("nan") if v is None else v for v in value["data"]]
    tensor = torch.tensor(data, dtype=torch.float64).reshape(value["shape"])
    return tensor.to(DTYPES[value["dtype"]])


class OpError(Exception):
    pass


class OpServer:
    def __init__(self):
        program = os.environ.get("LOCKSTEP_OP_SERVER", str(ROOT / "build/bin/op_server"))
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise OpError(f"the server died (exit {self.process.wait()}) on {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise OpError(answer["error"])
        return answer

    def names(self):
        return set(self.ask({"list": True})) | FUNCTIONS

    def run(self, op, attrs, inputs, output_grads):
        """Outputs, and the gradients of the inputs (None where there is none)."""
        answer = self.ask(
            {
                "op": op,
                "attrs": attrs,
                "inputs": [encode(x) for x in inputs],
                "output_grads": [encode(g) for g in output_grads],
            }
        )
        return [decode(y) for y in answer["outputs"]], [decode(g) for g in answer["gradients"]]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)
