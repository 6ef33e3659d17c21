# SPDX-License-Identifier: Apache-2.0
"""mx.np.random."""

import numpy as onp

from lockstep import _core, ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import attributes_of, dtype_name
from lockstep.mxnet.context import device_for
from lockstep.mxnet.ndarray.ndarray import NDArray
from lockstep.mxnet.numpy.multiarray import ndarray
from lockstep.mxnet.numpy._wrap import as_tensor

__all__ = ["beta", "choice", "chisquare", "exponential", "gamma", "gumbel", "laplace", "logistic",
           "lognormal", "multinomial", "multivariate_normal", "normal", "pareto", "permutation",
           "poisson", "power", "rand", "randint", "randn", "random", "rayleigh", "seed", "shuffle",
           "uniform", "weibull"]


def seed(seed, ctx="all"):
    """Begins the sequence of draws anew."""
    _random_state.seed(int(seed))


def _shape(size, *parameters):
    shapes = [p.shape for p in parameters if isinstance(p, NDArray)]
    if size is None:
        return onp.broadcast_shapes(*shapes) if shapes else ()
    return (size,) if isinstance(size, (int, onp.integer)) else tuple(size)


def _value(parameter):
    return parameter._tensor if isinstance(parameter, NDArray) else float(parameter)


def _check(name, positive=False, **parameters):
    """A ValueError where a scale is negative, or not above 0; a trace has no values to look at."""
    for key, parameter in parameters.items():
        if isinstance(parameter, NDArray):
            if parameter._tensor.is_symbolic or parameter.size == 0:
                continue
            lowest = float(parameter.asnumpy().min())
        else:
            lowest = float(parameter)
        if lowest < 0 or (positive and lowest == 0):
            raise ValueError(f"{name}: {key} is {'above' if positive else 'at least'} 0, got "
                             f"{lowest:g}")


def _beside(parameters):
    for parameter in parameters:
        if isinstance(parameter, NDArray):
            return parameter._tensor
    return None


def _place(tensor, ctx, device):
    place = device_for(ctx if ctx is not None else device)
    return ndarray(tensor if place == 0 else tensor.to(place))


def _draw(op, shape, parameters, **kwargs):
    return _random_state.draw(op, _beside(parameters), shape=tuple(shape), **kwargs)


def _result(tensor, dtype, ctx, device, out):
    if dtype is not None and dtype_name(dtype) != tensor.dtype.name:
        tensor = ops.cast(tensor, dtype_name(dtype))
    if out is not None:
        out._tensor.assign(tensor)
        return out
    return _place(tensor, ctx, device)


