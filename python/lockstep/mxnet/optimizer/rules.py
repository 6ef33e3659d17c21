# SPDX-License-Identifier: Apache-2.0
"""MXNet's update rules.

SGD and Adam, which nearly all scripts use, are the engine's own where a Trainer runs them; the
others are written on tensors here.
"""

import math

from lockstep import _core, ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.optimizer.optimizer import Optimizer, register, zeros_like

__all__ = ["AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB",
           "LARS", "LBSGD", "NAG", "Nadam", "RMSProp", "SGD", "SGLD", "Signum", "Test"]


def _norm(x):
    return ops.sqrt(ops.sum(ops.square(ops.cast(x, "float32"))))


@register
class SGD(Optimizer):
    """m = momentum m - lr (g + wd w); w + m."""

    _copy_is_last = True

    def __init__(self, momentum=0.0, lazy_update=True, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update

    def create_state(self, index, weight):
        return zeros_like(weight) if self.momentum else None

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g) + w * wd
        if state is None:
            return w - g * lr
        state._tensor.assign(state._tensor * self.momentum - g * lr)
        return w + state._tensor

    def _rule(self):
        return "sgd", {"momentum": self.momentum}


@register
class NAG(SGD):
    """SGD with Nesterov's momentum."""

    def __init__(self, momentum=0.0, **kwargs):
        super().__init__(momentum, lazy_update=False, **kwargs)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g) + w * wd
        if state is None:
            return w - g * lr
        state._tensor.assign(state._tensor * self.momentum - g * lr)
        return w + state._tensor * self.momentum - g * lr

    def _rule(self):
        return None


@register
class SGLD(Optimizer):
    """SGD with noise: Langevin dynamics."""

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g) + w * wd
        noise = _random_state.draw(ops.normal, w, shape=w.shape, stddev=math.sqrt(lr))
        return w - g * (lr / 2) + noise


@register
class Signum(Optimizer):
    """The sign of the momentum."""

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def create_state(self, index, weight):
        return zeros_like(weight) if self.momentum else None

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g)
        if state is None:
            return w * (1 - lr * wd) - ops.sign(g) * lr
        state._tensor.assign(state._tensor * self.momentum - (g + w * wd) * (1 - self.momentum))
        return w * (1 - lr * self.wd_lh) + ops.sign(state._tensor) * lr


@register
class DCASGD(Optimizer):
    """SGD that makes up for late gradients."""

    def __init__(self, momentum=0.0, lamda=0.04, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda

    def create_state(self, index, weight):
        return zeros_like(weight) if self.momentum else None, weight.copy()

    def _step(self, w, g, state, lr, wd, t):
        momentum, previous = state
        g = self._clipped(g)
        step = (g + w * wd + g * g * (w - previous._tensor) * self.lamda) * -lr
        if momentum is not None:
            momentum._tensor.assign(momentum._tensor * self.momentum + step)
            step = momentum._tensor
        previous._tensor.assign(w)
        return w + step


class _Moments(Optimizer):
    """Rules with a mean and a square of gradients."""

    def __init__(self, beta1, beta2, epsilon, **kwargs):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def _advance(self, state, g):
        mean, square = state[0]._tensor, state[1]._tensor
        mean.assign(mean * self.beta1 + g * (1 - self.beta1))
        square.assign(square * self.beta2 + g * g * (1 - self.beta2))
        return mean, square


@register
class Adam(_Moments):
    """Adam."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                 lazy_update=True, correct_bias=True, **kwargs):
        super().__init__(beta1, beta2, epsilon, learning_rate=learning_rate, **kwargs)
        self.lazy_update, self.correct_bias = lazy_update, correct_bias

    def _step(self, w, g, state, lr, wd, t):
        if self.correct_bias:
            lr *= math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)
        mean, square = self._advance(state, self._clipped(g + w * wd))
        return w - mean * lr / (ops.sqrt(square) + self.epsilon)

    def _rule(self):
        # The engine's adds the decay after it has clipped.
        if not self.correct_bias or (self.wd and self._clips()):
            return None
        return "adam", {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}


@register
class AdamW(_Moments):
    """Adam whose decay is apart from the gradient."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, eta=1.0,
                 correct_bias=True, **kwargs):
        super().__init__(beta1, beta2, epsilon, learning_rate=learning_rate, **kwargs)
        self.eta, self.correct_bias = eta, correct_bias

    def _step(self, w, g, state, lr, wd, t):
        mean, square = self._advance(state, self._clipped(g))
        rate = lr
        if self.correct_bias:
            rate *= math.sqrt(1 - self.beta2 ** t) / (1 - self.beta1 ** t)
        step = mean * rate / (ops.sqrt(square) + self.epsilon) + w * (wd * lr)
        return w - step * self.eta


