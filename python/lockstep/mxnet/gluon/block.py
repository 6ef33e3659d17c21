# SPDX-License-Identifier: Apache-2.0
"""Blocks: parameters, children, and a forward that is plain code on arrays."""

import copy
import re
import warnings
from collections import OrderedDict

from lockstep.mxnet import _hints
from lockstep.mxnet.base import MXNetError
from lockstep.mxnet.gluon import _cached, _tracing
from lockstep.mxnet.gluon._scope import BlockScope
from lockstep.mxnet.gluon.parameter import DeferredInitializationError, Parameter, _on_host
from lockstep.mxnet.gluon.parameter_dict import ParameterDict, _some
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


class HookHandle:
    """Takes a hook off again."""

    def __init__(self, hooks, key):
        self._hooks, self._key = hooks, key

    def detach(self):
        """Removes the hook."""
        self._hooks.pop(self._key, None)

    remove = detach

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.detach()


def _indented(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *[" " * spaces + line for line in rest]])


def _holds_arrays(value):
    """Whether an array is among nested arguments."""
    if isinstance(value, (list, tuple)):
        return any(_holds_arrays(item) for item in value)
    return isinstance(value, NDArray)


def _holds_symbols(value):
    """Whether a symbol is among nested arguments."""
    if isinstance(value, (list, tuple)):
        return any(_holds_symbols(item) for item in value)
    return hasattr(value, "_heads")


def _blocks_in(value):
    """The blocks in nested lists, tuples and dicts."""
    if isinstance(value, Block):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [block for item in value for block in _blocks_in(item)]
    return []


def _first_context(value):
    """The context of the first array among nested arguments."""
    if isinstance(value, (list, tuple)):
        return next((found for item in value if (found := _first_context(item)) is not None), None)
    return value.context if isinstance(value, NDArray) else None


