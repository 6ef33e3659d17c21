# SPDX-License-Identifier: Apache-2.0
"""Update rules as ops, for optimisers that scripts write: nd.sgd_update(w, g, out=w, lr=0.1)."""

from lockstep import _core, ops
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray.registry import into, register_arrays


def _clipped(g, limit):
    if limit is None or limit < 0:
        return g
    return ops.clip(g, -float(limit), float(limit))


def _gradient(weight, grad, rescale_grad, clip_gradient, wd, clips_decay):
    g = grad._tensor.detach() * float(rescale_grad)
    decay = weight._tensor.detach() * float(wd) if wd else 0.0
    return _clipped(g + decay, clip_gradient) if clips_decay else (
        _clipped(g, clip_gradient) + decay)


def _rule(name, states, clips_decay=False):
    """Registers step(weight, gradient, states, lr, ...), which gives the weight and the states.

    The decay is part of the gradient, and of what is clipped where `clips_decay` says so.
    """
    def decorate(step):
        def call(weight, grad, *given, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0,
                 lazy_update=True, out=None, clip_grad=None, **options):
            clip_gradient = clip_gradient if clip_grad is None else clip_grad
            given = list(given) + [options.pop(key) for key in states if key in options]
            with _core._pause(_core.is_training()):
                g = _gradient(weight, grad, rescale_grad, clip_gradient, wd, clips_decay)
                made, after = step(weight._tensor.detach(), g, [s._tensor for s in given], lr,
                                   **options)
                for state, value in zip(given, after):
                    state._tensor.assign(value)
            return NDArray(made) if out is None else into(out, NDArray(made))

        call.__name__, call.__doc__ = name, step.__doc__
        register_arrays(name)(call)
        return call

    return decorate


@_rule("sgd_update", ())
def sgd_update(w, g, states, lr):
    """w - lr g."""
    return w - g * lr, []


@_rule("sgd_mom_update", ("mom",))
def sgd_mom_update(w, g, states, lr, momentum=0.0):
    """m = momentum m - lr g; w + m."""
    m = states[0] * momentum - g * lr
    return w + m, [m]


@_rule("nag_mom_update", ("mom",))
def nag_mom_update(w, g, states, lr, momentum=0.0):
    """sgd_mom_update with Nesterov's momentum."""
    m = states[0] * momentum - g * lr
    return w + m * momentum - g * lr, [m]


@_rule("adam_update", ("mean", "var"), clips_decay=True)
def adam_update(w, g, states, lr, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Adam without correction of the bias."""
    mean = states[0] * beta1 + g * (1 - beta1)
    var = states[1] * beta2 + g * g * (1 - beta2)
    return w - mean * lr / (ops.sqrt(var) + epsilon), [mean, var]


@_rule("rmsprop_update", ("n",), clips_decay=True)
def rmsprop_update(w, g, states, lr, gamma1=0.95, epsilon=1e-8, clip_weights=-1.0):
    """w - lr g / sqrt(mean square)."""
    n = states[0] * gamma1 + g * g * (1 - gamma1)
    made = w - g * lr / ops.sqrt(n + epsilon)
    return (ops.clip(made, -clip_weights, clip_weights) if clip_weights > 0 else made), [n]


@register_arrays("signsgd_update")
def signsgd_update(weight, grad, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0, out=None):
    """(1 - lr wd) w - lr sign(g): what changes the gradient's size alone changes nothing."""
    with _core._pause(_core.is_training()):
        w, g = weight._tensor.detach(), grad._tensor.detach()
        made = NDArray(w * (1 - lr * wd) - ops.sign(g) * lr)
    return made if out is None else into(out, made)


@_rule("signum_update", ("mom",))
def signum_update(w, g, states, lr, momentum=0.0, wd_lh=0.0):
    """w + lr sign(momentum)."""
    m = states[0] * momentum - g * (1 - momentum)
    return w * (1 - lr * wd_lh) + ops.sign(m) * lr, [m]


@_rule("ftml_update", ("d", "v", "z"), clips_decay=True)
def ftml_update(w, g, states, lr, t, beta1=0.6, beta2=0.999, epsilon=1e-8):
    """Follow the moving leader."""
    d, v, z = states
    v = v * beta2 + g * g * (1 - beta2)
    weight = (1 - beta1 ** t) / lr
    after = (ops.sqrt(v / (1 - beta2 ** t)) + epsilon) * weight
    z = z * beta1 + g * (1 - beta1) - (after - d * beta1) * w
    return -z / after, [after, v, z]


@_rule("rmspropalex_update", ("n", "g", "delta"), clips_decay=True)
def rmspropalex_update(w, g, states, lr, gamma1=0.95, gamma2=0.9, epsilon=1e-8, clip_weights=-1.0):
    """RMSProp centred by the mean gradient, with momentum."""
    n, mean, delta = states
    n = n * gamma1 + g * g * (1 - gamma1)
    mean = mean * gamma1 + g * (1 - gamma1)
    delta = delta * gamma2 - g * lr / ops.sqrt(n - mean * mean + epsilon)
    made = w + delta
    return ((ops.clip(made, -clip_weights, clip_weights) if clip_weights > 0 else made),
            [n, mean, delta])


def _ftrl(weight, grad, z, n, lr, lamda1=0.01, beta=1.0, wd=0.0, rescale_grad=1.0,
          clip_gradient=-1.0, out=None):
    """Follow the regularised leader: the decay is part of its denominator."""
    with _core._pause(_core.is_training()):
        w = weight._tensor.detach()
        g = _clipped(grad._tensor.detach() * float(rescale_grad), clip_gradient)
        after = n._tensor + g * g
        change = g - (ops.sqrt(after) - ops.sqrt(n._tensor)) * w / lr
        z._tensor.assign(z._tensor + change)
        n._tensor.assign(after)
        scale = (ops.sqrt(after) + beta) / lr + wd
        shrunk = ops.sign(z._tensor) * ops.relu(ops.abs(z._tensor) - lamda1)
        made = NDArray(-shrunk / scale)
    return made if out is None else into(out, made)


register_arrays("ftrl_update")(_ftrl)


@register_arrays("reset_arrays")
def reset_arrays(*arrays, num_arrays=None):
    """Sets arrays to 0."""
    with _core._pause(_core.is_training()):
        for array in arrays:
            array._tensor.assign(0.0)
