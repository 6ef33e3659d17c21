# SPDX-License-Identifier: Apache-2.0
"""Random arrays: mx.nd.random, mx.random and the ops random_* and sample_*."""

import numpy as np

from lockstep import ops
from lockstep.mxnet import _random_state
from lockstep.mxnet.base import as_shape, dtype_name
from lockstep.mxnet.context import device_for
from lockstep.mxnet.ndarray.creation import shuffle
from lockstep.mxnet.ndarray.ndarray import NDArray, _tensor_of
from lockstep.mxnet.ndarray.registry import into, register_arrays

__all__ = ["bernoulli", "exponential", "exponential_like", "gamma", "gamma_like",
           "generalized_negative_binomial", "multinomial", "negative_binomial", "normal",
           "normal_like", "poisson", "poisson_like", "randint", "randn", "shuffle", "uniform",
           "uniform_like"]


def _shape(shape):
    return (1,) if shape is None else as_shape(shape)


def _finish(tensor, ctx, out):
    device = device_for(ctx)
    made = NDArray(tensor if device == 0 else tensor.to(device))
    return made if out is None else into(out, made)


def _float(dtype):
    return "float32" if dtype in (None, "None") else dtype_name(dtype)


def _is_array(*values):
    return any(isinstance(value, NDArray) for value in values)


def _each(parameters, shape):
    """Standard draws of the parameters' shape followed by `shape`, and the parameters beside them.
    """
    first = next(p for p in parameters if isinstance(p, NDArray))
    extra = () if shape is None or shape == () else as_shape(shape)
    whole = first.shape + extra
    tail = (1,) * len(extra)
    return whole, [ops.reshape(p._tensor, p.shape + tail) if isinstance(p, NDArray) else p
                   for p in parameters]