class Block:
    """A piece of a model."""

    __getattr__ = _hints.lookup(_hints.BLOCK)

    def __init__(self, prefix=None, params=None):
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope = BlockScope(self)
        self._children = OrderedDict()
        self._reg_params = {}
        self._forward_hooks = OrderedDict()
        self._forward_pre_hooks = OrderedDict()

    def _alias(self):
        return type(self).__name__.lower()

    def __repr__(self):
        lines = [f"  ({name}): {_indented(repr(child), 2)}"
                 for name, child in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def __setattr__(self, name, value):
        if isinstance(value, (Block, Parameter)):
            if "_children" not in self.__dict__:
                raise TypeError(f"{type(self).__name__}: super().__init__() comes before blocks and "
                                "parameters are assigned")
            existing = self.__dict__.get(name)
            if existing is not None and not isinstance(existing, (Block, Parameter)):
                raise TypeError(f"Changing attribute type for {name} from {type(existing)} to "
                                f"{type(value)} is not allowed.")
            if isinstance(value, Block):
                self.register_child(value, name)
            else:
                self._reg_params[name] = value
        elif isinstance(self.__dict__.get(name), (Block, Parameter)) and value is not None:
            raise TypeError(f"Changing attribute type for {name} from "
                            f"{type(self.__dict__[name])} to {type(value)} is not allowed.")
        super().__setattr__(name, value)

    # Names.
    @property
    def prefix(self):
        """What its parameters' names begin with."""
        return self._prefix

    @property
    def name(self):
        """The prefix without its underscore."""
        return self._name

    @property
    def params(self):
        """Its own parameters, without its children's."""
        return self._params

    def name_scope(self):
        """While it lasts, new blocks' names begin with this one's."""
        return self._scope

    # Parts.
    def register_child(self, block, name=None):
        """Makes a block a part of this one."""
        self._children[str(len(self._children)) if name is None else name] = block

    def collect_params(self, select=None):
        """All parameters, or those whose names match an expression."""
        self._warn_of_hidden_blocks()
        made = ParameterDict(self._params.prefix)
        own = self._params if select is None else {
            name: value for name, value in self._params.items() if re.match(select, name)}
        made.update(own)
        for parameter in self._reg_params.values():
            if select is None or re.match(select, parameter.name):
                made._params.setdefault(parameter.name, parameter)
        for child in self._children.values():
            made.update(child.collect_params(select=select))
        return made

    def _warn_of_hidden_blocks(self):
        known = set(map(id, self._children.values()))
        for name, value in self.__dict__.items():
            if isinstance(value, (list, tuple, dict)) and not name.startswith("_"):
                hidden = [b for b in _blocks_in(value) if id(b) not in known]
                if hidden:
                    warnings.warn(f"'{type(self).__name__}.{name}' is an unregistered container "
                                  "with Blocks. Note that Blocks inside the list, tuple or dict "
                                  "will not be registered automatically. Make sure to register "
                                  "them using register_child() or switching to "
                                  "nn.Sequential/nn.HybridSequential instead.", stacklevel=3)

    def _collect_params_with_prefix(self, prefix=""):
        if prefix:
            prefix += "."
        found = {prefix + name: value for name, value in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    def apply(self, fn):
        """Calls fn on all blocks, children first."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False, device=None):
        """Contents for all parameters."""
        self.collect_params().initialize(init, ctx if ctx is not None else device, verbose,
                                         force_reinit)

    def reset_ctx(self, ctx):
        """Moves all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    reset_device = reset_ctx

    def hybridize(self, active=True, **kwargs):
        """Compiles children that can be."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def cast(self, dtype):
        """Converts all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self.params.values():
            parameter.cast(dtype)

    def zero_grad(self):
        """Sets all gradients to 0."""
        self.collect_params().zero_grad()

    def setattr(self, name, value):  # noqa: A003 - MXNet's name
        """Sets an attribute of all parameters."""
        self.collect_params().setattr(name, value)

    def share_parameters(self, shared):
        """Takes parameters of a dict by structural names."""
        if not shared:
            return self
        for name in list(self._collect_params_with_prefix()):
            if name in shared:
                self._set_parameter(name, shared[name])
        return self

    def _set_parameter(self, path, parameter):
        *parents, name = path.split(".")
        block = self
        for parent in parents:
            block = block._children[parent]
        block._params._params.pop(block._reg_params[name].name, None)
        block._reg_params[name] = parameter
        object.__setattr__(block, name, parameter)

    # Files.
    def save_parameters(self, filename, deduplicate=False):
        """Writes parameters by their structural names."""
        from lockstep.mxnet.ndarray import save

        parameters = self._collect_params_with_prefix()
        if deduplicate:
            seen = {}
            for name, value in parameters.items():
                seen.setdefault(id(value), name)
            parameters = {name: parameters[name] for name in seen.values()}
        save(filename, {name: _on_host(value) for name, value in parameters.items()})

    def save_params(self, filename):
        """The older form, by names without the prefix."""
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_parameters(self, filename, ctx=None, allow_missing=False, ignore_extra=False,
                        cast_dtype=False, dtype_source="current", device=None):
        """Reads what save_parameters, or another MXNet, wrote."""
        from lockstep.mxnet.ndarray import load

        ctx = ctx if ctx is not None else device
        loaded = load(filename)
        parameters = self._collect_params_with_prefix()
        if not loaded and not parameters:
            return
        if not any("." in name for name in loaded):
            self.collect_params().load(filename, ctx, allow_missing, ignore_extra, self.prefix,
                                       cast_dtype, dtype_source)
            return
        self._load(filename, loaded, parameters, ctx, allow_missing, ignore_extra, cast_dtype,
                   dtype_source)

    def load_dict(self, param_dict, ctx=None, allow_missing=False, ignore_extra=False,
                  cast_dtype=False, dtype_source="current"):
        """Takes arrays by structural names."""
        self._load("the dict", param_dict, self._collect_params_with_prefix(), ctx, allow_missing,
                   ignore_extra, cast_dtype, dtype_source)

    def _load(self, source, loaded, parameters, ctx, allow_missing, ignore_extra, cast_dtype,
              dtype_source):
        if not allow_missing:
            names = {}
            for name, value in parameters.items():
                names.setdefault(id(value), []).append(name)
            for name, value in parameters.items():
                if not any(alias in loaded for alias in names[id(value)]):
                    raise AssertionError(
                        f"Parameter '{name}' is missing in file '{source}', which contains "
                        f"parameters: {_some(loaded)}. Set allow_missing=True to ignore missing "
                        "parameters.")
        for name, value in loaded.items():
            if name in parameters:
                parameters[name]._load_init(value, ctx, cast_dtype, dtype_source)
            elif not ignore_extra:
                raise ValueError(f"Parameter '{name}' loaded from file '{source}' is not present in "
                                 f"ParameterDict, which contains parameters {_some(parameters)}. "
                                 "Set ignore_extra=True to ignore. ")

    load_params = load_parameters

    # Calls.
    def register_forward_hook(self, hook):
        """hook(block, inputs, outputs) after every forward."""
        return self._add_hook(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook):
        """hook(block, inputs) before every forward."""
        return self._add_hook(self._forward_pre_hooks, hook)

    @staticmethod
    def _add_hook(hooks, hook):
        key = object()
        hooks[key] = hook
        return HookHandle(hooks, key)

    def __call__(self, *args, **unknown):
        if unknown:
            self._refuse(unknown)
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                hook(self, args)
        made = self.forward(*args)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                hook(self, args, made)
        return made

    def _refuse(self, unknown):
        hint = f"; {_hints.IS_TRAIN}" if "is_train" in unknown else ""
        raise TypeError(f"{type(self).__name__}: a call has arguments by place alone, got "
                        f"{', '.join(unknown)}={hint}")

    def forward(self, *args):
        """What a subclass computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def summary(self, *inputs):
        """Prints a table of layers, shapes and parameters."""
        from lockstep.mxnet.gluon._summary import print_summary

        print_summary(self, inputs)


class HybridBlock(Block):
    """A block whose forward can be compiled: hybrid_forward(F, x, ..., parameters by name)."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix, params)
        self._active = False
        self._graph = None
        self._flags = {}

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, (HybridBlock, Parameter)):
            self._clear_cached_op()

    def _clear_cached_op(self):
        if self.__dict__.get("_graph") is not None:
            self._graph.clear()

    def register_child(self, block, name=None):
        """Makes a block that can be compiled a part of this one."""
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block!r} has type "
                f"{type(block)}. If you are using Sequential, please try HybridSequential instead.")
        super().register_child(block, name)
        self._clear_cached_op()

    def hybridize(self, active=True, backend=None, backend_opts=None, clear=True, **kwargs):
        """From now on forward is traced once for each combination of shapes, and runs compiled."""
        self._active = active
        self._flags = kwargs
        self._clear_cached_op()
        super().hybridize(active, **kwargs)

    def cast(self, dtype):
        """Converts all parameters."""
        self._clear_cached_op()
        super().cast(dtype)

    def optimize_for(self, x, *args, backend=None, clear=True, **kwargs):
        """Hybridizes and calls."""
        self.hybridize(True)
        return self(x, *args)

    def infer_shape(self, *args):
        """Tells parameters' shapes of the inputs', by the symbol of hybrid_forward; layers have a
        way of their own."""
        if all(isinstance(x, NDArray) for x in args):
            self._infer_by_symbol(args)
        for parameter in self._reg_params.values():
            if parameter._data is None and not all(n > 0 for n in parameter.shape or (0,)):
                raise MXNetError(
                    f"{type(self).__name__}: the shape {parameter.shape} of parameter "
                    f"'{parameter.name}' is not known; give it, or write "
                    "infer_shape(self, x) that sets it")

    def _infer_by_symbol(self, args):
        from lockstep.mxnet import _graph, _infer, _symbol_block, symbol

        names = [f"data{i}" for i in range(len(args))]
        variables = [_symbol_block.variable(n, x) for n, x in zip(names, args)]
        made = _symbol_block._flat(self._forward_symbol(*variables))
        whole = made[0] if len(made) == 1 else symbol.Group(made)
        known = _infer.complete(whole, {n: x.shape for n, x in zip(names, args)})
        own = {p.name: p for p in self._reg_params.values()}
        for node in _graph.topological(whole._heads):
            shape = known.get((id(node), 0))
            if node.is_variable and node.name in own and shape is not None:
                own[node.name].shape = shape

    def infer_type(self, *args):
        """Parameters keep the dtype they were given."""

    def _finish_deferred(self, *args):
        self.infer_shape(*args)
        for parameter in self._reg_params.values():
            parameter._finish_deferred_init()

    def __call__(self, *args, **unknown):
        if unknown:
            self._refuse(unknown)
        # A forward of the subclass's own, on arrays alone, is compiled as hybrid_forward is.
        if self._active and type(self).forward is not HybridBlock.forward and (
                not self._forward_hooks and not self._forward_pre_hooks
                and not _tracing.is_active()):
            made = self._compiled(args)
            if made is not NotImplemented:
                return made
        return super().__call__(*args)

    def _compiled(self, args, checked=False):
        if self._graph is None:
            self._graph = _cached.CachedGraph(self)
        return self._graph(args, checked)

    def forward(self, x, *args):
        """Compiled where it is hybridized, else op by op."""
        if not isinstance(x, NDArray) and not _holds_arrays((x, *args)):
            return self._forward_symbol(x, *args)
        if (args or not isinstance(x, NDArray)) and _holds_symbols((x, *args)):
            raise ValueError(f"{type(self).__name__}: arrays and symbols are not mixed in a call")
        if self._active and not _tracing.is_active():
            made = self._compiled((x, *args), checked=True)
            if made is not NotImplemented:
                return made
        return self._by_hybrid_forward(x, *args)

    def _forward_now(self, x, *args):
        if type(self).forward is not HybridBlock.forward:
            return self.forward(x, *args)
        return self._by_hybrid_forward(x, *args)

    def _by_hybrid_forward(self, x, *args):
        from lockstep.mxnet import ndarray

        if not self._reg_params:
            return self.hybrid_forward(ndarray, x, *args)
        ctx = x.context if isinstance(x, NDArray) else _first_context((x, *args))
        try:
            own = {name: p.data(ctx) for name, p in self._reg_params.items()}
        except DeferredInitializationError:
            self._finish_deferred(x, *args)
            own = {name: p.data(ctx) for name, p in self._reg_params.items()}
        return self.hybrid_forward(ndarray, x, *args, **own)

    def _forward_symbol(self, x, *args):
        from lockstep.mxnet import symbol

        first = x[0] if isinstance(x, (list, tuple)) and x else x
        if first is None and args:
            first = next((a for a in args if isinstance(a, symbol.Symbol)), None)
        if not isinstance(first, symbol.Symbol):
            raise ValueError(f"{type(self).__name__}: expected arrays or symbols, got "
                             f"{type(first).__name__}")
        own = {name: p.var() for name, p in self._reg_params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbol, x, *args, **own)

    def hybrid_forward(self, F, x, *args, **kwargs):  # noqa: N803 - MXNet's name
        """What a subclass computes, with F.op on arrays or symbols."""
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward")

    def export(self, path, epoch=0, remove_amp_cast=True):
        """Writes path-symbol.json and path-0000.params."""
        from lockstep.mxnet import _symbol_block

        return _symbol_block.export(self, path, epoch)

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for key, value in self.__dict__.items():
            object.__setattr__(made, key, None if key == "_graph" else copy.deepcopy(value, memo))
        return made


class SymbolBlock(HybridBlock):
    """A block of a symbol: outputs as a function of inputs, the rest parameters."""

    def __new__(cls, *args, **kwargs):
        from lockstep.mxnet import _symbol_block

        if cls is SymbolBlock and hasattr(_symbol_block, "SymbolBlock"):
            return _symbol_block.SymbolBlock(*args, **kwargs)
        return super().__new__(cls)

    @staticmethod
    def imports(symbol_file, input_names, param_file=None, ctx=None):
        """Of the files that export() or Module wrote."""
        from lockstep.mxnet import _symbol_block

        return _symbol_block.imports(symbol_file, input_names, param_file, ctx)
