# SPDX-License-Identifier: Apache-2.0
"""What `lockstep train` knows by name, and the models that runs leave.

>>> from lockstep import recipes
>>> recipes.find("mnist-lenet").sample_shape
(1, 28, 28)
"""

import json
import os

from lockstep import ops
from lockstep._core import recipes as _recipes
from lockstep._core.recipes import Recipe, TrainedModel, find, names

__all__ = ["Recipe", "TrainedModel", "find", "load", "names"]


def load(folder):
    """The model of a run's folder: `lockstep.load("runs/mnist-lenet-1").predict(x)`."""
    return _recipes._load_run(os.fspath(folder))


def _predict(self, x):
    """Probabilities of the classes, [N, classes]; of a file, one row for each sample in it.

    `x` is a batch as the net reads it, one picture of uint8 pixels ([H, W] or [H, W, C]), or a
    file's path.
    """
    if isinstance(x, (str, os.PathLike)):
        rows = [ops.softmax(self.net(batch)) for _, batch in self._read(os.fspath(x))]
        return ops.concat(rows, axis=0)
    return ops.softmax(self._scores(x))


TrainedModel.predict = _predict
TrainedModel.config = property(lambda self: json.loads(self._config),
                               doc="What the run's bits depend on.")
TrainedModel.__repr__ = lambda self: (
    f"{self.recipe.name}, step {self.step}, params_sha256 {self.params_sha256}")
