# SPDX-License-Identifier: Apache-2.0
"""Parameters: named arrays of a block, one copy for each context."""

import warnings
from collections import OrderedDict

import numpy as np

from lockstep import _core, ops
from lockstep._core.nn import Parameter as EngineParameter
from lockstep.mxnet import _hints
from lockstep.mxnet.base import MXNetError, as_list, dtype_name
from lockstep.mxnet.context import cpu, current_context, device_for
from lockstep.mxnet.gluon import _tracing
from lockstep.mxnet.ndarray.memory import move
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.util import is_np_array

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "tensor_types"]
tensor_types = (NDArray,)
_STORAGES = ("default", "row_sparse", "csr")


class DeferredInitializationError(MXNetError):
    """The shape is told by the first batch."""


class _ByContext(OrderedDict):
    """Arrays by context, and by number as MXNet's lists of them."""

    def __missing__(self, key):
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(key)


def _array_class(stype="default"):
    """The class of arrays in use: mx.np's after set_np()."""
    if stype != "default":
        from lockstep.mxnet.ndarray import sparse

        return sparse.class_of(stype)
    if not is_np_array():
        return NDArray
    from lockstep.mxnet.numpy import ndarray

    return ndarray


def _is_known(shape):
    return shape is not None and all(extent > 0 for extent in shape)


