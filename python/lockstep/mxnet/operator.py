# SPDX-License-Identifier: Apache-2.0
"""Ops that are written in Python: a CustomOp computes, a CustomOpProp tells names and shapes.

`mx.nd.Custom(x, op_type="name")` and `mx.sym.Custom(...)` run them. A graph with one is run op by
op: what Python computes cannot be compiled.
"""

import lockstep as ls
from lockstep import _core
from lockstep.errors import InvalidArgument
from lockstep.mxnet import ndarray as _ndarray
from lockstep.mxnet.context import current_context
from lockstep.mxnet.ndarray import registry
from lockstep.mxnet.ndarray.ndarray import NDArray

_registered = {}


def get_all_registered_operators():
    """The names of all ops."""
    return registry.op_names()


class CustomOp:
    """What is computed: subclasses have forward and backward."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Assigns to out_data."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Assigns to in_grad."""
        raise NotImplementedError(f"{type(self).__name__} has no backward")

    def assign(self, dst, req, src):
        """Writes or adds to an array, as the request says."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        elif req != "null":
            raise ValueError(f"assign: the request is {req!r}")


class CustomOpProp:
    """What an op is called with and gives."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def list_arguments(self):
        """The names of its inputs."""
        return ["data"]

    def list_outputs(self):
        """The names of its outputs."""
        return ["output"]

    def list_auxiliary_states(self):
        """The names of its states."""
        return []

    def infer_shape(self, in_shape):
        """(inputs, outputs, states)."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """(inputs, outputs, states)."""
        return in_type, [in_type[0]] * len(self.list_outputs()), []

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """Everything is kept."""
        return list(out_grad) + list(in_data) + list(out_data)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """The CustomOp."""
        return CustomOp()


def register(reg_name):
    """Makes a CustomOpProp known by a name."""

    def decorate(prop_cls):
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise TypeError(f"register: '{reg_name}' is no CustomOpProp")
        _registered[reg_name] = prop_cls
        return prop_cls

    return decorate


def get_all_registered_operators():
    """The names of all ops."""
    return registry.op_names()


def prop_of(op_type, params):
    """The CustomOpProp of an op; its arguments are texts, as in MXNet."""
    if op_type not in _registered:
        raise InvalidArgument(f"Custom: there is no op '{op_type}'; there are "
                              f"{sorted(_registered)}")
    return _registered[op_type](**{key: str(value) for key, value in params.items()})


def told(answer):
    """(inputs, outputs, states) of what infer_shape or infer_type gave; states may be left out."""
    return tuple(answer) if len(answer) == 3 else (*answer, [])


class _Call:
    """One call on the engine's tape."""

    def __init__(self, prop, kind, training, params):
        self.prop, self.kind, self.training, self.params = prop, kind, training, params

    def symbols(self, *inputs):
        """The op, of symbols."""
        from lockstep.mxnet import symbol

        return [symbol.Custom(*inputs, **self.params)]

    def forward(self, *tensors):
        count = len(self.prop.list_arguments())
        arrays = [self.kind(t.detach()) for t in tensors]
        self.inputs, self.aux = arrays[:count], arrays[count:]
        _, shapes, _ = told(self.prop.infer_shape([list(a.shape) for a in self.inputs]))
        _, types, _ = told(self.prop.infer_type([a.dtype for a in self.inputs]))
        # What the op makes without saying where is where its inputs are.
        self.context = arrays[0].context if arrays else current_context()
        device = tensors[0].device if tensors else 0
        self.outputs = [self.kind(_zeros(shape, dtype, device))
                        for shape, dtype in zip(shapes, types)]
        self.op = self.prop.create_operator(self.context, [a.shape for a in self.inputs],
                                            [a.dtype for a in self.inputs])
        with self.context, _core._pause(self.training):
            self.op.forward(self.training, ["write"] * len(self.outputs), self.inputs, self.outputs,
                            self.aux)
        return tuple(a._tensor for a in self.outputs)

    def backward(self, *heads):
        gradients = [self.kind(ls.zeros_like(a._tensor)) for a in self.inputs]
        with self.context, _core._pause(self.training):
            self.op.backward(["write"] * len(gradients), [self.kind(h) for h in heads], self.inputs,
                             self.outputs, gradients, self.aux)
        return tuple(a._tensor for a in gradients) + (None,) * len(self.aux)


def _zeros(shape, dtype, device):
    from lockstep.mxnet.base import dtype_name

    return ls.ops.full(tuple(int(extent) for extent in shape), 0.0, dtype_name(dtype), device)


@registry.register_arrays("Custom")
def custom(*inputs, op_type=None, name=None, out=None, **params):
    """Runs an op that is written in Python."""
    prop = prop_of(op_type, params)
    wanted = prop.list_arguments() + prop.list_auxiliary_states()
    if len(inputs) != len(wanted):
        raise InvalidArgument(f"Custom: '{op_type}' has the inputs {wanted}, {len(inputs)} given")
    kind = inputs[0]._out if inputs else NDArray
    call = _Call(prop, kind, _core.is_training(), dict(params, op_type=op_type))
    made = _core._call_function(call, [a._tensor for a in inputs])
    made = [kind(t) for t in made]
    return made[0] if len(made) == 1 else made


_ndarray.Custom = custom  # mx.nd.Custom, as soon as there can be ops of one's own