def uniform(low=0.0, high=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """Numbers between two."""
    made = _draw(ops.uniform, _shape(size, low, high), (low, high))
    low, high = _value(low), _value(high)
    return _result(made * (high - low) + low, dtype, ctx, device, out)


def normal(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """Numbers of a bell's shape."""
    made = _draw(ops.normal, _shape(size, loc, scale), (loc, scale))
    return _result(made * _value(scale) + _value(loc), dtype, ctx, device, out)


def randn(*size, **kwargs):
    """Standard normal ones."""
    return normal(0.0, 1.0, size, **kwargs)


def rand(*size, **kwargs):
    """Numbers in [0, 1)."""
    return uniform(0.0, 1.0, size, **kwargs)


def random(size=None, **kwargs):
    """Numbers in [0, 1)."""
    return uniform(0.0, 1.0, size, **kwargs)


def randint(low, high=None, size=None, dtype=None, ctx=None, device=None, out=None):
    """Integers from low to high, high left out."""
    if high is None:
        low, high = 0, low
    made = _draw(ops.randint, _shape(size), (), low=int(low), high=int(high))
    return _result(made, dtype or "int64", ctx, device, out)


def _open(size, *parameters):
    """Numbers in (0, 1), never 0."""
    made = _draw(ops.uniform, _shape(size, *parameters), parameters)
    return ops.maximum(made, 1e-7)


def lognormal(mean=0.0, sigma=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """exp of normal ones."""
    _check("lognormal", sigma=sigma)
    made = _draw(ops.normal, _shape(size, mean, sigma), (mean, sigma))
    return _result(ops.exp(made * _value(sigma) + _value(mean)), dtype, ctx, device, out)


def exponential(scale=1.0, size=None, ctx=None, device=None, out=None):
    """Waiting times."""
    _check("exponential", scale=scale)
    return _result(-ops.log(_open(size, scale)) * _value(scale), None, ctx, device, out)


def gumbel(loc=0.0, scale=1.0, size=None, ctx=None, device=None, out=None):
    """The largest of many."""
    made = -ops.log(-ops.log(ops.minimum(_open(size, loc, scale), 1 - 1e-7)))
    return _result(made * _value(scale) + _value(loc), None, ctx, device, out)


def logistic(loc=0.0, scale=1.0, size=None, ctx=None, device=None, out=None):
    """Of the logistic curve."""
    u = ops.minimum(_open(size, loc, scale), 1 - 1e-7)
    return _result((ops.log(u) - ops.log(1 - u)) * _value(scale) + _value(loc), None, ctx, device,
                   out)


def laplace(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, device=None, out=None):
    """Of two exponential sides."""
    u = _open(size, loc, scale) - 0.5
    made = -ops.sign(u) * ops.log(ops.maximum(1 - 2 * ops.abs(u), 1e-7))
    return _result(made * _value(scale) + _value(loc), dtype, ctx, device, out)


def rayleigh(scale=1.0, size=None, ctx=None, device=None, out=None):
    """Lengths of normal vectors."""
    _check("rayleigh", scale=scale)
    return _result(ops.sqrt(-2.0 * ops.log(_open(size, scale))) * _value(scale), None, ctx, device,
                   out)


def weibull(a, size=None, ctx=None, device=None, out=None):
    """Weibull's."""
    _check("weibull", True, a=a)
    exponent = 1.0 / _value(a) if not isinstance(a, NDArray) else ops.reciprocal(a._tensor)
    return _result(ops.power(-ops.log(_open(size, a)), exponent), None, ctx, device, out)


def pareto(a, size=None, ctx=None, device=None, out=None):
    """Pareto's, from 0."""
    _check("pareto", True, a=a)
    exponent = -1.0 / _value(a) if not isinstance(a, NDArray) else -ops.reciprocal(a._tensor)
    return _result(ops.power(_open(size, a), exponent) - 1.0, None, ctx, device, out)


def power(a, size=None, ctx=None, device=None, out=None):
    """Of the density a x^(a-1)."""
    _check("power", True, a=a)
    exponent = 1.0 / _value(a) if not isinstance(a, NDArray) else ops.reciprocal(a._tensor)
    return _result(ops.power(_open(size, a), exponent), None, ctx, device, out)


def _numpy_value(parameter):
    return parameter.asnumpy() if isinstance(parameter, NDArray) else parameter


def _by_numpy(name, count):
    """Distributions that the engine has not: NumPy's, from the same seed."""

    def call(*args, size=None, dtype=None, ctx=None, device=None, out=None, **kwargs):
        if len(args) > count:
            size, args = args[count], args[:count]
        if name == "gamma":
            _check(name, True, **dict(zip(("shape", "scale"), args)))
        parameters = [_numpy_value(a) for a in args]
        kwargs = {key: _numpy_value(value) for key, value in kwargs.items()}
        made = getattr(_random_state.generator(), name)(*parameters, size=size, **kwargs)
        made = onp.asarray(made, dtype=dtype_name(dtype or "float32"))
        return _result(_core.Tensor(made), None, ctx, device, out)

    call.__name__ = name
    return call


gamma, beta, chisquare = _by_numpy("gamma", 2), _by_numpy("beta", 2), _by_numpy("chisquare", 1)
poisson, multivariate_normal = _by_numpy("poisson", 1), _by_numpy("multivariate_normal", 2)


def multinomial(n, pvals, size=None, **_):
    """How often each of several things happens in n draws."""
    p = onp.asarray(_numpy_value(pvals), dtype="float64")
    if (p < 0).any() or p.sum() > 1 + 1e-5:
        raise ValueError("multinomial: pvals are probabilities whose sum is 1")
    made = _random_state.generator().multinomial(n, p / p.sum(), size=size)
    return ndarray(_core.Tensor(made.astype("int64")))


def choice(a, size=None, replace=True, p=None, ctx=None, device=None, out=None):
    """Elements at random."""
    generator = _random_state.generator()
    source = _numpy_value(a) if isinstance(a, NDArray) else a
    made = generator.choice(source, size=size, replace=replace,
                            p=None if p is None else _exact(_numpy_value(p)))
    return _result(_core.Tensor(onp.asarray(made)), None, ctx, device, out)


def _exact(p):
    p = onp.asarray(p, dtype="float64")
    return p / p.sum()


def shuffle(x):
    """Another order of the first axis, in place."""
    order = _random_state.draw(ops.permutation, None, n=x.shape[0])
    with _core._pause(_core.is_training()):
        x._tensor.assign(_core_take(x._tensor.detach(), order))


def _core_take(tensor, order):
    return ops.take(tensor, order, axis=0)


def permutation(x):
    """Another order of an array, or of the numbers below one."""
    if isinstance(x, (int, onp.integer)):
        return ndarray(_random_state.draw(ops.permutation, None, n=int(x)))
    tensor = as_tensor(x._tensor if isinstance(x, NDArray) else x)
    return ndarray(_core_take(tensor, _random_state.draw(ops.permutation, None, n=tensor.shape[0])))


__getattr__ = attributes_of(globals())
