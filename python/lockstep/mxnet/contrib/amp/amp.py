# SPDX-License-Identifier: Apache-2.0
"""Mixed precision as scripts ask for it. On the host float32 is what is fast; `init` and
`init_trainer` change nothing, and the loss is scaled by 1. `convert_hybrid_block` makes a net of 16
bits that takes inputs of 32."""

import contextlib
import copy
import logging

from lockstep.mxnet.gluon.block import HybridBlock
from lockstep.mxnet.gluon.nn import Embedding

_state = {"initialised": False}
_TYPES = ("float16", "bfloat16")


def _check(target_dtype):
    name = getattr(target_dtype, "__name__", None) or str(target_dtype)
    if name not in _TYPES:
        raise ValueError(f"amp: target_dtype is {target_dtype!r}, expected 'float16' or 'bfloat16'")
    return name


def init(target_dtype="float16", target_precision_ops=None, conditional_fp32_ops=None,
         fp32_ops=None):
    """Says once that computation stays in float32."""
    _check(target_dtype)
    if not _state["initialised"]:
        logging.info("amp: computing in float32, which needs no loss scaling")
        _state["initialised"] = True


class LossScaler:
    """A scale of 1."""

    loss_scale = 1.0

    def has_overflow(self, params):
        """Whether a gradient has left the numbers."""
        for param in params:
            if getattr(param, "grad_req", "null") == "null":
                continue
            for gradient in param.list_grad():
                if not bool(gradient.isfinite().min().asscalar()):
                    return True
        return False


def init_trainer(optimizer_or_trainer):
    """Gives a trainer its scaler."""
    optimizer_or_trainer._amp_loss_scaler = LossScaler()
    optimizer_or_trainer._amp_original_scale = getattr(optimizer_or_trainer, "_scale", 1.0)


@contextlib.contextmanager
def scale_loss(loss, optimizer_or_trainer):
    """The loss, multiplied by the trainer's scale."""
    if not hasattr(optimizer_or_trainer, "_amp_loss_scaler"):
        raise AssertionError("amp.scale_loss: amp.init_trainer(trainer) comes first")
    scale = optimizer_or_trainer._amp_loss_scaler.loss_scale
    if scale == 1.0:
        yield loss
    else:
        yield [item * scale for item in loss] if isinstance(loss, (list, tuple)) else loss * scale


def unscale(optimizer_or_trainer):
    """Divides gradients by the scale, which is 1."""
    if not hasattr(optimizer_or_trainer, "_amp_loss_scaler"):
        raise AssertionError("amp.unscale: amp.init_trainer(trainer) comes first")


class _Converted(HybridBlock):
    """A net of another precision, for inputs of any."""

    def __init__(self, block, dtype):
        super().__init__(prefix=block.prefix)
        self._block, self._dtype = block, dtype
        self._children = block._children
        self._takes_ids = _looks_up(block)

    def collect_params(self, select=None):
        return self._block.collect_params(select)

    def _collect_params_with_prefix(self, prefix=""):
        return self._block._collect_params_with_prefix(prefix)  # their names in files stay

    def cast(self, dtype):
        self._block.cast(dtype)

    def hybrid_forward(self, F, *inputs):  # noqa: N803
        return self._block(*[self._cast(F, x) for x in inputs])

    def _cast(self, F, x):  # noqa: N803
        tensor = getattr(x, "_tensor", None)
        if self._takes_ids or (tensor is not None and not tensor.dtype.is_floating):
            return x
        return F.cast(x, dtype=self._dtype)


def _looks_up(block):
    """Whether some input may be ids, which 16 bits would round, whatever their dtype is."""
    return isinstance(block, Embedding) or any(map(_looks_up, block._children.values()))


def convert_hybrid_block(block, target_dtype="float16", target_dtype_ops=None, fp32_ops=None,
                         conditional_fp32_ops=None, excluded_sym_names=None, ctx=None,
                         cast_optional_params=False):
    """A copy of the net with parameters of another precision. Inputs of 32 bits are converted, unless
    the net has an Embedding: then they are taken as they are."""
    name = _check(target_dtype)
    copied = copy.deepcopy(block)
    copied.cast(name)
    return _Converted(copied, name)


def convert_model(sym, arg_params, aux_params, target_dtype="float16", **_):
    """A symbol's parameters in another precision; batch norm's stay as they are."""
    name = _check(target_dtype)
    keep = ("_gamma", "_beta", "_moving_mean", "_moving_var", "_running_mean", "_running_var")
    made = {key: array if key.endswith(keep) else array.astype(name)
            for key, array in arg_params.items()}
    return sym, made, dict(aux_params)


def convert_symbol(sym, target_dtype="float16", target_dtype_ops=None, fp32_ops=None,
                   conditional_fp32_ops=None, excluded_sym_names=None, data_names=None,
                   cast_optional_params=False):
    """The symbol as it is: what dtypes it computes in, its arrays tell."""
    _check(target_dtype)
    return sym


def list_lp16_ops(target_dtype="float16"):
    """None are changed by init()."""
    return []


def list_fp32_ops(target_dtype="float16"):
    """All of them."""
    from lockstep.mxnet.ndarray import registry

    return registry.op_names()
