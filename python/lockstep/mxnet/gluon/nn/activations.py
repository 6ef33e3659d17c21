# SPDX-License-Identifier: Apache-2.0
"""Activations as blocks."""

from lockstep.mxnet.gluon.block import HybridBlock

__all__ = ["ELU", "GELU", "Activation", "LeakyReLU", "PReLU", "SELU", "SiLU", "Swish"]


class Activation(HybridBlock):
    """A function of each element by name."""

    def __init__(self, activation, **kwargs):
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self):
        return self._act_type

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self):
        return f"Activation({self._act_type})"


class LeakyReLU(HybridBlock):
    """x above 0, alpha x below."""

    def __init__(self, alpha, **kwargs):
        if alpha < 0:
            raise AssertionError("Slope coefficient for LeakyReLU must be no less than 0.")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self):
        return f"LeakyReLU({self._alpha})"


class PReLU(HybridBlock):
    """Its slope below 0 is learnt."""

    def __init__(self, alpha_initializer=None, in_channels=1, **kwargs):
        from lockstep.mxnet.initializer import Constant

        super().__init__(**kwargs)
        init = Constant(0.25) if alpha_initializer is None else alpha_initializer
        self.alpha = self.params.get("alpha", shape=(in_channels,), init=init)

    def hybrid_forward(self, F, x, alpha):  # noqa: N803
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x above 0, alpha (exp(x) - 1) below."""

    def __init__(self, alpha=1.0, **kwargs):
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """elu that keeps mean and variance."""

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the probability that a normal number is below."""

    def hybrid_forward(self, F, x):  # noqa: N803
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x sigmoid(beta x)."""

    def __init__(self, beta=1.0, **kwargs):
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F, x):  # noqa: N803
        return x * F.sigmoid(self._beta * x, name="fwd")


SiLU = Swish
