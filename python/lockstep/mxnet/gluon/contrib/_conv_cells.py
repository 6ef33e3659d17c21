# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells on pictures: products with input and state are convolutions (Shi et al., 2015).
"""

from lockstep.mxnet.gluon.rnn.rnn_cell import GRUCell, HybridRecurrentCell, LSTMCell, RNNCell

__all__ = [f"Conv{dims}D{kind}Cell" for dims in (1, 2, 3) for kind in ("RNN", "LSTM", "GRU")]

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class _ConvGates:
    """The convolutions that stand in the place of a cell's dense products."""

    _dims = 2

    def __init__(self, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad=0,
                 i2h_dilate=1, h2h_dilate=1, i2h_weight_initializer=None,
                 h2h_weight_initializer=None, i2h_bias_initializer="zeros",
                 h2h_bias_initializer="zeros", conv_layout=None, activation="tanh", prefix=None,
                 params=None):
        HybridRecurrentCell.__init__(self, prefix=prefix, params=params)
        self._activation, self._gate = activation, "sigmoid"
        self._hidden_size, self._rows = hidden_channels, self._gates * hidden_channels
        self._layout = conv_layout or _LAYOUTS[self._dims]
        self._gate_axis = self._layout.index("C")
        self._i2h = self._geometry(i2h_kernel, i2h_dilate, self._each("i2h_pad", i2h_pad))
        self._h2h = self._geometry(h2h_kernel, h2h_dilate, None)
        self._set_shapes(tuple(input_shape))
        for name, shape, init in (
                ("i2h_weight", self._weight(self._in_channels, self._i2h), i2h_weight_initializer),
                ("h2h_weight", self._weight(hidden_channels, self._h2h), h2h_weight_initializer),
                ("i2h_bias", (self._rows,), i2h_bias_initializer),
                ("h2h_bias", (self._rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init,
                                                allow_deferred_init=True))

    def _each(self, name, value):
        """A number for each axis of the picture."""
        values = (value,) * self._dims if isinstance(value, int) else tuple(value)
        if len(values) != self._dims:
            raise AssertionError(f"{type(self).__name__}: {name} is {value!r}, expected a number "
                                 f"or {self._dims} of them")
        return values

    def _geometry(self, kernel, dilate, pad):
        """A convolution's; without padding of its own it keeps the extents."""
        kernel, dilate = self._each("kernel", kernel), self._each("dilate", dilate)
        if pad is None:
            if any(extent % 2 == 0 for extent in kernel):
                raise AssertionError(f"{type(self).__name__}: h2h_kernel is {kernel}, expected odd "
                                     "numbers")
            pad = tuple(d * (k - 1) // 2 for d, k in zip(dilate, kernel))
        return {"kernel": kernel, "dilate": dilate, "pad": pad, "stride": (1,) * self._dims,
                "num_filter": self._rows, "layout": self._layout}

    def _set_shapes(self, own):
        place = self._gate_axis - 1
        self._in_channels = own[place]
        extents = (own[:place] + own[place + 1:])
        g = self._i2h
        made = [x + 2 * p - d * (k - 1) if x else 0
                for x, p, d, k in zip(extents, g["pad"], g["dilate"], g["kernel"])]
        made.insert(place, self._hidden_size)
        self._state_shape = tuple(made)

    def _weight(self, channels, geometry):
        first = (self._rows,)
        if self._gate_axis == 1:
            return first + (channels,) + geometry["kernel"]
        return first + geometry["kernel"] + (channels,)

    def infer_shape(self, x, *args):
        self.i2h_weight.shape = self._weight(x.shape[self._gate_axis], self._i2h)

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size,) + self._state_shape,
                 "__layout__": self._layout}] * self._states

    def _products(self, F, inputs, states, own):  # noqa: N803
        return (F.Convolution(inputs, own["i2h_weight"], own["i2h_bias"], **self._i2h),
                F.Convolution(states[0], own["h2h_weight"], own["h2h_bias"], **self._h2h))

    def __repr__(self):
        channels = self.i2h_weight.shape[self._gate_axis if self._gate_axis == 1 else -1]
        return (f"{type(self).__name__}({channels or None} -> {self._rows}, {self._activation}, "
                f"{self._layout})")


def _cell(dims, kind, base):
    name = f"Conv{dims}D{kind}Cell"
    body = {"_dims": dims, "_alias": lambda self: f"conv_{kind.lower()}", "__module__": __name__,
            "__doc__": f"{base.__name__} whose input and state have {dims} axes and channels."}
    return type(name, (_ConvGates, base), body)


for _dims in (1, 2, 3):
    for _kind, _base in (("RNN", RNNCell), ("LSTM", LSTMCell), ("GRU", GRUCell)):
        globals()[f"Conv{_dims}D{_kind}Cell"] = _cell(_dims, _kind, _base)
