# SPDX-License-Identifier: Apache-2.0
"""sym.np and sym.npx: symbols that compute as NumPy's arrays do.

A call of sym.np.f becomes a node that is called as MXNet 1.9 calls it (_npi_f, or _np_f), its arrays
the inputs and what else it was given the attributes. It is run by mx.np.f.
"""

import ast
import inspect
import numbers

from lockstep.errors import InvalidArgument
from lockstep.mxnet import _graph, _op_table
from lockstep.mxnet.base import missing_name
from lockstep.mxnet.name import NameManager
from lockstep.mxnet.attribute import AttrScope
from lockstep.mxnet.symbol import Symbol, _op_function

# The functions whose op's name begins with _np_; that of all others begins with _npi_.
_PLAIN = frozenset("""all any atleast_1d atleast_2d atleast_3d copy cumsum diag diagflat diagonal dot
max min moveaxis prod reshape roll squeeze sum trace transpose repeat""".split())
_NAMES = {"abs": "_npi_absolute", "amax": "_np_max", "amin": "_np_min", "divide": "_npi_true_divide",
          "remainder": "_npi_mod", "random.randint": "_npi_random_randint", "linalg.inv": "_npi_inv"}
_FUNCTIONS = {"_npi_random_randint": "random.randint", "_npi_cast": "astype"}
# With a number in the place of an array these are ops of their own.
_SCALARS = {name: None for name in """add multiply maximum minimum equal not_equal bitwise_and
bitwise_or bitwise_xor lcm hypot floor_divide""".split()}
_SCALARS.update({name: f"_npi_r{name}_scalar" for name in """subtract true_divide mod power arctan2
copysign ldexp""".split()})
_SCALARS.update({"less": "_npi_greater_scalar", "greater": "_npi_less_scalar",
                 "less_equal": "_npi_greater_equal_scalar",
                 "greater_equal": "_npi_less_equal_scalar"})
_SAME_AS = {"divide": "true_divide", "remainder": "mod"}


def op_name(function):
    """The op that a function of mx.np is in a file."""
    plain = function.rpartition(".")[2]
    return _NAMES.get(function) or ("_np_" if function in _PLAIN else "_npi_") + plain


def is_np_op(op):
    """Whether mx.np runs it."""
    return op.startswith(("_npi_", "_np_", "_npx_")) and find(op) is not None


def find(op):
    """The function of arrays that an op's name means, or None."""
    from lockstep.mxnet import numpy, numpy_extension

    name = _FUNCTIONS.get(op) or op.split("_", 2)[2]
    if op.startswith("_npx_"):
        return getattr(numpy_extension, name, None)
    if op.endswith("_scalar"):
        return _scalar_function(op, numpy)
    if "." in name:
        family, name = name.split(".")
        return getattr(getattr(numpy, family), name, None)
    for place in (numpy, numpy.linalg, numpy.random):
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type):
            return found
    return None


def _scalar_function(op, numpy):
    base = op[len("_npi_"):-len("_scalar")]
    if base in _SCALARS:
        return lambda x, scalar: getattr(numpy, base)(x, scalar)
    if base[1:] in _SCALARS and base[0] == "r":
        return lambda x, scalar: getattr(numpy, base[1:])(scalar, x)
    return None


# Making nodes.


class _Call:
    """Arguments with the symbols taken out: a template that says where they were."""

    def __init__(self, function):
        self.function, self.symbols = function, []

    def template(self, value):
        """The value as text can say it, a symbol as "$" and its number."""
        if isinstance(value, Symbol):
            first = len(self.symbols)
            self.symbols += [type(value)([head]) for head in value._heads]
            places = [f"${i}" for i in range(first, len(self.symbols))]
            return places[0] if len(places) == 1 else places
        if isinstance(value, (list, tuple)):
            return type(value)(self.template(item) for item in value)
        if isinstance(value, (bool, str, type(None))):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value)
        name = _op_table.format_value(value)
        if isinstance(value, type) or hasattr(value, "itemsize") and not getattr(value, "shape", ()):
            return name  # a dtype
        raise TypeError(f"sym.np.{self.function}: {type(value).__name__} cannot stand in a symbol; "
                        "make it a variable")


