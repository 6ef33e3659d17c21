# SPDX-License-Identifier: Apache-2.0
"""The ops that are methods of arrays: x.sum(axis=0) is nd.sum(x, axis=0)."""

from lockstep.mxnet.ndarray.registry import op

_METHODS = """abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort
broadcast_axes cbrt ceil clip cos cosh degrees depth_to_space diag dot exp expand_dims expm1 fix
flatten flip floor log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot
ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt
shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort
space_to_depth split split_v2 sqrt square squeeze sum swapaxes take tan tanh tile topk trunc
zeros_like cumsum batch_dot""".split()


def _transpose(self, *axes, **kwargs):
    """Axes in another order; reversed when none is given."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (list, tuple))):
        axes = axes[0] or ()
    return op("transpose")(self, axes=kwargs.get("axes", axes) or ())


def _perhaps_in_place(name):
    """A method that gives the same memory in another shape where it is told to, else a copy."""
    function = op(name)

    def call(self, *args, inplace=False, **kwargs):
        if inplace:
            return self._out(function.impl(self._tensor, *args, **kwargs))
        return function(self, *args, **kwargs)

    call.__name__, call.__doc__ = name, function.__doc__
    return call


def complete(cls):
    """Adds them to the class."""
    for name in _METHODS:
        if name not in cls.__dict__:
            setattr(cls, name, op(name))
    for name in ("flatten", "squeeze", "expand_dims"):
        setattr(cls, name, _perhaps_in_place(name))
    cls.transpose = _transpose
