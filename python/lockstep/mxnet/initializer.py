# SPDX-License-Identifier: Apache-2.0
"""mx.init: how parameters start."""

import json
import math
import re

import numpy as np

from lockstep import ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import MXNetError, nearest
from lockstep.mxnet.ndarray.ndarray import NDArray

_REGISTRY = {}
_NAMES = {"zeros": "zero", "ones": "one", "gaussian": "normal"}


class InitDesc(str):
    """A parameter's name, and what was said about it."""

    def __new__(cls, name, attrs=None, global_init=None):
        made = super().__new__(cls, name)
        made.attrs = attrs or {}
        made.global_init = global_init
        return made


def register(klass):
    """Makes an initialiser known by its class's name."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def create(init, **kwargs):
    """An initialiser of itself, of a name, or of what dumps() wrote."""
    if init is None or callable(init) and not isinstance(init, type):
        return init
    if isinstance(init, type):
        return init(**kwargs)
    if init.startswith("["):
        name, kwargs = json.loads(init)
    else:
        name = init
    name = _NAMES.get(name.lower(), name.lower())
    if name not in _REGISTRY:
        raise MXNetError(f"init: there is no '{init}' (there are: {', '.join(sorted(_REGISTRY))}"
                         f"){nearest(name, _REGISTRY)}")
    return _REGISTRY[name](**kwargs)


def describe(init):
    """What InitDesc carries for one parameter: '' for the default."""
    return "" if init is None else init


def _draw(array, op, **kwargs):
    tensor = array._tensor
    dtype = tensor.dtype.name if tensor.dtype.is_floating and tensor.dtype.name != "bfloat16" else (
        "float32")
    tensor.assign(_random_state.draw(op, None, shape=tensor.shape, dtype=dtype, **kwargs))


class Initializer:
    """Fills an array by its name: init(InitDesc(name), array)."""

    def __init__(self, **kwargs):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func = None

    def set_verbosity(self, verbose=False, print_func=None):
        """Says what it does."""
        self._verbose, self._print_func = verbose, print_func
        return self

    def dumps(self):
        """Itself as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __eq__(self, other):
        return isinstance(other, Initializer) and self.dumps() == other.dumps()

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return f"{type(self).__name__}({self._kwargs})"

    def __call__(self, desc, arr):
        if not isinstance(desc, InitDesc):
            desc = InitDesc(desc)
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "")
        if own is not None and not (isinstance(own, str) and own == ""):
            made = create(own)
            if hasattr(made, "_init_weight"):
                made._init_weight(desc, arr)
            else:
                # Mixed and Load choose by the name, and among others this one.
                rest = {key: value for key, value in desc.attrs.items() if key != "__init__"}
                made(InitDesc(desc, rest, desc.global_init), arr)
            return
        self._by_name(desc, arr)

    def _by_name(self, desc, arr):
        name = str(desc)
        if name.endswith("weight"):
            self._init_weight(desc, arr)
        elif name.endswith("bias"):
            self._init_bias(desc, arr)
        elif name.endswith("gamma"):
            self._init_gamma(desc, arr)
        elif name.endswith("beta"):
            self._init_beta(desc, arr)
        elif name.endswith(("moving_mean", "running_mean", "moving_inv_var", "moving_avg", "min")):
            self._init_zero(desc, arr)
        elif name.endswith(("moving_var", "running_var", "max")):
            self._init_one(desc, arr)
        else:
            self._init_default(desc, arr)

    def init_weight(self, name, arr):
        """Public name of _init_weight."""
        self._init_weight(name, arr)

    def _init_zero(self, _, arr):
        arr._tensor.assign(0.0)

    def _init_one(self, _, arr):
        arr._tensor.assign(1.0)

    _init_bias = _init_beta = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name, arr):
        raise NotImplementedError(f"{type(self).__name__} has no _init_weight")

    def _init_default(self, name, arr):
        raise ValueError(
            f"Unknown initialization pattern for {name}. Default initialization is now limited to "
            "\"weight\", \"bias\", \"gamma\" (1.0), and \"beta\" (0.0). Please use "
            "mx.sym.Variable(init=mx.init.*) to set initialization pattern")


@register
class Zero(Initializer):
    """All 0."""

    def _init_weight(self, name, arr):
        arr._tensor.assign(0.0)

    _init_default = _init_weight


@register
class One(Initializer):
    """All 1."""

    def _init_weight(self, name, arr):
        arr._tensor.assign(1.0)

    _init_default = _init_weight


@register
class Constant(Initializer):
    """All of one value, or an array."""

    def __init__(self, value):
        plain = value if not hasattr(value, "tolist") else np.asarray(value).tolist()
        super().__init__(value=plain)
        self.value = value

    def _init_weight(self, name, arr):
        value = self.value
        if isinstance(value, NDArray):
            value = value.asnumpy()
        if isinstance(value, (list, tuple, np.ndarray)):
            arr[:] = np.asarray(value, dtype=np.dtype(arr.dtype)).reshape(arr.shape)
        else:
            arr._tensor.assign(float(value))

    _init_default = _init_weight


@register
class Uniform(Initializer):
    """From -scale to scale."""

    def __init__(self, scale=0.07):
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name, arr):
        _draw(arr, ops.uniform, low=-self.scale, high=self.scale)


@register
class Normal(Initializer):
    """Normal, of deviation sigma."""

    def __init__(self, sigma=0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name, arr):
        _draw(arr, ops.normal, stddev=self.sigma)


