# SPDX-License-Identifier: Apache-2.0
"""MXNet's codes in shapes."""

import math

from lockstep.errors import InvalidArgument
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
        raise InvalidArgument(f"reshape: {own} has {math.prod(own)} elements, {shown} another "
                              "number")
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


def np_shape(own, wanted, reverse=False):
    """The shape that `wanted` means to npx.reshape: -1 is what is left, -2 copies an extent, -3
    leaves out one of 1, -4 copies all that remain, -5 multiplies two, -6 splits one in the two that
    follow it. `reverse` reads from the right."""
    if not reverse:
        return _np_shape(own, wanted, wanted)
    # The two parts of a split follow its code whichever way it is read.
    flipped, i = [], 0
    while i < len(wanted):
        count = 3 if wanted[i] == -6 else 1
        part = wanted[i:i + count]
        flipped[:0] = (part[0], *part[:0:-1])
        i += count
    return _np_shape(own[::-1], tuple(flipped), wanted)[::-1]


def _np_shape(own, wanted, shown):
    left, made, unknown = list(own), [], None
    codes = iter(wanted)

    def take():
        if not left:
            raise MXNetError(f"reshape: {shown} names more axes than {own} has")
        return left.pop(0)

    for code in codes:
        if code == -1:
            unknown = len(made)
            made.append(1)
            left[:1] = []
        elif code == -2:
            made.append(take())
        elif code == -3:
            extent = take()
            if extent != 1:
                raise MXNetError(f"reshape: -3 in {shown} leaves out an extent of 1, got {extent}")
        elif code == -4:
            made.extend(left)
            left.clear()
        elif code == -5:
            made.append(take() * take())
        elif code == -6:
            whole, first, second = take(), next(codes), next(codes)
            first = whole // second if first == -1 else first
            second = whole // first if second == -1 else second
            if first * second != whole:
                raise MXNetError(f"reshape: {whole} is not {first} times {second}")
            made.extend((first, second))
        elif code >= 0:
            made.append(code)
            left[:1] = []
        else:
            raise MXNetError(f"reshape: there is no code {code} in {shown}")
    if unknown is not None:
        known = math.prod(made)
        made[unknown] = math.prod(own) // known if known else 0
    if math.prod(made) != math.prod(own):
        raise MXNetError(f"reshape: {own} has {math.prod(own)} elements, {shown} another number")
    return tuple(made)
