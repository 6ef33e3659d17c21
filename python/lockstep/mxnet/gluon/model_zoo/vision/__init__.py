# SPDX-License-Identifier: Apache-2.0
"""gluon.model_zoo.vision: architectures for pictures."""

from lockstep.mxnet.base import attributes_of, nearest
from lockstep.mxnet.gluon.model_zoo.vision import classic, inception, mobilenet, resnet
from lockstep.mxnet.gluon.model_zoo.vision.classic import *  # noqa: F401,F403
from lockstep.mxnet.gluon.model_zoo.vision.inception import *  # noqa: F401,F403
from lockstep.mxnet.gluon.model_zoo.vision.mobilenet import *  # noqa: F401,F403
from lockstep.mxnet.gluon.model_zoo.vision.resnet import *  # noqa: F401,F403

_MODELS = {name: globals()[name] for module in (classic, inception, mobilenet, resnet)
           for name in module.__all__ if name[0].islower() and not name.startswith("get_")}
_MODELS["inceptionv3"] = _MODELS["inception_v3"]
_DOTTED = {name.replace("1_0", "1.0").replace("1_1", "1.1").replace("0_", "0.")
           .replace("_v2_", "v2_"): model for name, model in _MODELS.items()}


def get_model(name, **kwargs):
    """A model by name: get_model('resnet18_v1', classes=10)."""
    name = name.lower()
    found = _MODELS.get(name) or _DOTTED.get(name)
    if found is None:
        raise ValueError(f"Model {name} is not supported{nearest(name, _MODELS)}. Available options "
                         f"are\n\t" + "\n\t".join(sorted(_MODELS)))
    return found(**kwargs)


__all__ = ["get_model", *classic.__all__, *inception.__all__, *mobilenet.__all__, *resnet.__all__]
__getattr__ = attributes_of(globals())