@register
class TruncNorm(Initializer):
    """Normal, no further from the mean than two deviations."""

    def __init__(self, mean=0.0, stdev=0.01):
        super().__init__(mean=mean, stdev=stdev)
        self.mean, self.stdev = mean, stdev

    def _init_weight(self, name, arr):
        generator = _random_state.generator()
        made = generator.normal(size=arr.shape)
        while (far := np.abs(made) > 2).any():
            made[far] = generator.normal(size=int(far.sum()))
        arr[:] = (self.mean + self.stdev * made).astype("float32")


@register
class Orthogonal(Initializer):
    """Rows, or columns, at right angles."""

    def __init__(self, scale=1.414, rand_type="uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, name, arr):
        rows, columns = arr.shape[0], int(np.prod(arr.shape[1:]))
        generator = _random_state.generator()
        start = (generator.uniform(-1, 1, (rows, columns)) if self.rand_type == "uniform"
                 else generator.normal(size=(rows, columns)))
        u, _, v = np.linalg.svd(start, full_matrices=False)
        made = u if u.shape == start.shape else v
        arr[:] = (self.scale * made).reshape(arr.shape).astype("float32")


@register
class Xavier(Initializer):
    """By the numbers of inputs and outputs of a unit."""

    def __init__(self, rnd_type="uniform", factor_type="avg", magnitude=3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type = rnd_type, factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name, arr):
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(f"Xavier initializer cannot be applied to vector {name}. It requires "
                             "at least 2D.")
        area = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * area, shape[0] * area
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError("Incorrect factor type")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            _draw(arr, ops.uniform, low=-scale, high=scale)
        elif self.rnd_type == "gaussian":
            _draw(arr, ops.normal, stddev=scale)
        else:
            raise ValueError("Unknown random type")


@register
class MSRAPrelu(Xavier):
    """Xavier for relu and its like."""

    def __init__(self, factor_type="avg", slope=0.25):
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """What makes a deconvolution enlarge pictures."""

    def _init_weight(self, name, arr):
        size = arr.shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        places = np.arange(size)
        line = 1 - np.abs(places / factor - centre)
        arr[:] = np.broadcast_to(np.outer(line, line), arr.shape).astype("float32")


@register
class LSTMBias(Initializer):
    """0, and a value for the forget gates."""

    def __init__(self, forget_bias=1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name, arr):
        hidden = arr.shape[0] // 4
        arr._tensor.assign(0.0)
        arr._tensor[hidden:2 * hidden].assign(self.forget_bias)

    _init_bias = _init_default = _init_weight


@register
class FusedRNN(Initializer):
    """For the flat array of recurrent layers: each gate's weights and biases by another
    initialiser, or by the net's where `init` is None; biases of forget gates apart."""

    def __init__(self, init, num_hidden, num_layers, mode, bidirectional=False, forget_bias=1.0):
        super().__init__(init=init if init is None or isinstance(init, str) else init.dumps(),
                         num_hidden=num_hidden, num_layers=num_layers, mode=mode,
                         bidirectional=bidirectional, forget_bias=forget_bias)
        self._init = create(init)

    def _init_weight(self, name, arr):
        from lockstep.mxnet.rnn import FusedRNNCell

        told = self._kwargs
        cell = FusedRNNCell(told["num_hidden"], told["num_layers"], told["mode"],
                            told["bidirectional"], prefix="")
        init = self._init if self._init is not None else name.global_init
        pieces = cell.unpack_weights({"parameters": arr})
        for piece, value in pieces.items():
            if told["mode"] == "lstm" and piece.endswith("_f_bias"):
                value[:] = told["forget_bias"]
            else:
                init(InitDesc(piece, global_init=init), value)
        arr._tensor.assign(cell.pack_weights(pieces)["parameters"]._tensor)

    _init_default = _init_weight


@register
class Mixed:
    """The first initialiser whose expression matches the name."""

    def __init__(self, patterns, initializers):
        if len(patterns) != len(initializers):
            raise AssertionError("Mixed: as many patterns as initializers")
        self.map = [(re.compile(p), create(i)) for p, i in zip(patterns, initializers)]

    def __call__(self, name, arr):
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(f"Parameter name {name} did not match any pattern. Consider adding a "
                         "\".*\" pattern at the and with default Initializer.")


@register
class Load:
    """From a file or a dict, by name."""

    def __init__(self, param, default_init=None, verbose=False):
        if isinstance(param, str):
            from lockstep.mxnet.ndarray import load

            param = load(param)
        self.param = {re.sub("^(arg|aux):", "", name): value for name, value in param.items()}
        self.default_init = default_init

    def __call__(self, name, arr):
        if name in self.param:
            if arr.shape != self.param[name].shape:
                raise AssertionError(f"Parameter {name} cannot be initialized from loading. Shape "
                                     f"mismatch, target {arr.shape} vs loaded "
                                     f"{self.param[name].shape}")
            arr[:] = self.param[name]
        elif self.default_init is None:
            raise AssertionError(f"Cannot Initialize {name}. Not found in loaded param and no "
                                 "default Initializer is provided.")
        else:
            self.default_init(name, arr)


Zeros, Ones = Zero, One
__all__ = ["Bilinear", "Constant", "FusedRNN", "InitDesc", "Initializer", "LSTMBias", "Load",
           "MSRAPrelu", "Mixed", "Normal", "One", "Ones", "Orthogonal", "TruncNorm", "Uniform",
           "Xavier", "Zero", "Zeros", "create", "register"]
