# SPDX-License-Identifier: Apache-2.0
"""Containers, dense layers, normalisation, tables."""

import math
import warnings

from lockstep import _core
from lockstep.mxnet import _job
from lockstep.mxnet.base import dtype_name
from lockstep.mxnet.gluon.block import Block, HybridBlock, _indented
from lockstep.mxnet.gluon.nn._shared_norm import shared_batch_norm
from lockstep.mxnet.gluon.nn.activations import Activation
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["BatchNorm", "BatchNormReLU", "Dense", "Dropout", "Embedding", "Flatten", "GroupNorm",
           "HybridLambda", "HybridSequential", "InstanceNorm", "Lambda", "LayerNorm", "Sequential",
           "SyncBatchNorm", "Concatenate", "HybridConcatenate", "Identity"]


class _Container:
    """What both kinds of Sequential have."""

    def add(self, *blocks):
        """Adds blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self):
        lines = [f"  ({name}): {_indented(repr(child), 2)}"
                 for name, child in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def __getitem__(self, key):
        layers = list(self._children.values())[key]
        if isinstance(layers, list):
            part = type(self)(prefix=self._prefix)
            part.add(*layers)
            return part
        return layers

    def __len__(self):
        return len(self._children)


class Sequential(_Container, Block):
    """Blocks one after the other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def forward(self, x, *args):
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                x, args = x[0], tuple(x[1:])
        return [x, *args] if args else x

    def hybridize(self, active=True, **kwargs):
        """Compiles the blocks that can be."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. "
                          "Consider using HybridSequential for the best performance.",
                          stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Container, HybridBlock):
    """Blocks that can be compiled, one after the other."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F, x, *args):  # noqa: N803
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                x, args = x[0], tuple(x[1:])
        return [x, *args] if args else x


class Dense(HybridBlock):
    """activation(x W^T + b)."""

    def __init__(self, units, activation=None, use_bias=True, flatten=True, dtype="float32",
                 weight_initializer=None, bias_initializer="zeros", in_units=0, **kwargs):
        super().__init__(**kwargs)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(units, in_units),
                                          init=weight_initializer, dtype=dtype,
                                          allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, dtype=dtype,
                                        allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def infer_shape(self, x, *args):
        width = math.prod(x.shape[1:]) if self._flatten else x.shape[-1]
        self.weight.shape = (self._units, width)

    def hybrid_forward(self, F, x, weight, bias=None):  # noqa: N803
        made = F.FullyConnected(x, weight, bias, name="fwd", no_bias=bias is None, num_hidden=self._units,
                                flatten=self._flatten)
        return made if self.act is None else self.act(made)

    def __repr__(self):
        shape = self.weight.shape
        return (f"Dense({shape[1] if shape[1] else None} -> {shape[0]}, "
                f"{self.act if self.act else 'linear'})")


class Dropout(HybridBlock):
    """Zeros by chance while training."""

    def __init__(self, rate, axes=(), **kwargs):
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F, x):  # noqa: N803
        if self._rate <= 0:
            return F.identity(x)
        return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd")

    def __repr__(self):
        return f"Dropout(p = {self._rate}, axes={self._axes})"


class BatchNorm(HybridBlock):
    """Channels normalised over the batch, with running statistics."""

    def __init__(self, axis=1, momentum=0.9, epsilon=1e-5, center=True, scale=True,
                 use_global_stats=False, beta_initializer="zeros", gamma_initializer="ones",
                 running_mean_initializer="zeros", running_variance_initializer="ones",
                 in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self._axis = axis
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                        "use_global_stats": use_global_stats}

        def parameter(name, init, learnt):
            return self.params.get(name, grad_req="write" if learnt else "null",
                                   shape=(in_channels,), init=init, allow_deferred_init=True,
                                   differentiable=learnt)

        self.gamma = parameter("gamma", gamma_initializer, scale)
        self.beta = parameter("beta", beta_initializer, center)
        self.running_mean = parameter("running_mean", running_mean_initializer, False)
        self.running_var = parameter("running_var", running_variance_initializer, False)

    def infer_shape(self, x, *args):
        for parameter in self._reg_params.values():
            parameter.shape = (x.shape[self._axis],)

    def cast(self, dtype):
        """Shorter floats keep their statistics in float32."""
        super().cast("float32" if dtype_name(dtype) in ("float16", "bfloat16") else dtype)

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):  # noqa: N803
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd",
                           **self._kwargs)

    def __repr__(self):
        text = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({text}, in_channels={self.gamma.shape[0] or None})"


class BatchNormReLU(BatchNorm):
    """BatchNorm, then relu."""

    def hybrid_forward(self, F, x, **parameters):  # noqa: N803
        return F.relu(super().hybrid_forward(F, x, **parameters))


class SyncBatchNorm(BatchNorm):
    """BatchNorm over the batches of all workers of the job; num_devices is their number."""

    def __init__(self, in_channels=0, num_devices=None, momentum=0.9, epsilon=1e-5, center=True,
                 scale=True, use_global_stats=False, beta_initializer="zeros",
                 gamma_initializer="ones", running_mean_initializer="zeros",
                 running_variance_initializer="ones", **kwargs):
        workers = _job.current().workers
        if num_devices not in (None, 1, workers):
            warnings.warn(f"SyncBatchNorm: num_devices is {num_devices}, but the job has "
                          f"{workers} workers: statistics are shared between workers, "
                          "not between the devices of one", stacklevel=2)
        self._is_shared = workers > 1 and num_devices != 1
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer,
                         gamma_initializer, running_mean_initializer,
                         running_variance_initializer, in_channels, **kwargs)

    def hybrid_forward(self, F, x, **parameters):  # noqa: N803
        if not self._is_shared or self._kwargs["use_global_stats"] or (
                not isinstance(x, NDArray) or not _core.is_training()):
            return super().hybrid_forward(F, x, **parameters)
        return shared_batch_norm(_job.current(), x, **parameters, eps=self._kwargs["eps"],
                                 momentum=self._kwargs["momentum"],
                                 fix_gamma=self._kwargs["fix_gamma"])


