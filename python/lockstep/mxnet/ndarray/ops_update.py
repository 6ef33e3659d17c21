# SPDX-License-Identifier: Apache-2.0
"""Update rules as ops, for optimisers that scripts write: nd.sgd_update(w, g, out=w, lr=0.1)."""

from lockstep import _core, ops
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.ndarray.registry import into, register_arrays


def _gradient(weight, grad, rescale_grad, clip_gradient, wd):
    g = grad._tensor.detach() * float(rescale_grad)
    if clip_gradient is not None and clip_gradient > 0:
        g = ops.clip(g, -float(clip_gradient), float(clip_gradient))
    return g + weight._tensor.detach() * float(wd) if wd else g


def _rule(name, states):
    """Registers step(weight, gradient, states, lr, ...), which gives the weight and the states."""
    def decorate(step):
        def call(weight, grad, *given, lr, wd=0.0, rescale_grad=1.0, clip_gradient=-1.0,
                 lazy_update=True, out=None, clip_grad=None, **options):
            clip_gradient = clip_gradient if clip_grad is None else clip_grad
            given = list(given) + [options.pop(key) for key in states if key in options]
            with _core._pause(_core.is_training()):
                g = _gradient(weight, grad, rescale_grad, clip_gradient, wd)
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


@_rule("adam_update", ("mean", "var"))
def adam_update(w, g, states, lr, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Adam without correction of the bias."""
    mean = states[0] * beta1 + g * (1 - beta1)
    var = states[1] * beta2 + g * g * (1 - beta2)
    return w - mean * lr / (ops.sqrt(var) + epsilon), [mean, var]


@_rule("rmsprop_update", ("n",))
def rmsprop_update(w, g, states, lr, gamma1=0.95, epsilon=1e-8, clip_weights=-1.0):
    """w - lr g / sqrt(mean square)."""
    n = states[0] * gamma1 + g * g * (1 - gamma1)
    made = w - g * lr / ops.sqrt(n + epsilon)
    return (ops.clip(made, -clip_weights, clip_weights) if clip_weights > 0 else made), [n]


@_rule("signsgd_update", ())
def signsgd_update(w, g, states, lr):
    """w - lr sign(g)."""
    return w - ops.sign(g) * lr, []


@_rule("signum_update", ("mom",))
def signum_update(w, g, states, lr, momentum=0.0, wd_lh=0.0):
    """w + lr sign(momentum)."""
    m = states[0] * momentum - g * (1 - momentum)
    return w * (1 - lr * wd_lh) + ops.sign(m) * lr, [m]


@_rule("ftml_update", ("d", "v", "z"))
def ftml_update(w, g, states, lr, t, beta1=0.6, beta2=0.999, epsilon=1e-8):
    """Follow the moving leader."""
    d, v, z = states
    v = v * beta2 + g * g * (1 - beta2)
    weight = (1 - beta1 ** t) / lr
    after = (ops.sqrt(v / (1 - beta2 ** t)) + epsilon) * weight
    z = z * beta1 + g * (1 - beta1) - (after - d * beta1) * w
    return -z / after, [after, v, z]


@_rule("rmspropalex_update", ("n", "g", "delta"))
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
        w, g = weight._tensor.detach(), _gradient(weight, grad, rescale_grad, clip_gradient, 0.0)
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
