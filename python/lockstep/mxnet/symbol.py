# SPDX-License-Identifier: Apache-2.0
"""Symbols: what a net computes, written down before there are arrays."""

import numpy as onp

from lockstep.errors import InvalidArgument
from lockstep.mxnet import _files, _graph, _op_table
from lockstep.mxnet.attribute import AttrScope
from lockstep.mxnet.base import NotImplementedForSymbol
from lockstep.mxnet.name import NameManager

__all__ = ["Group", "Symbol", "Variable", "arange", "eye", "full", "linspace", "load", "load_json",
           "maximum", "minimum", "ones", "pow", "power", "hypot", "split_v2", "var", "zeros"]


class Symbol:
    """One output of a node, or several of several nodes."""

    __slots__ = ("_heads", "__weakref__")
    __array_priority__ = 1001.0

    def __init__(self, heads):
        self._heads = list(heads)

    # What it is called, and what it consists of.

    @property
    def name(self):
        """The node's name; None of a group."""
        names = {id(node): node.name for node, _ in self._heads}
        return next(iter(names.values())) if len(names) == 1 else None

    def _node(self, what):
        if len({id(node) for node, _ in self._heads}) != 1:
            raise InvalidArgument(f"{what}: a group of symbols has none")
        return self._heads[0][0]

    def attr(self, key):
        """An attribute's text, or None."""
        attrs = self._node("attr").attrs
        return attrs.get(key, attrs.get(f"__{key}__"))

    def list_attr(self, recursive=False):
        """The attributes of the node."""
        if recursive:
            raise DeprecationWarning("list_attr: of all nodes attr_dict() tells")
        return _graph.shown(self._node("list_attr").attrs)

    def attr_dict(self):
        """The attributes of every node that has some, by its name."""
        return {node.name: _graph.shown(node.attrs) for node in _graph.topological(self._heads)
                if node.attrs}

    def _set_attr(self, **kwargs):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"symbol: the attribute {key} is {value!r}, expected a string")
            node = self._node("_set_attr")
            node.attrs.update(_graph.hide({key: value}))
            node.labels.add(key)

    def _inputs(self):
        order = _graph.topological(self._heads)
        states = _graph.state_nodes(order)
        variables = [node for node in order if node.is_variable]
        return ([node for node in variables if id(node) not in states],
                [node for node in variables if id(node) in states])

    def list_arguments(self):
        """The names of the variables, in the order in which they are needed."""
        return [node.name for node in self._inputs()[0]]

    def list_auxiliary_states(self):
        """The names of the variables that ops keep states in."""
        return [node.name for node in self._inputs()[1]]

    def list_inputs(self):
        """Arguments and states."""
        return [node.name for node in _graph.topological(self._heads) if node.is_variable]

    def list_outputs(self):
        """The names of the outputs."""
        return [_op_table.output_names(node)[at] for node, at in self._heads]

    @property
    def num_outputs(self):
        return len(self._heads)

    def __len__(self):
        return len(self._heads)

    def __iter__(self):
        return (type(self)([head]) for head in self._heads)

    def __getitem__(self, index):
        if isinstance(index, str):
            found = [i for i, name in enumerate(self.list_outputs()) if name == index]
            if len(found) != 1:
                raise ValueError(f"symbol: {len(found)} outputs are called '{index}'; there are "
                                 f"{self.list_outputs()}")
            index = found[0]
        if isinstance(index, slice):
            return Group([type(self)([head]) for head in self._heads[index]])
        if not isinstance(index, int):
            raise TypeError(f"symbol: an output is called by its name or its number, not {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"symbol: there is no output {index} of {len(self)}")
        return type(self)([self._heads[index]])

    def __repr__(self):
        if self.name is None:
            return f"<Symbol group [{', '.join(node.name for node, _ in self._heads)}]>"
        return f"<Symbol {self.name}>"

    def __bool__(self):
        raise NotImplementedForSymbol("symbol: whether it is true is not known before it is run")

    def get_internals(self):
        """Every output of every node."""
        return type(self)([(node, at) for node in _graph.topological(self._heads)
                           for at in range(node.count())])

    def get_children(self):
        """The inputs of the node, or None of a variable."""
        inputs = [head for node, _ in dict((id(n), (n, a)) for n, a in self._heads).values()
                  for head in node.inputs]
        return type(self)(inputs) if inputs else None

    def debug_str(self):
        """One line a node."""
        lines = [f"Symbol outputs: {', '.join(self.list_outputs())}"]
        for node in _graph.topological(self._heads):
            args = ", ".join(f"{child.name}({at})" for child, at in node.inputs)
            lines.append(f"{node.op or 'Variable'}:{node.name} [{args}] {node.attrs}")
        return "\n".join(lines)

    # Copies and compositions.

    def __copy__(self):
        return type(self)(_graph.copy(self._heads)[0])

    def __deepcopy__(self, _):
        return self.__copy__()

    def __reduce__(self):
        return load_json, (self.tojson(),)

    def __call__(self, *args, **kwargs):
        """The same with other symbols in the place of variables, by order or by name."""
        made = self.__copy__()
        made._compose(*args, **kwargs)
        return made

    def _compose(self, *args, **kwargs):
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise TypeError("compose: symbols are given by order or by name, not both")
        for value in list(args) + list(kwargs.values()):
            if not isinstance(value, Symbol) or len(value._heads) != 1:
                raise TypeError("compose: expected symbols of one output")
        order = _graph.topological(self._heads)
        names = [node.name for node in order if node.is_variable]
        if len(args) > len(names):
            raise InvalidArgument(f"compose: {len(args)} symbols for the variables {names}")
        given = dict(zip(names, args)) if args else kwargs
        for key in given:
            if key not in names:
                raise InvalidArgument(f"compose: there is no variable '{key}'; there are {names}")
        for node in order:
            node.inputs = [given[child.name]._heads[0] if child.is_variable and child.name in given
                           else (child, at) for child, at in node.inputs]
        if name and len(self._heads) == 1:
            self._heads[0][0].name = name

    # Operators.

    def _binary(self, other, both, scalar, reverse=None):
        if isinstance(other, Symbol):
            return _make(both, [self, other], {})
        if isinstance(other, (int, float, onp.number, bool)):
            return _make(reverse or scalar, [self], {"scalar": float(other)})
        return NotImplemented

    def __add__(self, other):
        return self._binary(other, "_plus", "_plus_scalar")

    __radd__ = __add__

    def __sub__(self, other):
        return self._binary(other, "_minus", "_minus_scalar")

    def __rsub__(self, other):
        return self._binary(other, "_minus", "_minus_scalar", "_rminus_scalar")

    def __mul__(self, other):
        return self._binary(other, "_mul", "_mul_scalar")

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._binary(other, "_div", "_div_scalar")

    def __rtruediv__(self, other):
        return self._binary(other, "_div", "_div_scalar", "_rdiv_scalar")

    def __mod__(self, other):
        return self._binary(other, "_mod", "_mod_scalar")

    def __rmod__(self, other):
        return self._binary(other, "_mod", "_mod_scalar", "_rmod_scalar")

    def __pow__(self, other):
        return self._binary(other, "_power", "_power_scalar")

    def __rpow__(self, other):
        return self._binary(other, "_power", "_power_scalar", "_rpower_scalar")

    def __neg__(self):
        return self.__mul__(-1.0)

    def __abs__(self):
        return _make("abs", [self], {})

    def __eq__(self, other):
        return self._binary(other, "_equal", "_equal_scalar")

    def __ne__(self, other):
        return self._binary(other, "_not_equal", "_not_equal_scalar")

    def __gt__(self, other):
        return self._binary(other, "_greater", "_greater_scalar")

    def __ge__(self, other):
        return self._binary(other, "_greater_equal", "_greater_equal_scalar")

    def __lt__(self, other):
        return self._binary(other, "_lesser", "_lesser_scalar")

    def __le__(self, other):
        return self._binary(other, "_lesser_equal", "_lesser_equal_scalar")

    def __hash__(self):
        return id(self) // 16

    def __matmul__(self, other):
        return _make("dot", [self, other], {})

    # Shapes and types.

    def infer_shape(self, *args, **kwargs):
        """The shapes of arguments, outputs and states, of those of some arguments."""
        from lockstep.mxnet import _infer

        return _infer.shapes(self, self._named(args, kwargs), partial=False)

    def infer_shape_partial(self, *args, **kwargs):
        """As infer_shape, with () and extents of 0 for what cannot be told (in NumPy's mode None and
        -1)."""
        from lockstep.mxnet import _infer

        return _infer.shapes(self, self._named(args, kwargs), partial=True)

    def infer_type(self, *args, **kwargs):
        """The types of arguments, outputs and states."""
        from lockstep.mxnet import _infer

        return _infer.types(self, self._named(args, kwargs))

    def infer_type_partial(self, *args, **kwargs):
        """As infer_type, with None for what cannot be told."""
        from lockstep.mxnet import _infer

        return _infer.types(self, self._named(args, kwargs), partial=True)

    def _named(self, args, kwargs):
        if args and kwargs:
            raise ValueError("symbol: arguments are given by order or by name, not both")
        names = self.list_arguments()
        if len(args) > len(names):
            raise ValueError(f"symbol: {len(args)} values for the arguments {names}")
        named = dict(zip(names, args)) if args else kwargs
        return {key: value for key, value in named.items() if value is not None}

    # Files.

    def tojson(self, remove_amp_cast=True):
        """Its text, as MXNet 1.9 writes it."""
        return _graph.dump(self._heads)

    def save(self, fname, remove_amp_cast=True):
        """Writes its text to a file."""
        _files.write_atomically(fname, self.tojson().encode())

    # Running.

    def bind(self, ctx, args, args_grad=None, grad_req="write", aux_states=None, group2ctx=None,
             shared_exec=None):
        """An executor on arrays: a list in the order of list_arguments(), or a dict."""
        from lockstep.mxnet.executor import Executor

        return Executor(self, ctx, args, args_grad, grad_req, aux_states)

    def simple_bind(self, ctx, grad_req="write", type_dict=None, stype_dict=None, group2ctx=None,
                    shared_arg_names=None, shared_exec=None, shared_buffer=None, **kwargs):
        """An executor on new arrays, whose shapes follow from those given."""
        from lockstep.mxnet import executor

        return executor.simple_bind(self, ctx, grad_req, type_dict or {}, kwargs, shared_exec)

    def eval(self, ctx=None, **kwargs):
        """The outputs for arrays by name."""
        return self.bind(ctx, kwargs, grad_req="null").forward()

    def gradient(self, wrt):
        raise NotImplementedError("symbol.gradient: bind the symbol and call backward()")

    def optimize_for(self, backend, args=None, aux=None, ctx=None, **kwargs):
        """The engine compiles what is bound: the symbol is as good as it is."""
        return self

    get_backend_symbol = optimize_for

    def as_np_ndarray(self):
        """The same with the operators of mx.np."""
        return np._Symbol(self._heads)

    def as_nd_ndarray(self):
        return self

    def astype(self, dtype):
        return _make("Cast", [self], {"dtype": dtype})

    def reshape(self, *shape, **kwargs):
        if "shape" in kwargs:
            shape = kwargs.pop("shape")
        elif len(shape) == 1 and not isinstance(shape[0], int):
            shape = shape[0]
        return _make("Reshape", [self], dict(kwargs, shape=tuple(shape)))

    def transpose(self, *axes, **kwargs):
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = axes[0]
        return _make("transpose", [self], dict(kwargs, **({"axes": tuple(axes)} if axes else {})))

    def __getattr__(self, name):
        # Every op is a method too; what is no op is no attribute.
        if name.startswith("_") or name in _NOT_HERE or not _exists(name):
            raise AttributeError(f"symbols have no '{name}'" + (
                f": {_NOT_HERE[name]}" if name in _NOT_HERE else ""))
        function = _op_function(name)
        return lambda *args, **kwargs: function(self, *args, **kwargs)


_NOT_HERE = {name: "an array has it, a symbol stands for one that is not computed yet"
             for name in ("asnumpy", "asscalar", "wait_to_read", "copy", "as_in_context", "detach",
                          "backward", "shape", "context", "ctx", "dtype", "grad", "attach_grad")}


def var(name, attr=None, shape=None, lr_mult=None, wd_mult=None, dtype=None, init=None, stype=None,
        profiler_scope=None, **kwargs):
    """A variable: an array that is given when the symbol is bound."""
    if not isinstance(name, str):
        raise TypeError(f"Variable: the name is {name!r}, expected a string")
    attrs = _graph.hide(AttrScope.current().get(attr))
    if shape is not None:
        attrs["__shape__"] = str(tuple(shape) if not isinstance(shape, int) else (shape,))
    for key, value in (("lr_mult", lr_mult), ("wd_mult", wd_mult)):
        if value is not None:
            attrs[f"__{key}__"] = str(value)
    if dtype is not None:
        attrs["__dtype__"] = str(_files.NUMBERS[onp.dtype(dtype).name])
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        attrs["__storage_type__"] = str({"default": 0, "row_sparse": 1, "csr": 2}[stype])
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"Variable: an attribute of one's own is called __{key}__, not {key}")
        attrs[key] = str(value)
    return Symbol([(_graph.Node(None, name, attrs), 0)])


