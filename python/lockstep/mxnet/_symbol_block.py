# SPDX-License-Identifier: Apache-2.0
"""Between Gluon's blocks and symbols: files of a block, and blocks of a symbol."""

import inspect
import os

from lockstep import _core
from lockstep.errors import InvalidArgument
from lockstep.mxnet import _files, _graph, _infer, _run
from lockstep.mxnet import symbol as sym
from lockstep.mxnet.gluon import _cached
from lockstep.mxnet.gluon import block as _block
from lockstep.mxnet.gluon.parameter import DeferredInitializationError
from lockstep.mxnet.gluon.parameter_dict import ParameterDict
from lockstep.mxnet.model import as_array
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.numpy.multiarray import ndarray
from lockstep.mxnet.util import is_np_array


def _arguments(block):
    """(how many inputs a block has, a function of their variables that gives its arguments): those
    of the last call, with its lists, else as many as hybrid_forward names."""
    plans = getattr(getattr(block, "_graph", None), "_plans", None)
    if plans:
        plan = next(reversed(plans.values()))
        return plan._inputs, lambda variables: _cached.fill(plan._template, iter(variables))
    own = set(getattr(block, "_reg_params", ()))
    names = list(inspect.signature(block.hybrid_forward).parameters.values())[1:]
    plain = [p for p in names if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in own
             and p.default is p.empty]
    return max(1, len(plain)), tuple


def _flat(made):
    if isinstance(made, sym.Symbol):
        return [made]
    return [symbol for item in made for symbol in _flat(item)]


def variable(name, array=None):
    """A variable that stands for an array: one of mx.np's for its arrays, and in its mode."""
    made = sym.var(name)
    is_np = is_np_array() or isinstance(array, ndarray)
    return made.as_np_ndarray() if is_np else made


def symbol_of(block, names=None):
    """The symbol that a block computes, of variables called data, or data0, data1, ..."""
    arguments = tuple
    if names is None:
        count, arguments = _arguments(block)
        names = ["data"] if count == 1 else [f"data{i}" for i in range(count)]
    outputs = _flat(block(*arguments([variable(name) for name in names])))
    return outputs[0] if len(outputs) == 1 else sym.Group(outputs)


def export(block, path, epoch=0):
    """Writes PATH-symbol.json and PATH-0000.params, as Module and other MXNets read them."""
    symbol = symbol_of(block)
    arguments, states = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
    arrays = {}
    for name, parameter in block.collect_params().items():
        if name in arguments:
            arrays[f"arg:{name}"] = parameter.data()
        elif name in states:
            arrays[f"aux:{name}"] = parameter.data()
    symbol_file, params_file = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
    symbol.save(symbol_file)
    _files.save_params(params_file, arrays)
    return symbol_file, params_file


def imports(symbol_file, input_names, param_file=None, ctx=None):
    """A block of the files that export() or Module wrote."""
    outputs = sym.load(symbol_file)
    names = [input_names] if isinstance(input_names, str) else list(input_names)
    made = SymbolBlock(outputs, [sym.var(name) for name in names])
    if param_file is not None:
        made.load_parameters(param_file, ctx=ctx)
    return made


