# SPDX-License-Identifier: Apache-2.0
"""Element by element: functions of one array, of two that broadcast, and of an array and a number.
"""

import math

from lockstep import _core, ops
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.ndarray.indexing import written
from lockstep.mxnet.ndarray.memory import apart
from lockstep.mxnet.ndarray.registry import register, register_unary

_UNARY = {
    "abs": ops.abs, "sign": ops.sign, "ceil": ops.ceil, "floor": ops.floor, "trunc": ops.trunc,
    "square": ops.square, "sqrt": ops.sqrt, "rsqrt": ops.rsqrt, "exp": ops.exp, "log": ops.log,
    "log10": ops.log10, "log2": ops.log2, "log1p": ops.log1p, "expm1": ops.expm1, "sin": ops.sin,
    "cos": ops.cos, "tan": ops.tan, "arcsin": ops.asin, "arccos": ops.acos, "arctan": ops.atan,
    "sinh": ops.sinh, "cosh": ops.cosh, "tanh": ops.tanh, "arcsinh": ops.asinh,
    "arccosh": ops.acosh, "arctanh": ops.atanh, "relu": ops.relu, "sigmoid": ops.sigmoid,
    "erf": ops.erf, "erfinv": ops.erfinv, "reciprocal": ops.reciprocal, "negative": ops.negative,
    "fix": ops.trunc, "_copy": lambda x: x + 0, "identity": lambda x: x + 0,
    "stop_gradient": lambda x: apart(x.detach()), "BlockGrad": lambda x: apart(x.detach()),
    "softsign": lambda x: x / (abs(x) + 1), "zeros_like": lambda x: _core.zeros_like(x),
    "ones_like": lambda x: _core.ones_like(x), "softrelu": ops.softplus, "gelu": ops.gelu,
    "log_sigmoid": lambda x: -ops.softplus(-x), "mish": lambda x: x * ops.tanh(ops.softplus(x)),
    "degrees": lambda x: x * (180.0 / math.pi), "radians": lambda x: x * (math.pi / 180.0),
    "rint": lambda x: ops.ceil(x - 0.5), "isnan": lambda x: ops.cast(ops.isnan(x), x.dtype),
    "isinf": lambda x: ops.cast(ops.isinf(x), x.dtype),
    "isfinite": lambda x: ops.cast(ops.isfinite(x), x.dtype),
    "cbrt": lambda x: ops.sign(x) * ops.power(ops.abs(x), 1.0 / 3.0),
    "rcbrt": lambda x: ops.sign(x) * ops.power(ops.abs(x), -1.0 / 3.0),
    "round": lambda x: ops.sign(x) * ops.floor(ops.abs(x) + 0.5),
    "logical_not": lambda x: ops.cast(ops.logical_not(x), x.dtype),
    "_contrib_quadratic_identity": apart,
}
for _name, _op in _UNARY.items():
    register_unary(_op, _name)
for _alias, _name in {"_np_copy": "identity", "_identity": "identity"}.items():
    register_unary(_UNARY[_name], _alias)

# Lanczos's approximation, g = 7, nine terms.
_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)


def _log_gamma(x):
    """log(gamma(x)) for x of at least 0.5."""
    y = x - 1.0
    series = y * 0.0 + 0.99999999999980993
    for i, term in enumerate(_LANCZOS):
        series = series + term / (y + (i + 1.0))
    t = y + 7.5
    return 0.5 * math.log(2 * math.pi) + (y + 0.5) * ops.log(t) - t + ops.log(series)


@register("gammaln")
def gammaln(data):
    """The logarithm of |gamma(x)|; below 0.5 by the reflection formula."""
    x = ops.cast(data, "float64")
    small = x < 0.5
    above = _log_gamma(ops.where(small, 1.0 - x, x))
    reflected = math.log(math.pi) - ops.log(ops.abs(ops.sin(x * math.pi))) - above
    return ops.cast(ops.where(small, reflected, above), data.dtype)


@register("gamma")
def gamma(data):
    """The gamma function."""
    x = ops.cast(data, "float64")
    sign = ops.where(x > 0, x * 0 + 1, 1 - 2 * ops.remainder(ops.abs(ops.floor(x)), 2.0))
    return ops.cast(sign * ops.exp(gammaln(x)), data.dtype)


@register("digamma")
def digamma(data):
    """The slope of gammaln, by its asymptotic series after eight steps up."""
    x = ops.cast(data, "float64")
    result = x * 0
    for _ in range(8):
        result = result - 1.0 / x
        x = x + 1.0
    f = 1.0 / (x * x)
    series = f * (1 / 12.0 - f * (1 / 120.0 - f * (1 / 252.0 - f * (1 / 240.0))))
    return ops.cast(result + ops.log(x) - 0.5 / x - series, data.dtype)


def _ahead(behind, a, b):
    """a, or b where a is behind it or b is NaN. Of equal ones a has the gradient, as in MXNet."""
    if not isinstance(a, _core.Tensor):
        a, b = b, a
    chosen = behind(a, b)
    if isinstance(b, _core.Tensor) and b.dtype.is_floating:
        chosen = ops.logical_or(chosen, ops.isnan(b))
    return ops.where(chosen, b, a)


def larger(a, b):
    """The larger of both."""
    return _ahead(ops.less, a, b)


def smaller(a, b):
    """The smaller of both."""
    return _ahead(ops.greater, a, b)


