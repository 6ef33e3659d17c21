# SPDX-License-Identifier: Apache-2.0
"""mx.operator: ops that scripts write in Python, called by nd.Custom(..., op_type=name)."""

from lockstep import _core, ops
from lockstep.mxnet.base import MXNetError, dtype_name, nearest
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray.registry import register_arrays

__all__ = ["CustomOp", "CustomOpProp", "register"]
_REGISTRY = {}


class CustomOp:
    """forward and backward write to the arrays they are given, by assign()."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Writes out_data."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Writes in_grad."""
        raise NotImplementedError(f"{type(self).__name__} has no backward")

    def assign(self, dst, req, src):
        """Writes, or adds, as `req` says."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] = dst + src
        elif req != "null":
            raise MXNetError(f"CustomOp.assign: there is no req '{req}'")


class CustomOpProp:
    """What an op has: names of inputs and outputs, their shapes, and the op itself."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self):
        """Names of states that forward may change."""
        return []

    def infer_shape(self, in_shape):
        """(inputs', outputs', states') shapes: those of the first input."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """(inputs', outputs', states') types: those of the first input."""
        return (in_type, [in_type[0]] * len(self.list_outputs()),
                [in_type[0]] * len(self.list_auxiliary_states()))

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """What backward reads; all of it is kept."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx, shapes, dtypes):
        """The op."""
        return CustomOp()


def register(reg_name):
    """Makes a CustomOpProp known by a name."""
    def decorate(prop):
        _REGISTRY[reg_name] = prop
        return prop

    return decorate


class _Call:
    """One call on the tape."""

    def __init__(self, op, kind, infos, aux):
        self._op, self._kind, self._infos, self._aux = op, kind, infos, aux
        self._training = _core.is_training()

    def _empty(self, infos, device):
        return [self._kind(ops.full(shape, 0.0, dtype, device)) for shape, dtype in infos]

    def forward(self, *inputs):
        self._in = [self._kind(t) for t in inputs]
        self._out = self._empty(self._infos, inputs[0].device)
        self._op.forward(is_train=self._training, req=["write"] * len(self._out),
                         in_data=self._in, out_data=self._out, aux=self._aux)
        return tuple(a._tensor for a in self._out)

    def backward(self, *gradients):
        infos = [(a.shape, a._tensor.dtype) for a in self._in]
        in_grad = self._empty(infos, self._in[0]._tensor.device)
        self._op.backward(req=["write"] * len(in_grad), out_grad=[self._kind(g) for g in gradients],
                          in_data=self._in, out_data=self._out, in_grad=in_grad, aux=self._aux)
        return tuple(a._tensor for a in in_grad)


@register_arrays("Custom")
def custom(*data, op_type=None, name=None, out=None, **kwargs):
    """Calls an op that a script has registered."""
    if op_type not in _REGISTRY:
        raise MXNetError(f"Custom: there is no op_type '{op_type}'{nearest(str(op_type), _REGISTRY)}"
                         "; mx.operator.register(name) makes one known")
    arrays = {key: value for key, value in kwargs.items() if isinstance(value, NDArray)}
    options = {key: str(value) for key, value in kwargs.items() if key not in arrays}
    prop = _REGISTRY[op_type](**options)
    names = [*prop.list_arguments(), *prop.list_auxiliary_states()]
    data = [*data, *[arrays[key] for key in names if key in arrays]]
    count = len(prop.list_arguments())
    if len(data) != len(names):
        raise MXNetError(f"Custom: '{op_type}' takes {names}, got {len(data)} arrays")
    inputs, aux = data[:count], data[count:]
    _, shapes, *_ = prop.infer_shape([list(a.shape) for a in inputs])
    _, types, *_ = prop.infer_type([a.dtype for a in inputs])
    infos = [(tuple(int(n) for n in shape), dtype_name(dtype)) for shape, dtype in zip(shapes, types)]
    op = prop.create_operator(inputs[0].context, [a.shape for a in inputs],
                              [a.dtype for a in inputs])
    kind = inputs[0]._out
    made = _core._call_function(_Call(op, kind, infos, aux), [a._tensor for a in inputs])
    return kind(made[0]) if len(made) == 1 else [kind(t) for t in made]