class SymbolBlock(_block.SymbolBlock):
    """A symbol's outputs as a function of some of its variables; the others are parameters."""

    def __init__(self, outputs, inputs, params=None):
        if self.__dict__.get("_heads") is not None:
            return  # made by SymbolBlock.__new__, which Python initialises a second time
        super().__init__(prefix="")
        # The variables' names are whole: those of a net's parameters are the net's parameters.
        self._params = ParameterDict("", params if hasattr(params, "prefix") else None)
        outputs = sym.Group(_flat(outputs)) if isinstance(outputs, (list, tuple)) else outputs
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        self._symbol, self._heads = outputs, outputs._heads
        self._names = [_variable_name(symbol) for symbol in inputs]
        self._add_parameters(params)

    def _add_parameters(self, given):
        arguments, states = self._symbol._inputs()
        missing = set(self._names) - {node.name for node in arguments}
        if missing:
            raise ValueError(f"SymbolBlock: the symbol has no input {sorted(missing)}; there are "
                             f"{[node.name for node in arguments]}")
        types = _infer.type_table(self._symbol, {})
        self._state_ids, self._by_name = {}, {}
        for node in arguments + states:
            if node.name in self._names:
                continue
            is_state = node in states
            if node.attrs.get("__storage_type__", "0") != "0":
                raise AssertionError(f"SymbolBlock doesn't support Parameter '{node.name}' because "
                                     "its storage type is not 'default'.")
            parameter = self.params.get(
                node.name, allow_deferred_init=True, init=_init_of(node), shape=_infer.declared(node),
                grad_req="null" if is_state else "write", dtype=types.get((id(node), 0), "float32"))
            self._by_name[node.name] = parameter
            if is_state:
                self._state_ids[id(node)] = node.name
        # Files name them without what all names begin with, which differs from net to net.
        shared = os.path.commonprefix(list(self._by_name)) if len(self._by_name) > 1 else ""
        self._reg_params = {name[len(shared):]: p for name, p in self._by_name.items()}
        if isinstance(given, dict) and not hasattr(given, "prefix"):
            for name, value in given.items():
                if name in self._by_name:
                    self._by_name[name]._load_init(as_array(value), None)

    def infer_shape(self, *args):
        """Parameters' shapes follow from those of the inputs."""
        given = {name: array.shape for name, array in zip(self._names, args)}
        known = _infer.complete(self._symbol, given)
        for node in _graph.topological(self._heads):
            if node.is_variable and node.name in self._by_name:
                shape = known.get((id(node), 0))
                if shape is None:
                    raise InvalidArgument(f"SymbolBlock: the shape of '{node.name}' does not follow "
                                          f"from {given}")
                self._by_name[node.name].shape = shape

    def _own(self, ctx):
        return {name: p.data(ctx) for name, p in self._by_name.items()}

    def _forward_now(self, x, *args):
        inputs = [x, *args]
        if len(inputs) != len(self._names):
            raise ValueError(f"SymbolBlock: {len(inputs)} inputs for {self._names}")
        try:
            own = self._own(x.context)
        except DeferredInitializationError:
            self._finish_deferred(*inputs)
            own = self._own(x.context)
        values = {name: array._tensor for name, array in zip(self._names, inputs)}
        values.update({name: array._tensor for name, array in own.items()})
        outputs, run = _run.run_graph(self._heads, values, _core.is_training(), keeps_losses=False)
        self._take_states(run, own)
        made = [x._out(tensor) for tensor in outputs]
        return made[0] if len(made) == 1 else made

    def _take_states(self, run, own):
        for number, value in run.states.items():
            array = own[self._state_ids[number]]
            with _core._pause(_core.is_training()):
                if value.is_symbolic:
                    array._tensor = value
                else:
                    array._tensor.assign(value.detach())

    def _forward_symbol(self, x, *args):
        made = self._symbol(**dict(zip(self._names, (x, *args))))
        return made if len(made) == 1 else list(made)

    def hybrid_forward(self, F, x, *args, **kwargs):  # noqa: N803 - MXNet's name
        return self._forward_now(x, *args) if isinstance(x, NDArray) else self._forward_symbol(
            x, *args)

    def __repr__(self):
        return f"SymbolBlock({', '.join(self._symbol.list_outputs())})"


_INITS = {"bias": "zeros", "beta": "zeros", "gamma": "ones", "moving_mean": "zeros",
          "moving_var": "ones", "running_mean": "zeros", "running_var": "ones"}


def _init_of(node):
    """What a variable says itself, or its name means; None is what the net is initialised with."""
    if "__init__" in node.attrs:
        return node.attrs["__init__"]
    for ending, kind in _INITS.items():
        if node.name.endswith("_" + ending):
            return kind
    return None


def _variable_name(symbol):
    names = symbol.list_outputs()
    if len(names) != 1 or not symbol._heads[0][0].is_variable:
        raise ValueError(f"SymbolBlock: inputs are variables, got {names}")
    return names[0]
