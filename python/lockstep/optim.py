# SPDX-License-Identifier: Apache-2.0
"""Update rules, schedules of the learning rate, and the Updater of loops by hand.

>>> from lockstep import optim
>>> optim.adam(learning_rate=0.01).learning_rate
0.01
>>> optim.cosine(0.1, steps=100)(50)
0.05
"""

from lockstep._core import optim as _optim
from lockstep._core.optim import (Optimizer, Schedule, Updater, WarmUp, constant, cosine, factor,
                                  multi_factor, optimizer_names, polynomial, reduce_on_plateau)

__all__ = ["Optimizer", "Schedule", "Updater", "WarmUp", "constant", "cosine", "factor",
           "make_optimizer", "multi_factor", "optimizer_names", "polynomial", "reduce_on_plateau"]

# C++ and Python say what it is; MXNet's scripts have shorter names, which serve too.
_ALIASES = {"weight_decay": "wd", "clip_value": "clip_gradient"}
_ALIASES_OF = {"rmsprop": {"rho": "gamma1", "momentum": "gamma2"}, "ftrl": {"lambda1": "lamda1"},
               "signum": {"decoupled_decay": "wd_lh"}}


def make_optimizer(name, **parameters):
    """A rule by name: make_optimizer("sgd", learning_rate=0.1, momentum=0.9, weight_decay=1e-4)."""
    aliases = {**_ALIASES, **_ALIASES_OF.get(name.lower(), {})}
    values = {aliases.get(key, key): float(value) for key, value in parameters.items()}
    return _optim.make_optimizer(name, values)


def _rule(name):
    def make(**parameters):
        if name == "sgd" and parameters.pop("nesterov", False):
            return make_optimizer("nag", **parameters)
        return make_optimizer(name, **parameters)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The rule {name}; its parameters by name, learning_rate and weight_decay first."
    return make


for _name in optimizer_names():
    globals()[_name] = _rule(_name)
    __all__.append(_name)
