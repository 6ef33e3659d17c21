# SPDX-License-Identifier: Apache-2.0
"""gluon.utils: parts of batches, norms, files."""

import hashlib
import math
import os
import warnings

from lockstep import _core, ops
from lockstep.mxnet.base import attributes_of
from lockstep.mxnet.ndarray import array
from lockstep.mxnet.ndarray.ndarray import NDArray

__all__ = ["check_sha1", "clip_global_norm", "download", "split_and_load", "split_data"]


def split_data(data, num_slice, batch_axis=0, even_split=True):
    """Parts of a batch, one for each context."""
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along "
            f"axis {batch_axis}. Use a batch size that's multiple of {num_slice} or set "
            "even_split=False to allow uneven partitioning of data.")
    if num_slice == 1:
        return [data]
    step, extra = divmod(size, num_slice)
    parts, begin = [], 0
    for i in range(num_slice):
        # The first ones are larger by one, where parts are not equal.
        end = begin + step + (i < extra)
        key = [slice(None)] * data.ndim
        key[batch_axis] = slice(begin, end)
        parts.append(data[tuple(key)])
        begin = end
    return parts


def split_and_load(data, ctx_list, batch_axis=0, even_split=True):
    """Parts of a batch, on their contexts."""
    if not isinstance(data, NDArray):
        data = array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    parts = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(parts, ctx_list)]


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Scales arrays so that the 2-norm of all together is at most max_norm; returns the norm."""
    if not arrays:
        raise AssertionError("clip_global_norm: expected arrays")
    with _core._pause(_core.is_training()):
        squares = [ops.sum(ops.square(ops.cast(a._tensor.detach(), "float32"))) for a in arrays]
        total = 0.0
        for square in squares:
            total += square.item()
        norm = math.sqrt(total) if total >= 0 else float("nan")
        if check_isfinite and not math.isfinite(norm):
            warnings.warn(UserWarning("nan or inf is detected. Clipping results will be "
                                      "undefined."), stacklevel=2)
        scale = max_norm / (norm + 1e-8)
        if not scale >= 1.0:
            for a in arrays:
                tensor = a._tensor
                tensor.assign(tensor.detach() * scale)
    return norm if check_isfinite else array([norm])


def check_sha1(filename, sha1_hash):
    """Whether a file has this hash."""
    digest = hashlib.sha1()
    with open(filename, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    found = digest.hexdigest()
    return found[:len(sha1_hash)] == sha1_hash[:len(found)]


def download(url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True):
    """The file of an address: the one that is there already, else fetched."""
    name = url.split("/")[-1]
    if path is None:
        target = name
    else:
        path = os.path.expanduser(path)
        target = os.path.join(path, name) if os.path.isdir(path) else path
    if os.path.exists(target) and not overwrite and (
            not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    import urllib.request

    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    temporary = target + ".part"
    try:
        with urllib.request.urlopen(url, timeout=60) as source, open(temporary, "wb") as file:
            while block := source.read(1 << 20):
                file.write(block)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise OSError(f"download: {url} cannot be fetched ({error}); put the file at {target}"
                      ) from None
    if sha1_hash and not check_sha1(temporary, sha1_hash):
        os.unlink(temporary)
        raise UserWarning(f"File {target} is downloaded but the content hash does not match.")
    os.replace(temporary, target)
    return target


def shape_is_known(shape):
    """Whether no extent is open."""
    return shape is not None and all(extent > 0 for extent in shape)


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *[" " * spaces + line for line in rest]])


__getattr__ = attributes_of(globals())