class Embedding(HybridBlock):
    """Rows of a table."""

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None,
                 sparse_grad=False, **kwargs):
        super().__init__(**kwargs)
        self._input_dim, self._output_dim = input_dim, output_dim
        self.weight = self.params.get("weight", shape=(input_dim, output_dim),
                                      init=weight_initializer, dtype=dtype,
                                      allow_deferred_init=True,
                                      grad_stype="row_sparse" if sparse_grad else "default")

    def hybrid_forward(self, F, x, weight):  # noqa: N803
        return F.Embedding(x, weight, input_dim=self._input_dim, output_dim=self._output_dim,
                           name="fwd")

    def __repr__(self):
        return f"Embedding({self._input_dim} -> {self._output_dim}, float32)"


class Flatten(HybridBlock):
    """[N, ...] as a matrix."""

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.Flatten(x)

    def __repr__(self):
        return "Flatten"


class Identity(HybridBlock):
    """Its input."""

    def hybrid_forward(self, F, x):  # noqa: N803
        return x


class _Norm(HybridBlock):
    """A scale and an offset for each channel."""

    def __init__(self, epsilon, center, scale, beta_initializer, gamma_initializer, in_channels,
                 **kwargs):
        super().__init__(**kwargs)
        self._epsilon = epsilon
        self.gamma = self.params.get("gamma", grad_req="write" if scale else "null",
                                     shape=(in_channels,), init=gamma_initializer,
                                     allow_deferred_init=True)
        self.beta = self.params.get("beta", grad_req="write" if center else "null",
                                    shape=(in_channels,), init=beta_initializer,
                                    allow_deferred_init=True)

    def _channels(self, x):
        return x.shape[1]

    def infer_shape(self, x, *args):
        self.gamma.shape = self.beta.shape = (self._channels(x),)

    def __repr__(self):
        return (f"{type(self).__name__}(eps={self._epsilon}, "
                f"in_channels={self.gamma.shape[0] or None})")


class InstanceNorm(_Norm):
    """Each channel of each sample normalised."""

    def __init__(self, axis=1, epsilon=1e-5, center=True, scale=False, beta_initializer="zeros",
                 gamma_initializer="ones", in_channels=0, **kwargs):
        super().__init__(epsilon, center, scale, beta_initializer, gamma_initializer, in_channels,
                         **kwargs)
        self._axis = axis

    def _channels(self, x):
        return x.shape[self._axis]

    def hybrid_forward(self, F, x, gamma, beta):  # noqa: N803
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, eps=self._epsilon, name="fwd")
        x = F.swapaxes(x, dim1=1, dim2=self._axis)
        return F.swapaxes(F.InstanceNorm(x, gamma, beta, eps=self._epsilon, name="fwd"), dim1=1,
                          dim2=self._axis)


class LayerNorm(_Norm):
    """Each row normalised."""

    def __init__(self, axis=-1, epsilon=1e-5, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", in_channels=0, prefix=None, params=None):
        super().__init__(epsilon, center, scale, beta_initializer, gamma_initializer, in_channels,
                         prefix=prefix, params=params)
        self._axis = axis

    def _channels(self, x):
        return x.shape[self._axis]

    def hybrid_forward(self, F, x, gamma, beta):  # noqa: N803
        return F.LayerNorm(x, gamma, beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_Norm):
    """Channels normalised by groups."""

    def __init__(self, num_groups=1, epsilon=1e-5, center=True, scale=True,
                 beta_initializer="zeros", gamma_initializer="ones", in_channels=0, prefix=None,
                 params=None):
        super().__init__(epsilon, center, scale, beta_initializer, gamma_initializer, in_channels,
                         prefix=prefix, params=params)
        self._groups = num_groups

    def hybrid_forward(self, F, x, gamma, beta):  # noqa: N803
        return F.GroupNorm(x, gamma, beta, num_groups=self._groups, eps=self._epsilon)


class Lambda(Block):
    """A function, or an op by name, as a block."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            from lockstep.mxnet import ndarray

            self._function, self._function_name = getattr(ndarray, function), function
        elif callable(function):
            self._function, self._function_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type "
                             f"{type(function)}")

    def forward(self, *args):
        return self._function(*args)

    def __repr__(self):
        return f"Lambda({self._function_name})"


class HybridLambda(HybridBlock):
    """A function of F and arrays, or an op by name, as a block."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            self._function = lambda F, *args: getattr(F, function)(*args)  # noqa: N803
            self._function_name = function
        elif callable(function):
            self._function, self._function_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type "
                             f"{type(function)}")

    def hybrid_forward(self, F, x, *args):  # noqa: N803
        return self._function(F, x, *args)

    def __repr__(self):
        return f"HybridLambda({self._function_name})"


class Concatenate(Sequential):
    """What all blocks give for one input, side by side."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix, params)
        self.axis = axis

    def forward(self, x):
        from lockstep.mxnet import ndarray

        return ndarray.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcatenate(HybridSequential):
    """As Concatenate, compiled."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix, params)
        self.axis = axis

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)