def uniform(low=0.0, high=1.0, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """From low to high, all equally likely; of arrays, draws for each element."""
    if out is not None and shape is None:
        shape = out.shape
    if _is_array(low, high):
        whole, (low, high) = _each((low, high), shape)
        return _finish(_random_state.draw(ops.uniform, None, shape=whole) * (high - low) + low,
                       ctx, out)
    made = _random_state.draw(ops.uniform, None, shape=_shape(shape), low=float(low),
                              high=float(high), dtype=_float(dtype))
    return _finish(made, ctx, out)


def normal(loc=0.0, scale=1.0, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """The normal distribution."""
    if out is not None and shape is None:
        shape = out.shape
    if _is_array(loc, scale):
        whole, (loc, scale) = _each((loc, scale), shape)
        return _finish(_random_state.draw(ops.normal, None, shape=whole) * scale + loc, ctx, out)
    made = _random_state.draw(ops.normal, None, shape=_shape(shape), mean=float(loc),
                              stddev=float(scale), dtype=_float(dtype))
    return _finish(made, ctx, out)


def randn(*shape, **kwargs):
    """normal() with the shape first."""
    return normal(kwargs.pop("loc", 0.0), kwargs.pop("scale", 1.0), shape=shape or None, **kwargs)


def randint(low, high, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Integers from low to high - 1."""
    made = _random_state.draw(ops.randint, None, shape=_shape(shape), low=int(low), high=int(high),
                              dtype="int32" if dtype in (None, "None") else dtype_name(dtype))
    return _finish(made, ctx, out)


def bernoulli(prob=None, logit=None, size=None, dtype=None, ctx=None, out=None, shape=None):
    """1 with a probability, else 0."""
    p = prob if prob is not None else 1.0 / (1.0 + np.exp(-logit))
    made = _random_state.draw(ops.bernoulli, None, shape=_shape(size or shape), p=float(p),
                              dtype=_float(dtype))
    return _finish(made, ctx, out)


def _numpy_draw(draw, parameters, shape, dtype, ctx, out):
    """Of a distribution that the engine has not."""
    arrays = [p.asnumpy() if isinstance(p, NDArray) else p for p in parameters]
    if _is_array(*parameters):
        whole, _ = _each(parameters, shape)
        arrays = [a.reshape(a.shape + (1,) * (len(whole) - a.ndim)) if isinstance(a, np.ndarray)
                  else a for a in arrays]
    else:
        whole = _shape(shape)
    made = draw(_random_state.generator(), *arrays, whole)
    return _finish(_tensor_of(made, _float(dtype)), ctx, out)


def poisson(lam=1.0, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """The Poisson distribution."""
    return _numpy_draw(lambda g, lam, s: g.poisson(lam, s), (lam,), shape, dtype, ctx, out)


def exponential(scale=1.0, shape=None, dtype=None, ctx=None, out=None, lam=None, **kwargs):
    """The exponential distribution, of mean `scale`."""
    scale = scale if lam is None else 1.0 / lam
    return _numpy_draw(lambda g, mean, s: g.exponential(mean, s), (scale,), shape, dtype, ctx, out)


def _exponential_of_rate(lam=1.0, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """The exponential distribution, of mean 1 / lam."""
    return exponential(1.0 / lam, shape, dtype, ctx, out)


def gamma(alpha=1.0, beta=1.0, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """The gamma distribution."""
    return _numpy_draw(lambda g, a, b, s: g.gamma(a, b, s), (alpha, beta), shape, dtype, ctx, out)


def negative_binomial(k=1, p=1, shape=None, dtype=None, ctx=None, out=None, **kwargs):
    """Failures before k successes."""
    return _numpy_draw(lambda g, n, q, s: g.negative_binomial(n, q, s), (k, p), shape, dtype, ctx,
                       out)


def generalized_negative_binomial(mu=1, alpha=1, shape=None, dtype=None, ctx=None, out=None,
                                  **kwargs):
    """A Poisson distribution whose mean is gamma distributed."""
    def draw(generator, mean, dispersion, shape):
        return generator.poisson(generator.gamma(1.0 / dispersion, dispersion * mean, shape))

    return _numpy_draw(draw, (mu, alpha), shape, dtype, ctx, out)


def multinomial(data, shape=None, get_prob=False, out=None, dtype="int32", **kwargs):
    """Class numbers by their probabilities, `shape` of each row; and their log-probabilities."""
    probabilities = data._tensor
    extra = () if shape in (None, ()) else as_shape(shape)
    count = int(np.prod(extra)) if extra else 1
    logits = ops.log(probabilities.detach())
    drawn = _random_state.draw(ops.categorical, probabilities, logits, count=count)
    whole = data.shape[:-1] + extra
    numbers = ops.reshape(drawn, whole or (1,))
    made = NDArray(ops.cast(numbers, dtype_name(dtype)))
    if not get_prob:
        return made if out is None else into(out, made)
    rows = ops.reshape(probabilities, (-1, data.shape[-1]))
    places = ops.reshape(drawn, (rows.shape[0], count))
    chosen = ops.reshape(ops.log(ops.gather(rows, places, 1)), numbers.shape)
    return [made, NDArray(chosen)]


def _like(function):
    def call(*args, data=None, **kwargs):
        data = data if data is not None else args[-1]
        return function(*args[:-1], shape=data.shape, ctx=data.context, **kwargs)

    return call


uniform_like, normal_like = _like(uniform), _like(normal)
gamma_like, poisson_like = _like(gamma), _like(poisson)
exponential_like = _like(_exponential_of_rate)
_DRAWS = {"exponential": _exponential_of_rate}
_DRAWS.update((_draw.__name__, _draw) for _draw in (
    uniform, normal, randint, poisson, gamma, negative_binomial, generalized_negative_binomial))

for _name, _function in _DRAWS.items():
    register_arrays(f"random_{_name}", f"_random_{_name}", f"_sample_{_name}", f"sample_{_name}")(
        _function)
register_arrays("sample_multinomial", "_sample_multinomial")(multinomial)
register_arrays("_npi_bernoulli")(bernoulli)
for _name in ("uniform", "normal"):
    register_arrays(f"random_{_name}_like", f"_random_{_name}_like")(globals()[f"{_name}_like"])