_BINARY = {
    "add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "mod": ops.remainder,
    "power": ops.power, "maximum": larger, "minimum": smaller, "hypot": ops.hypot,
    "arctan2": ops.atan2,
}
_LOGIC = {
    "equal": ops.equal, "not_equal": ops.not_equal, "greater": ops.greater,
    "greater_equal": ops.greater_equal, "lesser": ops.less, "lesser_equal": ops.less_equal,
    "logical_and": ops.logical_and, "logical_or": ops.logical_or, "logical_xor": ops.logical_xor,
}
_INTEGERS = frozenset(("int8", "uint8", "int16", "int32", "int64"))


def divide(a, b):
    """a / b; of integers cut off, as MXNet's is."""
    kind = a.dtype if isinstance(a, _core.Tensor) else b.dtype
    both = all(isinstance(v, int) or (isinstance(v, _core.Tensor) and v.dtype.name in _INTEGERS)
               for v in (a, b))
    if both:
        return ops.cast(ops.divide(ops.cast(a, "float64"), b), kind)
    return ops.divide(a, b)


_BINARY["div"] = divide


def _logic(op):
    def call(a, b):
        kind = a.dtype if isinstance(a, _core.Tensor) else b.dtype
        return ops.cast(op(a, b), kind)

    return call


_BINARY.update({name: _logic(op) for name, op in _LOGIC.items()})
_OTHER_NAMES = {
    "add": ("broadcast_plus", "elemwise_add", "_plus", "_Plus", "_add"),
    "sub": ("broadcast_minus", "elemwise_sub", "_minus", "_Minus", "_sub", "subtract"),
    "mul": ("elemwise_mul", "_mul", "_Mul", "multiply"),
    "div": ("elemwise_div", "_div", "_Div", "divide", "true_divide"),
    "mod": ("modulo", "_mod", "_Mod"), "power": ("pow", "_power", "_Power", "elemwise_power"),
    "maximum": ("_maximum", "_Maximum"), "minimum": ("_minimum", "_Minimum"),
    "hypot": ("_hypot",), "equal": ("_equal",), "not_equal": ("_not_equal",),
    "greater": ("_greater",), "greater_equal": ("_greater_equal",), "lesser": ("_lesser",),
    "lesser_equal": ("_lesser_equal",), "logical_and": ("_logical_and",),
    "logical_or": ("_logical_or",), "logical_xor": ("_logical_xor",), "arctan2": (),
}


def _pair(op):
    def call(lhs, rhs, **unused):
        return op(lhs, rhs)

    return call


for _name, _op in _BINARY.items():
    register(_name, f"broadcast_{_name}", *_OTHER_NAMES[_name])(_pair(_op))


def _with_number(op, reverse):
    def call(data, scalar=1.0, is_int=None):
        if is_int is False or data.dtype.is_floating:
            scalar = float(scalar)
        elif float(scalar).is_integer():
            scalar = int(scalar)
        return op(_core._as_tensor(scalar).astype(data.dtype), data) if reverse else op(data, scalar)

    return call


for _name, _op in _BINARY.items():
    for _symbol in {"add": ("plus",), "sub": ("minus",)}.get(_name, (_name,)):
        register(f"_{_symbol}_scalar", f"_{_symbol.capitalize()}Scalar")(_with_number(_op, False))
        register(f"_r{_symbol}_scalar", f"_R{_symbol.capitalize()}Scalar")(_with_number(_op, True))


@register("clip")
def clip(data, a_min=-math.inf, a_max=math.inf):
    """Elements moved to the nearest of [a_min, a_max]."""
    low = -math.inf if a_min is None else float(a_min)
    return ops.clip(data, low, math.inf if a_max is None else float(a_max))


@register("cast", "Cast", "amp_cast")
def cast(data, dtype="float32"):
    """Another dtype."""
    return ops.cast(data, dtype_name(dtype))


@register("amp_multicast")
def amp_multicast(*data, num_outputs=None, cast_narrow=False):
    """All in the widest dtype among them."""
    widest = max(data, key=lambda x: x.dtype.itemsize)
    return [ops.cast(x, widest.dtype) for x in data]


@register("add_n", "ElementWiseSum", "elemwise_sum", "_grad_add_n")
def add_n(*args, num_args=None):
    """The sum of arrays."""
    args = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    total = args[0]
    for item in args[1:]:
        total = total + item
    return total + 0 if len(args) == 1 else total


@register("where")
def where(condition, x, y):
    """x where the condition is not 0, else y; a condition of one axis chooses rows."""
    if condition.ndim == 1 and x.ndim > 1 and condition.shape != x.shape:
        condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
    return ops.where(ops.not_equal(condition, 0), x, y)


@register("smooth_l1")
def smooth_l1(data, scalar=1.0):
    """Squares near 0, straight lines beyond 1 / scalar^2."""
    square = float(scalar) ** 2
    size = ops.abs(data)
    return ops.where(size < 1.0 / square, 0.5 * square * data * data, size - 0.5 / square)


@register("hard_sigmoid")
def hard_sigmoid(data, alpha=0.2, beta=0.5):
    """alpha x + beta, cut off at 0 and 1."""
    return ops.hard_sigmoid(data, alpha, beta)


@register("_contrib_quadratic", "quadratic")
def quadratic(data, a=0.0, b=0.0, c=0.0):
    """a x^2 + b x + c."""
    return a * data * data + b * data + c


@register("_scatter_set_nd")
def scatter_set_nd(lhs, rhs, indices, shape=None):
    """lhs with rhs at the indices."""
    return written(lhs, tuple(ops.cast(indices, "int64")), rhs)