Variable = var


def Group(symbols, create_fn=Symbol):
    """One symbol with the outputs of several."""
    symbols = list(symbols)
    if not symbols or any(not isinstance(symbol, Symbol) for symbol in symbols):
        raise TypeError("Group: expected a list of symbols")
    kind = _class_of(symbols) if create_fn is Symbol else create_fn
    return kind([head for symbol in symbols for head in symbol._heads])


def _class_of(symbols):
    """What is computed of symbols of mx.np is one."""
    return next((type(symbol) for symbol in symbols if type(symbol) is not Symbol), Symbol)


def load_json(json_str):
    """A symbol of its text, whichever release wrote it."""
    if not isinstance(json_str, str):
        raise TypeError("load_json: expected a string")
    return Symbol(_graph.load(json_str))


fromjson = load_json


def load(fname):
    """A symbol of a file."""
    with open(fname, encoding="utf-8") as file:
        return load_json(file.read())


# Ops.


def _make(op, symbols, params, name=None, attr=None, named=None):
    """The symbol of an op: `symbols` are its inputs by order, `named` by name; those that are
    missing become variables."""
    node = _graph.Node(_op_table.canonical(op), None)
    params = {key: _op_table.format_value(value) for key, value in params.items()
              if value is not None}
    # An op of several outputs given whole is as many inputs, to those that take any number.
    heads = [head for symbol in symbols for head in _heads_of(symbol, node.op)]
    if node.op in _op_table.VARIADIC:
        params.setdefault(_op_table.VARIADIC[node.op], str(len(heads)))
    node.attrs = params
    node.name = NameManager.current().get(name, op.lower().lstrip("_") if not op.startswith("_")
                                          else op.lower())
    names = _op_table.inputs_of(node.op, params, len(heads))
    if len(heads) > len(names) and node.op not in _op_table.INPUTS:
        names = names + tuple(f"arg{i}" for i in range(len(names), len(heads)))
    if len(heads) > len(names):
        raise InvalidArgument(f"{op}: {len(heads)} inputs, expected at most {len(names)}: {names}")
    own = _graph.hide(AttrScope.current().get(attr))
    node.inputs = _complete(node, names, heads, named or {}, op, own)
    node.attrs.update(own)
    node.labels = set(own)
    kind = _class_of([*symbols, *(named or {}).values()])
    return kind([(node, at) for at in range(node.count())])


