# SPDX-License-Identifier: Apache-2.0
"""mx.np: NumPy's functions on arrays that have gradients.

What has no op of the engine's, and no gradient in NumPy's world either (histograms, sets,
percentiles), is computed by NumPy.
"""

import numpy as _onp

from lockstep import _core as _engine
from lockstep.mxnet.base import missing_name as _missing_name
from lockstep.mxnet.numpy import creation, elementwise, multiarray, products, reduction, shaping
from lockstep.mxnet.numpy.creation import *  # noqa: F401,F403
from lockstep.mxnet.numpy.elementwise import *  # noqa: F401,F403
from lockstep.mxnet.numpy.multiarray import ndarray
from lockstep.mxnet.numpy.products import *  # noqa: F401,F403
from lockstep.mxnet.numpy.reduction import *  # noqa: F401,F403
from lockstep.mxnet.numpy.shaping import *  # noqa: F401,F403
from lockstep.mxnet.ndarray.ndarray import NDArray as _NDArray
from lockstep.mxnet.numpy._wrap import arrays_of as _arrays_of, into as _into
from lockstep.mxnet.numpy import linalg, random

pi, e, inf, nan, newaxis = _onp.pi, _onp.e, _onp.inf, _onp.nan, None
NINF, PINF, euler_gamma = -_onp.inf, _onp.inf, _onp.euler_gamma
float16, float32, float64 = _onp.float16, _onp.float32, _onp.float64
int8, uint8, int16, int32, int64 = _onp.int8, _onp.uint8, _onp.int16, _onp.int32, _onp.int64
bool_, bool, dtype = _onp.bool_, _onp.bool_, _onp.dtype  # noqa: A001 - NumPy's name
finfo, iinfo, result_type, promote_types = (_onp.finfo, _onp.iinfo, _onp.result_type,
                                            _onp.promote_types)

_FALLBACK = """allclose alltrue apply_along_axis apply_over_axes array_equal bincount
compress corrcoef correlate count_nonzero cov cumproduct delete digitize divmod extract
fill_diagonal gcd histogram histogram2d histogram_bin_edges i0 in1d insert interp intersect1d
isclose isin ix_ lcm lexsort max_scalar_type nanargmax nanargmin nancumprod nancumsum nanmedian
nanpercentile nanprod nanquantile nanstd nanvar partition percentile piecewise polyfit
quantile searchsorted select setdiff1d setxor1d sinc spacing trapz tril_indices_from
trim_zeros triu_indices_from union1d unpackbits unwrap vander heaviside signbit float_power
nan_to_num_ shares_memory may_share_memory bitwise_left_shift left_shift right_shift""".split()


def _by_numpy(function):
    def plain(value):
        if isinstance(value, _NDArray):
            return value.asnumpy()
        return type(value)(plain(v) for v in value) if isinstance(value, (list, tuple)) else value

    def arrays(made):
        if isinstance(made, (list, tuple)):
            return type(made)(arrays(part) for part in made)
        if isinstance(made, (_onp.ndarray, _onp.number)):
            made = _onp.ascontiguousarray(made) if made.ndim else _onp.asarray(made)
            return _engine.Tensor(made.astype("float32") if made.dtype == "float64" else made)
        return made.item() if isinstance(made, _onp.generic) else made

    def call(*args, out=None, **kwargs):
        made = _arrays_of(arrays(function(*[plain(a) for a in args],
                                          **{key: plain(value) for key, value in kwargs.items()})))
        return made if out is None else _into(out, made)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


for _name in _FALLBACK:
    if hasattr(_onp, _name) and _name not in globals():
        globals()[_name] = _by_numpy(getattr(_onp, _name))


_METHODS = """all any argmax argmin argsort clip cumsum cumprod diagonal dot expand_dims max mean min
nonzero prod ptp repeat round sort squeeze std sum swapaxes take tile trace var abs sign sqrt exp
log log2 log10 log1p expm1 sin cos tan sinh cosh tanh square floor ceil trunc rint reciprocal
flip split""".split()


def _complete():
    for name in _METHODS:
        function = globals()[name]
        setattr(ndarray, name, (lambda f: lambda self, *args, **kwargs: f(self, *args, **kwargs))(
            function))
    ndarray.conj = ndarray.conjugate = lambda self: self


_complete()

__all__ = ["ndarray", "linalg", "random", "pi", "e", "inf", "nan", "newaxis", "float32", "float64",
           "float16", "int32", "int64", "int8", "uint8", "bool_", *creation.__all__,
           *elementwise.__all__, *products.__all__, *reduction.__all__, *shaping.__all__]


def set_printoptions(*args, **kwargs):
    """As NumPy's: arrays are printed by it."""
    _onp.set_printoptions(*args, **kwargs)


def genfromtxt(*args, **kwargs):
    """The numbers of a text file."""
    return creation.array(_onp.genfromtxt(*args, **kwargs))


def loadtxt(*args, **kwargs):
    """The numbers of a text file without gaps."""
    return creation.array(_onp.loadtxt(*args, **kwargs))


def may_share_memory(a, b, max_work=None):  # noqa: F811
    """Whether two arrays have memory in common."""
    return _onp.may_share_memory(a._tensor.numpy(), b._tensor.numpy(), max_work)


shares_memory = may_share_memory


def save(file, arr):
    """A .npy file."""
    _onp.save(file, arr.asnumpy())


def load(file):
    """An array of a .npy file, or arrays of an .npz one."""
    made = _onp.load(file, allow_pickle=False)
    if isinstance(made, _onp.ndarray):
        return creation.array(made)
    return {key: creation.array(made[key]) for key in made.files}


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    raise _missing_name("mxnet.np", name, [key for key in globals() if key[0] != "_"])