def _named(function, args, kwargs):
    """Arguments by the names that the function has for them; None where it has none."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
    if any(kinds[name] is inspect.Parameter.VAR_POSITIONAL for name in bound.arguments):
        return None
    made = {}
    for name, value in bound.arguments.items():
        made.update(value if kinds[name] is inspect.Parameter.VAR_KEYWORD else {name: value})
    return made


def _is_plain(named):
    """Whether the arrays come first, and nothing else needs to be said of where they stand."""
    seen_other = False
    for value in (named or {}).values():
        if isinstance(value, Symbol):
            if seen_other or len(value._heads) != 1:
                return False
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Symbol) for item in value):
            return False
        else:
            seen_other = True
    return named is not None


def _sections(args, kwargs):
    """How many parts a split makes."""
    wanted = kwargs.get("indices_or_sections", args[1] if len(args) > 1 else None)
    return wanted if isinstance(wanted, int) else len(wanted) + 1


def _count_unique(args, kwargs):
    flags = ("return_index", "return_inverse", "return_counts")
    given = [kwargs.get(flag, args[1 + i] if len(args) > 1 + i else False)
             for i, flag in enumerate(flags)]
    return 1 + sum(map(bool, given))


_OUTPUTS = {
    "linalg.svd": 3, "linalg.eigh": 2, "linalg.eig": 2, "linalg.slogdet": 2, "linalg.qr": 2,
    "histogram": 2, "unique": _count_unique, "meshgrid": lambda args, kwargs: len(args),
    "broadcast_arrays": lambda args, kwargs: len(args), "divmod": 2, "modf": 2, "frexp": 2,
    **{name: _sections for name in ("split", "array_split", "hsplit", "vsplit", "dsplit")},
}


def _make(op, function, array_function, args, kwargs):
    name = kwargs.pop("name", None)
    kwargs.pop("out", None)
    call = _Call(function)
    named = _named(array_function, args, kwargs)
    outputs = _OUTPUTS.get(function, 1)
    outputs = outputs(args, kwargs) if callable(outputs) else outputs
    attrs = {}
    template = (tuple(call.template(arg) for arg in args),
                {key: call.template(value) for key, value in kwargs.items()})
    if not _is_plain(named):
        attrs["__call__"] = repr(template)
    for key, value in (named or kwargs).items():
        text = _Call(function).template(value)
        if value is not None and "$" not in repr(text):
            attrs[key] = _op_table.format_value(text)
    if outputs != 1:
        attrs["__num_outputs__"] = str(outputs)
    made = _node(op, attrs, call.symbols, name, outputs)
    # Functions that give lists give one of one part too, whose index is a part.
    return [made] if outputs == 1 and _OUTPUTS.get(function) is _sections else made


def _node(op, attrs, symbols, name=None, outputs=1):
    node = _graph.Node(op, NameManager.current().get(name, op.lower()), attrs,
                       [head for symbol in symbols for head in symbol._heads])
    own = _graph.hide(AttrScope.current().get(None))
    node.attrs.update(own)
    node.labels = set(own)
    return _Symbol([(node, at) for at in range(outputs)])


def _with_number(function, args):
    """The op of an array and a number, or None."""
    function = _SAME_AS.get(function, function)
    if function not in _SCALARS or len(args) != 2:
        return None
    left, right = args
    if isinstance(left, Symbol) and isinstance(right, numbers.Real):
        return _scalar_node(f"_npi_{function}_scalar", left, right)
    if isinstance(right, Symbol) and isinstance(left, numbers.Real):
        return _scalar_node(_SCALARS[function] or f"_npi_{function}_scalar", right, left)
    return None


def _scalar_node(op, symbol, number):
    is_int = isinstance(number, numbers.Integral)
    return _node(op, {"scalar": str(float(number)), "is_int": str(is_int)}, [symbol])


def call_function(function, args, kwargs):
    """The symbol of a function of mx.np, called by its name."""
    made = _with_number(function, args) if not kwargs else None
    if made is not None:
        return made
    op = op_name(function)
    return _make(op, function, find(op), args, kwargs)


# Running nodes.


def run(node, inputs):
    """The outputs of a node, as tensors."""
    from lockstep.mxnet.numpy import ndarray

    function, params = find(node.op), node.params()
    arrays = [ndarray(tensor) for tensor in inputs]
    if node.op.endswith("_scalar"):
        scalar = float(params["scalar"])
        whole = params.get("is_int", True) and scalar.is_integer()
        made = function(arrays[0], int(scalar) if whole else scalar)
    elif "__call__" in node.attrs:
        args, kwargs = _call_template(node)
        made = function(*_filled(args, arrays), **{k: _filled(v, arrays) for k, v in kwargs.items()})
    else:
        made = function(*arrays, **params)
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    return [array._tensor for array in made]


def _call_template(node):
    try:
        args, kwargs = ast.literal_eval(node.attrs["__call__"])
        return args, dict(kwargs)
    except (ValueError, SyntaxError, TypeError) as error:
        raise InvalidArgument(f"{node.name} ({node.op}): __call__ is no call: {error}") from None


def _filled(template, arrays):
    if isinstance(template, str) and template.startswith("$"):
        place = int(template[1:])
        if not 0 <= place < len(arrays):
            raise InvalidArgument(f"symbol: __call__ names input {place} of {len(arrays)}")
        return arrays[place]
    if isinstance(template, (list, tuple)):
        return type(template)(_filled(item, arrays) for item in template)
    return template


# The class and the families.


def _operator(function, reverse=False):
    def call(self, other):
        if not isinstance(other, (Symbol, numbers.Real)):
            return NotImplemented
        return call_function(function, (other, self) if reverse else (self, other), {})

    return call


class _Symbol(Symbol):
    """A symbol of an array of mx.np: its operators broadcast, comparisons are truths, and an index
    cuts."""

    __slots__ = ()

    __add__, __radd__ = _operator("add"), _operator("add", True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", True)
    __truediv__, __rtruediv__ = _operator("true_divide"), _operator("true_divide", True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", True)
    __mod__, __rmod__ = _operator("mod"), _operator("mod", True)
    __pow__, __rpow__ = _operator("power"), _operator("power", True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", True)
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")

    def __hash__(self):
        return id(self) // 16

    def __neg__(self):
        return call_function("negative", (self,), {})

    def __abs__(self):
        return call_function("abs", (self,), {})

    def __invert__(self):
        return call_function("bitwise_not", (self,), {})

    def as_nd_ndarray(self):
        """The same with the operators of mx.nd."""
        return Symbol(self._heads)

    def as_np_ndarray(self):
        return self

    def __getitem__(self, index):
        if isinstance(index, str) or (len(self) > 1 and isinstance(index, (int, slice))):
            return Symbol.__getitem__(self, index)
        return _cut(self, index if isinstance(index, tuple) else (index,))

    def astype(self, dtype, **_):
        return _op_function("Cast")(self, dtype=dtype)

    def reshape(self, *shape, order="C", **kwargs):
        shape = kwargs.pop("newshape", kwargs.pop("shape", shape))
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
        return call_function("reshape", (self, shape), {})

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return call_function("transpose", (self, *([tuple(axes)] if axes else [])), {})

    def flatten(self, order="C"):
        return call_function("reshape", (self, (-1,)), {})

    @property
    def T(self):  # noqa: N802 - NumPy's name
        return self.transpose()

    def copy(self):
        return call_function("copy", (self,), {})

    def __getattr__(self, name):
        if not name.startswith("_") and name not in ("shape", "dtype", "ndim", "size", "grad") and (
                find(op_name(name)) is not None):
            return lambda *args, **kwargs: call_function(name, (self, *args), kwargs)
        return Symbol.__getattr__(self, name)


def _cut(symbol, index):
    """Slices, numbers, ... and None, as ops that cut, take an axis away and add one."""
    if any(item is not None and item is not Ellipsis and not isinstance(item, (int, slice))
           for item in index):
        raise TypeError(f"symbol: an index is made of numbers and slices, got {index!r}; arrays of "
                        "places are for np.take")
    if Ellipsis in index:
        at = index.index(Ellipsis)
        if index[at + 1:]:
            return _cut_behind(symbol, index[:at], index[at + 1:])
        index = index[:at]
    begin, end, step, gone, added = [], [], [], [], []
    for item in index:
        if item is None:
            added.append(len(begin) - len(gone) + len(added))
            continue
        if isinstance(item, slice):
            parts = (item.start, item.stop, item.step)
        else:
            gone.append(len(begin))
            parts = (item, item + 1 if item != -1 else None, None)
        for values, part in zip((begin, end, step), parts):
            values.append(part)
    made = symbol
    if any(part is not None for part in begin + end + step):
        made = _op_function("slice")(made, begin=tuple(begin), end=tuple(end), step=tuple(step))
    if gone:
        made = call_function("squeeze", (made,), {"axis": tuple(gone)})
    for axis in added:
        made = call_function("expand_dims", (made, axis), {})
    return made


def _cut_behind(symbol, before, behind):
    """x[before, ..., behind]: the axes behind are counted from the end."""
    if None in behind:
        raise TypeError("symbol: a new axis behind ... is not supported; write np.expand_dims")
    made, count = _cut(symbol, before) if before else symbol, len(behind)
    for place, item in enumerate(behind):
        if isinstance(item, int):
            item = slice(item, item + 1 if item != -1 else None)
        elif item.step not in (None, 1):
            raise TypeError("symbol: a step behind ... is not supported")
        begin, end = item.start or 0, item.stop
        made = _op_function("slice_axis")(made, axis=place - count, begin=begin, end=str(end))
    gone = tuple(place - count for place, item in enumerate(behind) if isinstance(item, int))
    return call_function("squeeze", (made,), {"axis": gone}) if gone else made


class _Family:
    """sym.np, sym.np.linalg, sym.np.random."""

    _Symbol = _Symbol

    def __init__(self, prefix=""):
        self._prefix = prefix

    def __getattr__(self, name):
        from lockstep.mxnet import numpy

        if name.startswith("__"):
            raise AttributeError(name)
        place = getattr(numpy, self._prefix[:-1]) if self._prefix else numpy
        try:
            found = getattr(place, name)
        except AttributeError:
            raise missing_name(f"mxnet.sym.np.{self._prefix}".rstrip("."), name,
                               [key for key in vars(place) if key[0] != "_"]) from None
        if not callable(found) or isinstance(found, type):
            return found  # pi, float32, ...
        return lambda *args, **kwargs: call_function(self._prefix + name, args, kwargs)


class _Extension:
    """sym.npx: the ops of neural nets, by their names in mx.npx."""

    def __getattr__(self, name):
        from lockstep.mxnet import numpy_extension

        if name.startswith("__"):
            raise AttributeError(name)
        op = numpy_extension._OPS.get(name)
        found = getattr(numpy_extension, name)
        if name in ("reshape", "nonzero", "constraint_check"):
            return lambda *args, **kwargs: _make(f"_npx_{name}", f"npx.{name}", found, args, kwargs)
        if op is None:
            return found
        make = _op_function(op)
        return lambda *args, **kwargs: _as_np(make(*args, **kwargs))


def _as_np(symbol):
    return _Symbol(symbol._heads)


np, npx = _Family(), _Extension()
np.linalg, np.random = _Family("linalg."), _Family("random.")