class Parameter:
    """An array that blocks share by name.

    Extents of 0 are not known yet: contents are made when the first batch has told them.
    """

    __getattr__ = _hints.lookup(_hints.PARAMETER)

    def __init__(self, name, grad_req="write", shape=None, dtype=np.float32, lr_mult=1.0,
                 wd_mult=1.0, init=None, allow_deferred_init=False, differentiable=True,
                 stype="default", grad_stype="default"):
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self.dtype = dtype
        self._shape = (shape,) if isinstance(shape, int) else (
            None if shape is None else tuple(shape))
        self._allow_deferred_init = allow_deferred_init
        self._differentiable = differentiable
        for what, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in _STORAGES:
                raise AssertionError(f"{what} for Parameter '{name}' must be one of {_STORAGES}, "
                                     f"but got '{value}'")
        self._stype, self._grad_stype = stype, grad_stype
        self._data = None  # {context: array}
        self._engine = None  # the engine's own parameter, on the host alone
        self._deferred = None
        self._var = None
        self._trainer = None
        self._grad_req = None
        self.grad_req = grad_req

    def __repr__(self):
        return f"Parameter {self.name} (shape={self.shape}, dtype={np.dtype(self.dtype)})"

    def _set_trainer(self, trainer):
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise RuntimeError(f"Failed to set the trainer for Parameter '{self.name}' because it "
                               "was already set. More than one trainers for a row_sparse Parameter "
                               "is not supported.")
        self._trainer = trainer

    # What it is.
    @property
    def shape(self):
        """Its extents, 0 where one is not known yet."""
        return self._shape

    @shape.setter
    def shape(self, new_shape):
        if self._shape is None:
            self._shape = tuple(new_shape)
            return
        fits = len(self._shape) == len(new_shape) and all(
            own in (0, -1, new) for own, new in zip(self._shape, new_shape))
        if not fits:
            raise AssertionError(f"Expected shape {tuple(new_shape)} is incompatible with given "
                                 f"shape {self._shape} of parameter {self.name}")
        self._shape = tuple(new_shape)

    @property
    def stype(self):
        """How it is stored."""
        return self._stype

    @property
    def grad_stype(self):
        """How its gradient is stored."""
        return self._grad_stype

    @property
    def grad_req(self):
        """'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req):
        if req not in ("write", "add", "null"):
            raise AssertionError(f"grad_req must be one of 'write', 'add', or 'null', got '{req}'")
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        for array in (self._data or {}).values():
            self._attach(array)

    # Contents.
    def initialize(self, init=None, ctx=None, default_init=None, force_reinit=False):
        """Makes contents on the contexts, now or when the shape is known."""
        from lockstep.mxnet import initializer

        if self._data is not None and not force_reinit:
            warnings.warn(f"Parameter '{self.name}' is already initialized, ignoring. Set "
                          "force_reinit=True to re-initialize.", stacklevel=2)
            return
        self._data = self._engine = None
        contexts = as_list(ctx) if ctx is not None else [current_context()]
        default = default_init if default_init is not None else initializer.Uniform()
        if init is None:
            init = default if self.init is None else self.init
        self._deferred = (init, contexts, default, None)
        if _is_known(self._shape):
            self._finish_deferred_init()
        elif not self._allow_deferred_init:
            self._deferred = None
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because it has invalid "
                             f"shape: {self._shape}.")

    def _finish_deferred_init(self):
        if self._deferred is None:
            return
        from lockstep.mxnet import initializer

        init, contexts, default, data = self._deferred
        self._deferred = None
        if not _is_known(self._shape):
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because it has invalid "
                             f"shape: {self._shape}. Please specify in_units, in_channels, etc for "
                             "`Block`s.")
        with _tracing.outside(), _core._pause(False):
            if data is None:
                # Made on the host, so that every context starts from the same numbers.
                data = NDArray(ops.full(self._shape, 0.0, dtype_name(self.dtype)))
                initializer.create(default)(
                    initializer.InitDesc(self.name, {"__init__": initializer.describe(init)}), data)
            self._set_contents(data._tensor, contexts)

    def _set_contents(self, tensor, contexts):
        tensor = ops.cast(tensor.detach(), dtype_name(self.dtype))
        self._data = _ByContext()
        kind = _array_class(self._stype)
        if len(contexts) == 1 and device_for(contexts[0]) == 0 and tensor.dtype.is_floating:
            self._engine = EngineParameter(self._shape, dtype=dtype_name(self.dtype),
                                           trainable=self._differentiable)
            self._engine.set_data(tensor if tensor.device.index == 0 else tensor.to(_core.cpu(0)))
            self._data[contexts[0]] = kind(self._engine.data())
        else:
            self._engine = None
            for ctx in contexts:
                moved = move(tensor, device_for(ctx))
                self._data[ctx] = kind(moved.copy())
        for array in self._data.values():
            self._attach(array)

    def _attach(self, array):
        if self._engine is not None:
            self._engine.set_grad_mode("off" if self._grad_req == "null" else self._grad_req)
        elif array._tensor.dtype.is_floating:
            _core.attach_grad(array._tensor, "off" if self._grad_req == "null" else self._grad_req)
        array._grad_req, array._grad_stype = self._grad_req, self._grad_stype
        array._grad = None

    def _check_ready(self):
        if self._data is not None:
            return
        if self._deferred is not None:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was "
                "deferred. Actual initialization happens during the first forward pass. Please "
                "pass one batch of data through the network before accessing Parameters.")
        raise RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize "
            "parameters and create Trainer with Block.collect_params() instead of Block.params "
            "because the later does not include Parameters of nested child Blocks")

    def _on(self, ctx):
        self._check_ready()
        data = self._data
        if ctx is None:
            if len(data) == 1:
                return next(iter(data.values()))
            ctx = current_context()
        found = data.get(ctx)
        if found is None:
            for own, array in data.items():
                if array.context == ctx or device_for(own) == device_for(ctx):
                    return array
            raise RuntimeError(f"Parameter '{self.name}' was not initialized on context {ctx}. It "
                               f"was only initialized on {list(data)}.")
        return found

    def data(self, ctx=None):
        """The array on a context."""
        traced = _tracing.substitute(self)
        if traced is not None:
            return traced
        if self._stype != "default":
            self._refuse_whole("data")
        return self._on(ctx)

    def _arrays(self):
        """The arrays on all contexts, however they are stored."""
        self._check_ready()
        return list(self._data.values())

    def list_data(self):
        """The arrays on all contexts."""
        if self._stype != "default":
            self._refuse_whole("list_data")
        return self._arrays()

    def _refuse_whole(self, call):
        raise RuntimeError(f"Cannot return a copy of Parameter '{self.name}' via {call}() because "
                           f"its storage type is {self._stype}. Please use row_sparse_data() "
                           "instead.")

    def grad(self, ctx=None):
        """The gradient on a context."""
        if self._data is not None and self._grad_req == "null":
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because "
                               "grad_req='null'")
        return self._on(ctx).grad

    @property
    def _grad(self):
        """The gradients on all contexts; None where there are none."""
        if self._data is None or self._grad_req == "null":
            return None
        return self.list_grad()

    def list_grad(self):
        """The gradients on all contexts."""
        self._check_ready()
        return [self.grad(ctx) for ctx in self._data]

    def list_ctx(self):
        """Its contexts."""
        if self._data is None and self._deferred is not None:
            return list(self._deferred[1])
        self._check_ready()
        return list(self._data)

    def zero_grad(self):
        """Sets gradients to 0."""
        if self._grad_req == "null" or self._data is None:
            return
        for array in self._arrays():
            if array._tensor.grad is not None:
                _core.zero_gradient(array._tensor)

    def __setitem__(self, index, value):
        raise TypeError("'Parameter' takes no items: write parameter.set_data(array)")

    def set_data(self, data):
        """Writes to the arrays of all contexts."""
        traced = _tracing.substitute(self)
        value = data if isinstance(data, NDArray) else NDArray(_core._as_tensor(data))
        if traced is not None:
            traced._tensor = ops.cast(value._tensor, traced._tensor.dtype)
            return
        self.shape = value.shape
        if self._data is None:
            if self._deferred is None:
                raise RuntimeError(f"Parameter '{self.name}' has not been initialized")
            init, contexts, default, _ = self._deferred
            self._deferred = (init, contexts, default, value)
            self._finish_deferred_init()
            return
        for array in self._data.values():
            value.copyto(array)
        if self._trainer is not None:
            self._trainer._forget_store()

    def reset_ctx(self, ctx):
        """Moves it to other contexts."""
        contexts = as_list(ctx)
        if self._data is not None:
            first = self._arrays()[0]._tensor
            self._set_contents(first, contexts)
        elif self._deferred is not None:
            init, _, default, data = self._deferred
            self._deferred = (init, contexts, default, data)
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not "
                             "been initialized.")

    reset_device = reset_ctx

    def cast(self, dtype):
        """Converts contents to another dtype."""
        self.dtype = np.dtype(dtype_name(dtype)).type if dtype_name(dtype) != "bfloat16" else dtype
        if self._data is not None:
            first = self._arrays()[0]._tensor
            self._set_contents(first, list(self._data))

    def var(self):
        """The symbol that stands for it."""
        if self._var is None:
            from lockstep.mxnet import symbol

            self._var = symbol.var(self.name, shape=self.shape, dtype=self.dtype,
                                   lr_mult=self.lr_mult, wd_mult=self.wd_mult, init=self.init,
                                   stype=self._stype)
        return self._var.as_np_ndarray() if is_np_array() else self._var

    def row_sparse_data(self, row_id):
        """The rows that are named, of the array on their context; the others show as 0."""
        self._check_rows_wanted(row_id)
        return self._rows_of(self._on(row_id.context), row_id)

    def list_row_sparse_data(self, row_id):
        """As row_sparse_data, on all contexts."""
        self._check_rows_wanted(row_id)
        return [self._rows_of(array, row_id) for array in self._arrays()]

    def _check_rows_wanted(self, row_id):
        if self._stype != "row_sparse":
            raise RuntimeError(f"Cannot return a copy of Parameter {self.name} via "
                               f"row_sparse_data() because its storage type is {self._stype}. "
                               "Please use data() instead.")
        if not isinstance(row_id, NDArray):
            raise TypeError(f"row_id must have NDArray type, but {type(row_id)} is given")
        if self._trainer is None:
            raise RuntimeError(f"Cannot get row_sparse data for Parameter '{self.name}' when no "
                               "Trainer is created with it.")

    @staticmethod
    def _rows_of(array, row_id):
        """A handle on the array, with its gradient, that shows these rows alone."""
        from lockstep.mxnet.ndarray import sparse

        made = sparse.ShownRows(array._tensor, row_id)
        made._grad_req, made._grad_stype, made._grad = array._grad_req, array._grad_stype, None
        return made

    def __reduce__(self):
        state = {key: value for key, value in self.__dict__.items()
                 if key not in ("_engine", "_data", "_var", "_trainer", "_deferred")}
        contents = None if self._data is None else self._arrays()[0].asnumpy()
        return _restored, (type(self), state, contents)

    # Loading, as Block.load_parameters does it.
    def _load_init(self, data, ctx, cast_dtype=False, dtype_source="current"):
        if cast_dtype and dtype_source == "saved":
            self.cast(data.dtype)
        elif not cast_dtype and np.dtype(self.dtype) != np.dtype(data.dtype):
            raise AssertionError(
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible "
                f"expected {self.dtype} vs saved {data.dtype}. Set cast_dtype=True to cast the "
                "dtype of saved params.")
        if self._shape is not None:
            fits = len(self._shape) == len(data.shape) and all(
                own in (0, -1, new) for own, new in zip(self._shape, data.shape))
            if not fits:
                raise AssertionError(
                    f"Failed loading Parameter '{self.name}' from saved params: shape incompatible "
                    f"expected {self._shape} vs saved {data.shape}")
        self._shape = tuple(data.shape)
        if self._data is None:
            contexts = self._deferred[1] if ctx is None and self._deferred else (
                as_list(ctx) if ctx is not None else [cpu()])
            self._deferred = None
            self._set_contents(data._tensor, contexts)
        else:
            if ctx is not None and set(as_list(ctx)) != set(self._data):
                self.reset_ctx(ctx)
            self.set_data(data)


def _restored(kind, state, contents):
    made = kind.__new__(kind)
    made.__dict__.update(state)
    made._engine = made._data = made._var = made._trainer = made._deferred = None
    if contents is not None:
        made._set_contents(_core.Tensor(contents), [cpu()])
    return made


class Constant(Parameter):
    """A parameter that does not change."""

    def __init__(self, name, value):
        from lockstep.mxnet import initializer
        from lockstep.mxnet.ndarray import array

        if not isinstance(value, NDArray):
            value = array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype,
                         init=initializer.Constant(value.asnumpy()), differentiable=False)

    def __repr__(self):
        return f"Constant {self.name} (shape={self.shape}, dtype={np.dtype(self.dtype)})"

    @property
    def grad_req(self):
        """'null'"""
        return "null"

    @grad_req.setter
    def grad_req(self, req):
        self._grad_req = "null"
        if req != "null":
            warnings.warn("Constant parameter does not support grad_req other than 'null'",
                          stacklevel=2)


def __getattr__(name):
    if name == "ParameterDict":
        from lockstep.mxnet.gluon.parameter_dict import ParameterDict

        return ParameterDict
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _on_host(parameter):
    first = parameter._arrays()[0]
    tensor = first._tensor.detach()
    kind = NDArray if first.stype == "default" else type(first)
    return kind(tensor if tensor.device.index == 0 else tensor.to(_core.cpu(0)))
