# SPDX-License-Identifier: Apache-2.0
"""Executors: a symbol bound to arrays. Its graph is traced once for each combination of shapes and
compiled by the engine, forward and backward together."""

import numpy as np

import lockstep as ls
from lockstep import _core, autograd
from lockstep.errors import InvalidArgument
from lockstep.mxnet import _graph, _infer, _op_table, _run
from lockstep.mxnet.ndarray import NDArray


class Compiled:
    """The compiled functions of a symbol: to predict, to train, and with gradients."""

    def __init__(self, symbol, wanted):
        self.heads = symbol._heads
        arguments, states = symbol._inputs()
        self.arguments = [node.name for node in arguments]
        self.states = [node.name for node in states]
        self.state_ids = [id(node) for node in states]
        self.wanted = tuple(wanted)
        self.is_loss = all(_ends_in_loss(node) for node, _ in self.heads)
        self.by_python = any(node.op in _op_table.BY_VALUES for node in _graph.topological(self.heads))
        self._functions = {}

    def call(self, kind, tensors, heads=()):
        """The outputs, then the states, then the gradients that are wanted."""
        if kind not in self._functions:
            function = getattr(self, "_" + kind)
            # What Python computes itself needs contents, which a trace has not.
            self._functions[kind] = function if self.by_python else ls.compile(function)
        with _run.mode(kind != "predict"):
            return self._functions[kind](*tensors, *heads)

    def _values(self, tensors):
        return dict(zip(self.arguments + self.states, tensors))

    def _new_states(self, run, tensors):
        old = tensors[len(self.arguments):]
        return [run.states.get(number, tensor) for number, tensor in zip(self.state_ids, old)]

    def _predict(self, *tensors):
        return _run.run_graph(self.heads, self._values(tensors), False)[0]

    def _train(self, *tensors):
        outputs, run = _run.run_graph(self.heads, self._values(tensors), True)
        return outputs + self._new_states(run, tensors)

    def _step(self, *tensors):
        return self._with_gradients(tensors, None)

    def _step_from_heads(self, *tensors):
        count = len(self.arguments) + len(self.states)
        return self._with_gradients(tensors[:count], tensors[count:])

    def _with_gradients(self, tensors, heads):
        leaves = {name: tensor for name, tensor in zip(self.arguments, tensors)
                  if name in self.wanted}
        if self.by_python:
            tensors = [tensor.detach() for tensor in tensors]
            leaves = dict(zip(self.arguments, tensors))
            leaves = {name: leaves[name] for name in self.wanted}
        for leaf in leaves.values():
            leaf.attach_grad()
        with autograd.record():
            outputs, run = _run.run_graph(self.heads, self._values(tensors), True)
            roots, sent = list(run.losses), [None] * len(run.losses)
            for place, output in enumerate(outputs):
                if output.requires_grad:
                    roots.append(output)
                    sent.append(heads[place] if heads else None)
        gradients = self._gradients(roots, sent, leaves)
        return [o.detach() for o in outputs] + self._new_states(run, tensors) + gradients

    def _gradients(self, roots, sent, leaves):
        roots, sent = _those_that_depend(roots, sent)
        if not roots or not leaves:
            return [ls.zeros_like(leaf) for leaf in leaves.values()]
        return list(_core.grad(roots, list(leaves.values()), sent, False, False))


def _those_that_depend(roots, sent):
    kept = [(root, head) for root, head in zip(roots, sent) if root.requires_grad]
    return [root for root, _ in kept], [head for _, head in kept]


def _ends_in_loss(node):
    return node.op in _op_table.LOSSES or node.op == "BlockGrad"


def _requests(symbol, grad_req):
    names = symbol.list_arguments()
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        grad_req = dict(zip(names, grad_req))
    for name, kind in grad_req.items():
        if kind not in ("write", "add", "null", "inplace"):
            raise ValueError(f"bind: grad_req of '{name}' is {kind!r}, expected write, add or null")
    return {name: grad_req.get(name, "null") for name in names}


def _ordered(names, given, what, optional=False):
    """A list of arrays in the order of the names."""
    if given is None:
        given = {}
    if isinstance(given, dict):
        missing = [name for name in names if name not in given]
        if missing and not optional:
            raise ValueError(f"bind: no {what} for {missing}")
        return [given.get(name) for name in names]
    given = list(given)
    if len(given) != len(names):
        raise ValueError(f"bind: {len(given)} {what}s for {len(names)}: {names}")
    return given