@register
class Adamax(_Moments):
    """Adam with the largest gradient instead of the square."""

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(beta1, beta2, 0.0, learning_rate=learning_rate, **kwargs)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g + w * wd)
        mean, largest = state[0]._tensor, state[1]._tensor
        mean.assign(mean * self.beta1 + g * (1 - self.beta1))
        largest.assign(ops.maximum(largest * self.beta2, ops.abs(g)))
        # Where no gradient ever was the mean is 0 too; MXNet's quotient there is NaN.
        divisor = ops.where(ops.equal(largest, 0), 1.0, largest)
        return w - mean * (lr / (1 - self.beta1 ** t)) / divisor


@register
class Nadam(_Moments):
    """Adam with Nesterov's momentum."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                 schedule_decay=0.004, **kwargs):
        super().__init__(beta1, beta2, epsilon, learning_rate=learning_rate, **kwargs)
        self.schedule_decay, self.m_schedule = schedule_decay, 1.0

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g + w * wd)
        now = self.beta1 * (1 - 0.5 * 0.96 ** (t * self.schedule_decay))
        after = self.beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * self.schedule_decay))
        self.m_schedule *= now
        next_schedule = self.m_schedule * after
        mean, square = self._advance(state, g)
        g_part = g * ((1 - now) / (1 - self.m_schedule))
        m_part = mean * (after / (1 - next_schedule))
        return w - (g_part + m_part) * lr / (
            ops.sqrt(square * (1.0 / (1 - self.beta2 ** t))) + self.epsilon)


@register
class FTML(_Moments):
    """Follow the moving leader."""

    def __init__(self, beta1=0.6, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(beta1, beta2, epsilon, **kwargs)

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g + w * wd)
        d, square, z = (part._tensor for part in state)
        square.assign(square * self.beta2 + g * g * (1 - self.beta2))
        root = ops.sqrt(square * (1.0 / (1 - self.beta2 ** t))) + self.epsilon
        now = root * ((1 - self.beta1 ** t) / lr)
        z.assign(z * self.beta1 + g * (1 - self.beta1) - (now - d * self.beta1) * w)
        d.assign(now)
        return -z / d


@register
class AdaGrad(Optimizer):
    """Divided by the root of all squares so far."""

    lazy_update = True

    def __init__(self, eps=1e-7, epsilon=None, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps if epsilon is None else epsilon

    def create_state(self, index, weight):
        return zeros_like(weight)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g)
        history = state._tensor
        history.assign(history + g * g)
        return w - (g / ops.sqrt(history + self.float_stable_eps) + w * wd) * lr


@register
class RMSProp(Optimizer):
    """Divided by the root of the mean square."""

    def __init__(self, learning_rate=0.001, gamma1=0.9, gamma2=0.9, epsilon=1e-8, centered=False,
                 clip_weights=None, rho=None, momentum=None, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1 if rho is None else rho
        self.gamma2 = gamma2 if momentum is None else momentum
        self.epsilon, self.centered, self.clip_weights = epsilon, centered, clip_weights

    def create_state(self, index, weight):
        return tuple(zeros_like(weight) for _ in range(3 if self.centered else 1))

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g + w * wd)
        n = state[0]._tensor
        n.assign(n * self.gamma1 + g * g * (1 - self.gamma1))
        if self.centered:
            mean, delta = state[1]._tensor, state[2]._tensor
            mean.assign(mean * self.gamma1 + g * (1 - self.gamma1))
            delta.assign(delta * self.gamma2 - g * lr / ops.sqrt(n - mean * mean + self.epsilon))
            made = w + delta
        else:
            made = w - g * lr / ops.sqrt(n + self.epsilon)
        if self.clip_weights:
            made = ops.clip(made, -float(self.clip_weights), float(self.clip_weights))
        return made


@register
class AdaDelta(Optimizer):
    """Steps as large as the steps before them."""

    def __init__(self, rho=0.90, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g)
        squares, steps = state[0]._tensor, state[1]._tensor
        squares.assign(squares * self.rho + g * g * (1 - self.rho))
        delta = ops.sqrt(steps + self.epsilon) / ops.sqrt(squares + self.epsilon) * g
        steps.assign(steps * self.rho + delta * delta * (1 - self.rho))
        return w - delta - w * wd


@register
class Ftrl(Optimizer):
    """Follow the regularised leader."""

    lazy_update = True

    def __init__(self, lamda1=0.01, learning_rate=0.1, beta=1, **kwargs):
        super().__init__(**kwargs)  # a schedule keeps its own rate
        self.lamda1, self.beta, self.lr = lamda1, beta, learning_rate

    def create_state(self, index, weight):
        return zeros_like(weight), zeros_like(weight)

    def _step(self, w, g, state, lr, wd, t):
        g = self._clipped(g)
        z, n = state[0]._tensor, state[1]._tensor
        more = n + g * g
        z.assign(z + g - (ops.sqrt(more) - ops.sqrt(n)) * w / lr)
        n.assign(more)
        made = (ops.sign(z) * self.lamda1 - z) / ((ops.sqrt(n) + self.beta) / lr + wd)
        return ops.where(ops.abs(z) > self.lamda1, made, _core.zeros_like(made))


@register
class LARS(SGD):
    """SGD with a rate for each layer, by the norms of weight and gradient."""

    def __init__(self, momentum=0.0, lazy_update=True, eta=0.001, eps=0.0,
                 momentum_correction=True, epsilon=None, **kwargs):
        super().__init__(momentum, lazy_update, **kwargs)
        self.eta, self.eps = eta, eps if epsilon is None else epsilon
        self.momentum_correction, self._rates, self._correction = momentum_correction, {}, 1.0

    def set_wd_mult(self, args_wd_mult):
        gammas = {name: 0.0 for name in self.idx2name.values() if name.endswith("_gamma")}
        super().set_wd_mult({**gammas, **self._symbol_factors("__wd_mult__"), **args_wd_mult})

    def _layer_rate(self, index, w, g, lr, wd):
        self._correct_momentum(index)
        if self.idx2name.get(index, "").endswith(("gamma", "beta", "bias")):
            return lr
        w_norm, g_norm = _norm(w).item(), _norm(g).item()
        if not (w_norm > 0 and g_norm > 0):
            return lr
        return lr * self.eta * w_norm / (g_norm + wd * w_norm + self.eps)

    def _correct_momentum(self, index):
        """What is kept are steps of the rate before: a new rate's share of them counts."""
        rate = self.learning_rate
        before = self._rates.get(index, rate)
        self._rates[index] = rate
        self._correction = rate / before if self.momentum_correction and before else 1.0

    def _step(self, w, g, state, lr, wd, t):
        if state is not None:
            state._tensor.assign(state._tensor * self._correction)
        return super()._step(w, g, state, lr, wd, t)

    def _rule(self):
        return None


