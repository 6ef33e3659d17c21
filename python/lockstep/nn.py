# SPDX-License-Identifier: Apache-2.0
"""Blocks: parameters, children, and a `forward` that is plain code on tensors.

>>> import lockstep as ls
>>> from lockstep import nn
>>> class Net(nn.Block):
...     def __init__(self):
...         super().__init__()
...         self.hidden = nn.dense(8, activation="relu")
...         self.out = nn.dense(2)
...     def forward(self, x):
...         return self.out(self.hidden(x))
>>> net = Net()
>>> net.initialize(seed=1)
>>> net(ls.ones((4, 3))).shape
(4, 2)
>>> list(net.parameters())
['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
"""

from lockstep._core import nn as _nn
from lockstep._core import Tensor as _Tensor
from lockstep._core import _mode_dropout
from lockstep._core.nn import *  # noqa: F401,F403
from lockstep._core.nn import Block, Parameter, RecurrentCell, Sequential
from lockstep._core.nn import init, models
from lockstep._html import block_html

Module = Block


def sequential(*blocks):
    """Blocks one after the other."""
    return Sequential(*blocks)


def lstm(hidden, layers=1, layout="TNC", dropout=0.0, bidirectional=False, inputs=-1,
         use_sequence_length=False):
    """Called on one tensor it gives the outputs [T, N, H]; on (x, hidden, cell) those and the last
    states."""
    return _nn._recurrent("lstm", hidden, layers, layout, dropout, bidirectional, inputs,
                          use_sequence_length)


def gru(hidden, layers=1, layout="TNC", dropout=0.0, bidirectional=False, inputs=-1,
        use_sequence_length=False):
    """As lstm, with gated units that have no cell."""
    return _nn._recurrent("gru", hidden, layers, layout, dropout, bidirectional, inputs,
                          use_sequence_length)


def rnn(hidden, activation="tanh", layers=1, layout="TNC", dropout=0.0, bidirectional=False,
        inputs=-1, use_sequence_length=False):
    """Plain recurrent layers with tanh or relu."""
    return _nn._recurrent(f"rnn_{activation}", hidden, layers, layout, dropout, bidirectional,
                          inputs, use_sequence_length)


def lstm_cell(hidden, inputs=-1):
    """One step of an lstm."""
    return RecurrentCell("lstm", hidden, inputs)


def gru_cell(hidden, inputs=-1):
    """One step of a gru."""
    return RecurrentCell("gru", hidden, inputs)


def rnn_cell(hidden, activation="tanh", inputs=-1):
    """One step of a plain recurrent layer."""
    return RecurrentCell(f"rnn_{activation}", hidden, inputs)


def pad1d(widths, mode="constant", value=0.0):
    """More elements at both ends of the last axis of [N, C, W]."""
    return _nn._pad(1, widths, mode, value)


def pad2d(widths, mode="constant", value=0.0):
    """More elements around [N, C, H, W]."""
    return _nn._pad(2, widths, mode, value)


def pad3d(widths, mode="constant", value=0.0):
    """More elements around [N, C, D, H, W]."""
    return _nn._pad(3, widths, mode, value)


def functional_dropout(x, p):
    """Drops in train mode alone; `lockstep.dropout` always does."""
    return _mode_dropout(x, p)


def _operator(name):
    def apply(self, *others):
        return getattr(self.data(), name)(*others)
    apply.__name__ = name
    return apply


def _contents_attribute(self, name):
    """Methods of tensors: `self.weight.sum()` is that of the contents."""
    if name.startswith("_") or not hasattr(_Tensor, name):
        raise AttributeError(f"'Parameter' object has no attribute '{name}'")
    return getattr(self.data(), name)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _form in (f"__{_name}__", f"__r{_name}__"):
        setattr(Parameter, _form, _operator(_form))
for _name in ("neg", "pos", "abs", "lt", "le", "gt", "ge", "getitem", "len"):
    setattr(Parameter, f"__{_name}__", _operator(f"__{_name}__"))
Parameter.__getattr__ = _contents_attribute

_engine_init = Block.__init__


def _init(self):
    _engine_init(self)
    object.__setattr__(self, "_has_begun", True)


def _setattr(self, name, value):
    if isinstance(value, (Block, Parameter)) and "_has_begun" not in self.__dict__:
        raise TypeError(f"{type(self).__name__}: super().__init__() comes before blocks and "
                        "parameters are assigned")
    if isinstance(value, Block):
        if name in self.children():
            self._replace_child(name, value)
        else:
            self._add_child(name, value)
    elif isinstance(value, Parameter):
        self._add_parameter(name, value)
    object.__setattr__(self, name, value)


def _register_child(self, block, name=None):
    """Makes a block, of a list say, a child: its parameters are this block's."""
    name = str(len(self.children())) if name is None else name
    self._add_child(name, block)
    return block


def _replace(self, path, block):
    """From now on `block` is called where the descendant was."""
    self._replace_child(path, block)
    if "." not in path and path in self.__dict__:
        object.__setattr__(self, path, block)


def _repr(self):
    lines = [self._description()]
    for name, child in self.children().items():
        text = repr(child).replace("\n", "\n  ")
        lines.append(f"  ({name}): {text}")
    return "\n".join(lines)


def _summary(self, *inputs):
    """A table of layers, shapes and parameters, for inputs or their shapes."""
    return Summary(self._summary(*inputs))


class Summary(str):
    """A text that notebooks show as a table."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        return block_html(str(self))


def _apply(self, function):
    """Calls `function` on every descendant, then on this block."""
    for child in self.children().values():
        child.apply(function)
    function(self)
    return self


def _iterate(self):
    return iter(list(self.children().values()))


Block.__init__ = _init
Block.__setattr__ = _setattr
Block.__repr__ = _repr
Block.register_child = _register_child
Block.replace_child = _replace
Block.summary = _summary
Block.apply = _apply
Sequential.__iter__ = _iterate