class Executor:
    """A symbol on arrays: `forward`, `outputs`, `backward`, `grad_dict`."""

    def __init__(self, symbol, ctx, args, args_grad=None, grad_req="write", aux_states=None,
                 compiled=None):
        self._symbol, self._ctx = symbol, ctx
        self._names, self._states = symbol.list_arguments(), symbol.list_auxiliary_states()
        _check_unique(self._names)
        self.arg_arrays = _ordered(self._names, args, "array")
        self.aux_arrays = _ordered(self._states, aux_states, "state")
        self._req = _requests(symbol, grad_req)
        self.grad_arrays = _ordered(self._names, args_grad, "gradient", optional=True)
        for name, array in zip(self._names, self.grad_arrays):
            if array is None:
                self._req[name] = "null"
        self._wanted = [name for name in self._names if self._req[name] != "null"]
        self._compiled = compiled or Compiled(symbol, self._wanted)
        self._monitor, self._monitor_all = None, False
        self._pending, self._key = None, None
        self._outputs = None
        self._sends_heads = False

    # What it is bound to.

    @property
    def outputs(self):
        """What the last forward computed; zeros before the first."""
        if self._outputs is None:
            known = dict(zip(self._names + self._states,
                             [a.shape for a in self.arg_arrays + self.aux_arrays]))
            types = _infer.type_table(self._symbol, {
                name: a._tensor.dtype.name for name, a in self.arg_dict.items()})
            shapes = _infer.complete(self._symbol, known)
            self._outputs = [_zeros(shapes[id(node), at], types[id(node), at], self._ctx)
                             for node, at in self._symbol._heads]
        return self._outputs

    @property
    def arg_dict(self):
        """The arguments by name."""
        return dict(zip(self._names, self.arg_arrays))

    @property
    def grad_dict(self):
        """The gradients by the names of the arguments."""
        return dict(zip(self._names, self.grad_arrays))

    @property
    def aux_dict(self):
        """The states by name."""
        return dict(zip(self._states, self.aux_arrays))

    @property
    def output_dict(self):
        """The outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    def _tensors(self):
        return [array._tensor.detach() for array in self.arg_arrays + self.aux_arrays]

    def _take(self, given):
        """New contents for arguments by name."""
        for name, value in given.items():
            if name not in self._names:
                raise InvalidArgument(f"forward: there is no argument '{name}'; there are "
                                      f"{self._names}")
            place = self._names.index(name)
            old = self.arg_arrays[place]
            if not isinstance(value, NDArray):
                from lockstep.mxnet.ndarray import array

                value = array(value, dtype=old.dtype)
            if value.shape != old.shape:
                raise ValueError(f"forward: '{name}' has shape {value.shape}, it is bound with "
                                 f"{old.shape}")
            value.copyto(old)

    # Running.

    def forward(self, is_train=False, **kwargs):
        """The outputs for the arrays as they are now, and for those given."""
        self._take(kwargs)
        return self._run(bool(is_train))

    def _run(self, training):
        self._pending = None
        tensors = self._tensors()
        if self._monitor is not None:
            self._show_all(tensors, training)
        kind = "predict" if not training else "train"
        if training and self._wanted and self._compiled.is_loss and not self._sends_heads:
            kind = "step"
        self._key = _run.next_key()
        with ls.random.scope(*self._key):
            made = self._compiled.call(kind, tensors)
        count = len(self._symbol)
        self._outputs = [NDArray(tensor) for tensor in made[:count]]
        self._inputs, self._pending = tensors, ()
        if training:
            rest = made[count:]
            for array, tensor in zip(self.aux_arrays, rest):
                array._tensor.assign(tensor)
            self._pending = rest[len(self.aux_arrays):] if kind == "step" else ()
        return self.outputs

    def backward(self, out_grads=None, is_train=True):
        """Gradients into grad_arrays, for the arrays that the last forward had."""
        if self._pending is None:
            raise InvalidArgument("backward: forward() comes first")
        gradients = self._pending
        if out_grads is not None or not gradients:
            gradients = self._gradients_for(out_grads)
        for name, gradient in zip(self._wanted, gradients):
            self._store(name, gradient)

    def _gradients_for(self, out_grads):
        """The gradients for given heads: the graph runs again, with the same random numbers."""
        if not self._wanted:
            return []
        heads = []
        if out_grads is not None:
            self._sends_heads = not self._compiled.is_loss
            given = out_grads if isinstance(out_grads, (list, tuple)) else [out_grads]
            if len(given) != len(self.outputs):
                raise ValueError(f"backward: {len(given)} gradients for {len(self.outputs)} outputs")
            heads = [array._tensor if isinstance(array, NDArray) else _core._as_tensor(array)
                     for array in given]
            heads = [head.cast(output._tensor.dtype).reshape(output.shape)
                     for head, output in zip(heads, self.outputs)]
        with ls.random.scope(*self._key):
            made = self._compiled.call("step_from_heads" if heads else "step", self._inputs, heads)
        return made[len(self.outputs) + len(self.aux_arrays):]

    def _store(self, name, gradient):
        array = self.grad_arrays[self._names.index(name)]
        if self._req[name] == "add":
            array._tensor.assign(array._tensor + gradient)
        else:
            array._tensor.assign(gradient)

    # Watching.

    def set_monitor_callback(self, callback, monitor_all=False):
        """Calls callback(name, array) with what each node computes."""
        self._monitor, self._monitor_all = callback, monitor_all

    def _show_all(self, tensors, training):
        values = dict(zip(self._names + self._states, tensors))
        if self._monitor_all:
            for name, tensor in values.items():
                self._monitor(name, NDArray(tensor))

        def seen(node, outputs):
            for name, tensor in zip(_op_table.output_names(node), outputs):
                self._monitor(name, NDArray(tensor.detach()))

        with ls.random.scope(*_run.next_key()), _run.mode(training):
            _run.run_graph(self._symbol._heads, values, training, seen)

    # Parameters and shapes.

    def copy_params_from(self, arg_params, aux_params=None, allow_extra_params=False):
        """Copies arrays by name."""
        for own, given in ((self.arg_dict, arg_params), (self.aux_dict, aux_params or {})):
            for name, array in given.items():
                if name in own:
                    array.astype(own[name].dtype).copyto(own[name])
                elif not allow_extra_params:
                    raise ValueError(f"copy_params_from: there is no argument '{name}'")

    def reshape(self, partial_shaping=False, allow_up_sizing=False, **kwargs):
        """An executor for other shapes on the same parameters."""
        shapes, _, _ = _infer.shapes(self._symbol, dict(kwargs), partial=False)
        if shapes is None:
            raise InvalidArgument(f"reshape: the shapes do not follow from {kwargs}")
        arrays, gradients = [], []
        for old, gradient, shape in zip(self.arg_arrays, self.grad_arrays, shapes):
            arrays.append(_reshaped(old, tuple(shape), self._ctx))
            gradients.append(None if gradient is None
                             else _reshaped(gradient, tuple(shape), self._ctx))
        return Executor(self._symbol, self._ctx, arrays, gradients, self._req, self.aux_arrays,
                        self._compiled)

    def debug_str(self):
        """The graph, a line a node."""
        return self._symbol.debug_str()


def _check_unique(names):
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"bind: several variables are called {double}")


def _zeros(shape, dtype, ctx):
    from lockstep.mxnet import ndarray as nd

    return nd.zeros(tuple(shape), ctx=ctx, dtype=dtype)


def _reshaped(array, shape, ctx):
    """The array, its first elements in another shape, or zeros where it is too small."""
    if array.shape == shape:
        return array
    size = int(np.prod(shape))
    if size > array.size:
        return _zeros(shape, array._tensor.dtype.name, ctx)
    return NDArray(array._tensor.reshape((-1,))[:size].reshape(shape))


def simple_bind(symbol, ctx, grad_req, type_dict, shapes, shared=None):
    """An executor on new arrays of zeros."""
    known = _infer.type_table(symbol, type_dict)
    arguments, states = symbol._inputs()
    table = {id(node): known.get((id(node), 0), "float32") for node in arguments + states}
    found = _infer.complete(symbol, _shapes(shapes), table)
    missing = [node.name for node in arguments + states if (id(node), 0) not in found]
    if missing:
        raise InvalidArgument(f"simple_bind: the shapes of {missing} do not follow from {shapes}")
    own = shared.arg_dict if shared is not None else {}

    def make(node):
        shape, dtype = found[id(node), 0], table[id(node)]
        old = own.get(node.name)
        if old is not None and old.shape == tuple(shape):
            return old
        return _zeros(shape, dtype, ctx)

    requests = _requests(symbol, grad_req)
    gradients = {node.name: _zeros(found[id(node), 0], table[id(node)], ctx) for node in arguments
                 if requests[node.name] != "null" and not _is_integer(table[id(node)])}
    return Executor(symbol, ctx, [make(node) for node in arguments], gradients, requests,
                    [make(node) for node in states])


def _is_integer(dtype):
    return np.dtype(dtype).kind in "iub" if dtype != "bfloat16" else False


def _shapes(shapes):
    return {name: (shape,) if isinstance(shape, int) else tuple(shape)
            for name, shape in shapes.items()}


def topological(symbol):
    """The nodes of a symbol in the order in which they run."""
    return _graph.topological(symbol._heads)
