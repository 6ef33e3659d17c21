# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `lockstep bench ops`, one thread.

Reads lines `SECONDS OP OPERAND...` with operands such as f:32,64 (floats) and i10:32 (class numbers
below 10); answers with the time of a call and the mean magnitude of its result, so that both sides
can be seen to have computed the same.
"""

import json
import math
import sys
import time

import torch_threads

torch_threads.use(1)

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(json.dumps({"error": f"{sys.executable}: {error}"}), flush=True)
    sys.exit(1)


def attention(q, k, v):
    flat = (-1, *q.shape[2:])
    mask = torch.full((q.shape[2], k.shape[2]), -math.inf).triu(1)
    scores = torch.baddbmm(
        mask, q.reshape(flat), k.reshape(flat).transpose(1, 2), alpha=1 / math.sqrt(q.shape[3])
    )
    return torch.bmm(torch.softmax(scores, -1), v.reshape(flat)).view(q.shape)


def lstm(x, *weights):
    zeros = torch.zeros(1, x.shape[1], weights[1].shape[1])
    return torch.lstm(x, (zeros, zeros), list(weights), True, 1, 0.0, False, False, False)[1]


def ragged_lstm(x, *rest):
    weights, lengths = list(rest[:4]), rest[4] + 1
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    zeros = torch.zeros(1, x.shape[1], weights[1].shape[1])
    y = torch.lstm(
        packed.data, packed.batch_sizes, (zeros, zeros), weights, True, 1, 0.0, False, False
    )[0]
    packed = torch.nn.utils.rnn.PackedSequence(
        y, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
    )
    return torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=x.shape[0])[0]


def resized(mode, size):
    corners = None if mode == "nearest" else False
    return lambda x: F.interpolate(x, (size, size), mode=mode, align_corners=corners)


OPS = {
    **{f"nearest_{size}": resized("nearest", size) for size in (28, 64, 513)},
    **{f"bilinear_{size}": resized("bilinear", size) for size in (28, 64, 513)},
    "dilated_pool": lambda x: F.max_pool2d(x, 3, 1, 1, 2),
    "adaptive_avg_6": lambda x: F.adaptive_avg_pool2d(x, 6),
    "adaptive_max_6": lambda x: F.adaptive_max_pool2d(x, 6),
    "grid_sample": lambda x, grid: F.grid_sample(x, grid * 2, align_corners=False),
    "ragged_lstm": ragged_lstm,
    "add": torch.add,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "chain": lambda a, b: torch.sigmoid(a * b + 1.0) * a - b,
    "sum": torch.sum,
    "sum_rows": lambda x: x.sum(1),
    "sum_columns": lambda x: x.sum(0),
    "max_rows": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: torch.softmax(x, -1),
    "matmul": torch.matmul,
    "dense": F.linear,
    "conv": lambda x, w: F.conv2d(x, w, padding=1),
    "depthwise": lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]),
    "attention": attention,
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "batch_norm": lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True),
    "layer_norm": lambda x, g, b: F.layer_norm(x, g.shape, g, b),
    "cross_entropy": F.cross_entropy,
    "embedding": F.embedding,
    "lstm": lstm,
    "einsum_batched": lambda a, b: torch.einsum("bij,bjk->bik", a, b),
    "einsum_scores": lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b),
    "einsum_mixed": lambda a, b: torch.einsum("bhqk,bkhd->bqhd", a, b),
    "einsum_vector": lambda a, b: torch.einsum("ij,j->i", a, b),
    "scatter": lambda x, i, u: x.scatter(1, i, u),
    "scatter_add": lambda x, i, u: x.scatter_add(1, i, u),
    "transpose_add": lambda a, b: a.t() + b,
    "concat": lambda a, b: torch.cat((a, b), 1),
    "sort": lambda x: torch.sort(x, stable=True, dim=-1)[0],
    "topk": lambda x: torch.topk(x, 10)[0],
}


def operand(text, place):
    kind, sizes = text.split(":")
    shape = [int(size) for size in sizes.split(",")]
    index = np.arange(1 + place, 1 + place + math.prod(shape), dtype=np.uint32)
    bits = (index * np.uint32(2654435761)) >> np.uint32(8)
    if kind == "f":
        values = bits.astype(np.float32) * np.float32(2**-24) - np.float32(0.5)
    else:
        values = (bits % np.uint32(int(kind[1:]))).astype(np.int64)
    return torch.from_numpy(values.reshape(shape))


def window(function, operands, seconds):
    """Microseconds of a call."""
    calls, batch = 0, 1
    start = time.perf_counter()
    while True:
        for _ in range(batch):
            function(*operands)
        calls += batch
        spent = time.perf_counter() - start
        if spent >= seconds:
            return spent / calls * 1e6
        batch = min(2 * batch, 1000)


def main():
    torch.set_num_threads(1)
    print(json.dumps({"ready": "ops"}), flush=True)
    prepared = {}
    with torch.inference_mode():
        for line in sys.stdin:
            seconds, op, *texts = line.split()
            key = tuple(texts)
            if key not in prepared:
                prepared = {key: [operand(text, place) for place, text in enumerate(texts)]}
            result = OPS[op](*prepared[key])
            magnitude = result.double().abs().mean().item()
            us = window(OPS[op], prepared[key], float(seconds))
            print(json.dumps({"us": us, "magnitude": magnitude}), flush=True)


if __name__ == "__main__":
    main()
