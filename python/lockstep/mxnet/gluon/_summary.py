# SPDX-License-Identifier: Apache-2.0
"""Block.summary: a table of layers."""

import math

from lockstep.mxnet.ndarray.ndarray import NDArray


def _shapes(value):
    if isinstance(value, NDArray):
        return str(value.shape)
    if isinstance(value, (list, tuple)):
        return ", ".join(_shapes(item) for item in value)
    return str(value)


def _count(block):
    """(all, trainable) of the block's own parameters."""
    total = trainable = 0
    for parameter in block._reg_params.values():
        size = math.prod(parameter.shape)
        total += size
        trainable += size if parameter.grad_req != "null" else 0
    return total, trainable


def print_summary(block, inputs):
    """Calls the block and prints what its parts gave."""
    rows, handles, seen = [("Input", _shapes(inputs), 0)], [], set()
    totals = [0, 0]

    def hook(part, _, outputs):
        total, trainable = _count(part)
        rows.append((f"{type(part).__name__}-{len(rows)}", _shapes(outputs), total))
        if id(part) not in seen:
            seen.add(id(part))
            totals[0] += total
            totals[1] += trainable

    was_active = []

    def attach(part):
        handles.append(part.register_forward_hook(hook))
        if getattr(part, "_active", False):
            was_active.append(part)
            part._active = False

    block.apply(attach)
    try:
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
        for part in was_active:
            part._active = True
    line = "-" * 80
    print(line)
    print(f"{'Layer (type)':>20}  {'Output Shape':>42} {'Param #':>15}")
    print("=" * 80)
    for name, shape, count in rows:
        print(f"{name:>20}  {shape:>42} {count:>15}")
    print("=" * 80)
    print(f"Total params: {totals[0]}\n  Trainable params: {totals[1]}\n  Non-trainable params: "
          f"{totals[0] - totals[1]}")
    print(line)
