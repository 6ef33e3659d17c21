# SPDX-License-Identifier: Apache-2.0
"""Where an array's numbers are: copies, windows and devices.

The engine's shape ops give windows on their input's memory. MXNet's ops give copies, which scripts
write to; only `x[i]`, contiguous slices, `x.reshape()` and `x.detach()` share memory.
"""

import functools

from lockstep import _core


def apart(tensor):
    """What a window shows, in memory of its own; recorded. Values of a trace do not change."""
    if tensor.is_symbolic:
        return tensor
    if _core.is_recording() and tensor.requires_grad:
        return tensor + -0.0  # the one number that changes no other, -0.0 included
    return tensor.copy()


def owning(function):
    """A function on tensors, with results in memory of their own."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        made = function(*args, **kwargs)
        if isinstance(made, (list, tuple)):
            return [apart(part) for part in made]
        return apart(made)

    return call


class _CopyToDevice:
    """A copy between devices whose gradient goes back."""

    def __init__(self, device):
        self.device = device

    def forward(self, x):
        self.origin = x.device
        return x.to(self.device)

    def backward(self, dy):
        return dy.to(self.origin)

    symbols = staticmethod(lambda x: [x])


def move(tensor, device):
    """The tensor on a device; recorded where it matters."""
    device = _core.cpu(0) if device == 0 else device
    if _core.is_recording() and tensor.requires_grad:
        return _core._call_function(_CopyToDevice(device), [tensor])[0]
    return tensor.to(device)


def fresh(source, moved):
    """A copy even where the device is the same."""
    if source.device == moved.device and not (_core.is_recording() and source.requires_grad):
        return source.copy()
    return moved