@register
class LAMB(_Moments):
    """Adam with a rate for each layer."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None,
                 upper_bound=None, bias_correction=True, **kwargs):
        super().__init__(beta1, beta2, epsilon, learning_rate=learning_rate, **kwargs)
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self.bias_correction = bias_correction

    def _step(self, w, g, state, lr, wd, t):
        mean, square = self._advance(state, self._clipped(g))
        if self.bias_correction:
            mean = mean * (1.0 / (1 - self.beta1 ** t))
            square = square * (1.0 / (1 - self.beta2 ** t))
        step = mean / (ops.sqrt(square) + self.epsilon) + w * wd
        w_norm, step_norm = _norm(w).item(), _norm(step).item()
        if self.lower_bound:
            w_norm = max(w_norm, self.lower_bound)
        if self.upper_bound:
            w_norm = min(w_norm, self.upper_bound)
        ratio = w_norm / step_norm if w_norm and step_norm else 1.0
        return w - step * (lr * ratio)


@register
class LBSGD(SGD):
    """SGD for large batches: a step for every `batch_scale` gradients, of their mean, with a rate
    that grows to as many times as much, or one by the norms of weight and gradient ('lars')."""

    def __init__(self, momentum=0.0, multi_precision=False, warmup_strategy="linear",
                 warmup_epochs=5, batch_scale=1, updates_per_epoch=32, begin_epoch=0, num_epochs=60,
                 **kwargs):
        super().__init__(momentum, lazy_update=False, multi_precision=multi_precision, **kwargs)
        self.warmup_strategy, self.warmup_epochs = warmup_strategy, warmup_epochs
        self.batch_scale, self.updates_per_epoch = batch_scale, updates_per_epoch
        self.init_updates, self.num_epochs = begin_epoch * updates_per_epoch, num_epochs
        self.cumgrads = {}  # (sum of gradients or None, how many there were) by weight

    def update(self, index, weight, grad, state):
        if isinstance(index, (list, tuple)):
            super().update(index, weight, grad, state)
            return
        key = index, str(weight.context)
        total, count = self.cumgrads.get(key, (None, self.init_updates))
        total = grad.copy() if total is None else total + grad
        is_whole = (count + 1) % self.batch_scale == 0
        self.cumgrads[key] = None if is_whole else total, count + 1
        rate = self._get_lr(index)  # of the updates before this one
        self._update_count(index)
        if not is_whole:
            return
        wd, t = self._get_wd(index), self._index_update_count[index]
        with _core._pause(_core.is_training()):
            w, g = weight._tensor.detach(), total._tensor.detach() * (1.0 / self.batch_scale)
            rate *= self._scale(w, g, wd, count + 1)
            g = g * float(self.rescale_grad)
            weight._tensor.assign(self._step(w, g, state, rate, wd, t))

    def _scale(self, w, g, wd, updates):
        if self.warmup_strategy == "lars":
            w_square, g_square = _norm(w).item() ** 2, _norm(g).item() ** 2
            lars = math.sqrt(w_square / (g_square + wd * w_square + 1e-18))
            return min(max(lars, 0.01), 100.0)
        warm_up = self.warmup_epochs * self.updates_per_epoch
        if updates >= warm_up:
            return float(self.batch_scale)
        share = updates / warm_up
        shares = {"linear": share, "power2": share * share, "sqrt": math.sqrt(share)}
        grown = shares.get(self.warmup_strategy, 0.0) if warm_up > 1 else 0.0
        return 1.0 + (self.batch_scale - 1) * grown

    def _rule(self):
        return None


@register
class Test(Optimizer):
    """w + rescale_grad * g: for tests of stores."""

    def create_state(self, index, weight):
        return zeros_like(weight)

    def _step(self, w, g, state, lr, wd, t):
        made = w + g
        state._tensor.assign(made)
        return made


@register
class ccSGD(SGD):  # noqa: N801 - an old name of SGD
    """SGD."""

