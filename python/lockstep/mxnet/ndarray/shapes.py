# SPDX-License-Identifier: Apache-2.0
"""MXNet's codes in shapes."""

import math

from lockstep.mxnet.base import MXNetError


def infer_shape(own, wanted, reverse=False):
    """The shape that `wanted` means for an array of shape `own`.

    0 copies an extent, -1 is what is left, -2 copies all that remain, -3 multiplies two, -4 splits
    one in the two that follow it. `reverse` reads from the right.
    """
    if not any(extent <= 0 for extent in wanted):
        return tuple(wanted)
    if reverse:
        return _infer(own[::-1], wanted[::-1], wanted)[::-1]
    return _infer(own, wanted, wanted)


def _infer(own, wanted, shown):
    made, place, i = [], 0, 0
    unknown = -1

    def take():
        nonlocal place
        if place >= len(own):
            raise MXNetError(f"reshape: {shown} names more axes than {own} has")
        place += 1
        return own[place - 1]

    while i < len(wanted):
        code = wanted[i]
        i += 1
        if code == 0:
            made.append(take())
        elif code == -1:
            unknown = len(made)
            made.append(1)
            place += 1
        elif code == -2:
            made.extend(own[place:])
            place = len(own)
        elif code == -3:
            made.append(take() * take())
        elif code == -4:
            whole, left, right = take(), wanted[i], wanted[i + 1]
            i += 2
            if left == -1:
                left = whole // right
            if right == -1:
                right = whole // left
            if left * right != whole:
                raise MXNetError(f"reshape: {whole} is not {left} times {right}")
            made.extend((left, right))
        elif code > 0:
            made.append(code)
            place += 1
        else:
            raise MXNetError(f"reshape: there is no code {code} in {shown}")
    if unknown >= 0:
        known = math.prod(made)
        made[unknown] = math.prod(own) // known if known else 0
    if math.prod(made) != math.prod(own):
        raise MXNetError(f"reshape: {own} has {math.prod(own)} elements, {shown} another number")
    return tuple(made)


def axes_of(axis, ndim, exclude=False):
    """The axes that a reduction runs over, none for all."""
    if axis is None or (isinstance(axis, (tuple, list)) and not axis):
        return ()
    axes = [axis] if not isinstance(axis, (tuple, list)) else list(axis)
    for a in axes:
        if not -ndim <= a < ndim:
            raise MXNetError(f"axis {a} is out of range for {ndim} axes")
    axes = [a % ndim for a in axes]
    if exclude:
        axes = [a for a in range(ndim) if a not in axes]
    return tuple(axes)