def _heads_of(symbol, op):
    if not isinstance(symbol, Symbol):
        raise TypeError(f"{op}: expected symbols, got {type(symbol).__name__}")
    if len(symbol._heads) != 1 and op not in _op_table.VARIADIC:
        return symbol._heads[:1] if len({id(n) for n, _ in symbol._heads}) == 1 else symbol._heads
    return symbol._heads


def _complete(node, names, heads, named, op, attrs):
    inputs = list(heads)
    for key in named:
        if key not in names[len(heads):] and (node.op in _op_table.INPUTS or node.op == "Custom"):
            raise InvalidArgument(f"{op}: there is no input '{key}' to be given, there are "
                                  f"{list(names)}")
    listed = node.op in _op_table.INPUTS or node.op == "Custom"
    if not listed and node.op not in _op_table.NO_INPUTS:
        # An op whose inputs are not listed here takes those it is given, in their order.
        inputs += [symbol._heads[0] for symbol in named.values()]
        if not inputs and names and node.op not in _op_table.VARIADIC:
            inputs = [(_graph.Node(None, f"{node.name}_{names[0]}"), 0)]
        return inputs
    for name in names[len(inputs):]:
        if name in named:
            inputs.append(named[name]._heads[0])
        else:
            own = {**_own_attributes(node, name), **attrs}
            inputs.append((_graph.Node(None, f"{node.name}_{name}", own), 0))
    return inputs


def _own_attributes(node, name):
    """What a variable that an op makes for itself begins with: prelu's slope is 0.25."""
    if node.op == "LeakyReLU" and name == "gamma":
        return {"__init__": '["Constant", {"value": 0.25}]'}
    return {}


def _op_function(op):
    """A function that makes symbols of an op."""
    from lockstep.mxnet import _run

    def make(*args, **kwargs):
        name, attr = kwargs.pop("name", None), dict(kwargs.pop("attr", None) or {})
        for key in [key for key in kwargs if _graph.is_hidden(key) or key in _graph._HIDDEN_KEYS]:
            attr[key] = str(kwargs.pop(key))
        kwargs.pop("out", None)
        if len(args) >= 1 and isinstance(args[0], (list, tuple)) and args[0] and all(
                isinstance(item, Symbol) for item in args[0]):
            args = tuple(args[0]) + args[1:]
        symbols = []
        while len(symbols) < len(args) and isinstance(args[len(symbols)], Symbol):
            symbols.append(args[len(symbols)])
        rest = args[len(symbols):]
        named = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
        params = {key: value for key, value in kwargs.items() if key not in named}
        # An input that is None is not there: F.FullyConnected(x, weight, None, no_bias=True).
        while rest and rest[0] is None:
            rest = rest[1:]
        if rest:
            params.update(_run.name_params(op, len(symbols), rest))
        return _make(op, symbols, params, name, attr, named)

    make.__name__ = make.__qualname__ = op
    make.__doc__ = f"A symbol of the op {op}."
    return make


def _exists(name):
    from lockstep.mxnet import _run

    op = _op_table.canonical(name)
    return (op in _op_table.INPUTS or op in _op_table.VARIADIC or op in _op_table.NO_INPUTS
            or op == "Custom" or _run.function_of(op, required=False) is not None)


from lockstep.mxnet._symbol_functions import *  # noqa: E402,F401,F403 - made of the above
from lockstep.mxnet._symbol_functions import _internal, contrib, image, linalg  # noqa: E402,F401
from lockstep.mxnet._symbol_functions import random, sparse  # noqa: E402,F401
from lockstep.mxnet._symbol_numpy import np, npx  # noqa: E402,F401


_functions = {}


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if not _exists(name):
        from lockstep.mxnet.base import missing_name

        known = list(_op_table.INPUTS) + list(_op_table.ALIASES) + __all__
        raise missing_name(__name__, name, known)
    # Not among this module's own names, where `slice` and `max` are Python's.
    return _functions.setdefault(name, _op_function(name))
