# SPDX-License-Identifier: Apache-2.0
"""The files that MXNet's scripts write and read: lists of arrays (`.params`), of every generation.

A file is `u64 0x112, u64 0, u64 n, n arrays, u64 m, m names`, little endian. Nothing that a file
says of its own sizes is believed before so many bytes have been seen to be there.
"""

import io
import os
import struct
import tempfile
import zipfile

import numpy as np

from lockstep import _core
from lockstep.errors import Corrupt, Error, InvalidArgument

LIST_MAGIC = 0x112
MAGIC_V1, MAGIC_V2, MAGIC_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
MAX_AXES = 32
_MOST_ELEMENTS = 1 << 48
_MOST_DENSE_BYTES = 1 << 36

# The number of a dtype in a file; those that tensors have not come as NumPy arrays.
DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64",
          7: "bool", 8: "int16", 9: "uint16", 10: "uint32", 11: "uint64", 12: "bfloat16"}
NUMBERS = {name: number for number, name in DTYPES.items()}
STYPES = {0: "default", 1: "row_sparse", 2: "csr"}
_NO_TENSOR = ("uint16", "uint32", "uint64")


class SparseArray:
    """A sparse array of a file: `data` and the arrays that say where it belongs."""

    def __init__(self, stype, shape, data, indices, indptr=None):
        self.stype, self.shape = stype, tuple(shape)
        self.data, self.indices, self.indptr = data, indices, indptr

    @property
    def aux(self):
        return [self.indices] if self.indptr is None else [self.indptr, self.indices]

    def dense(self):
        """The same as a NumPy array."""
        data, indices = as_numpy(self.data), as_numpy(self.indices)
        if int(np.prod(self.shape, dtype=object)) * data.itemsize > _MOST_DENSE_BYTES:
            raise InvalidArgument(f"dense: {data.dtype}{list(self.shape)} is too large")
        out = np.zeros(self.shape, dtype=data.dtype)
        if self.stype == "row_sparse":
            out[indices] = data
            return out
        rows = np.repeat(np.arange(self.shape[0]), np.diff(as_numpy(self.indptr)))
        out[rows, indices] = data
        return out


def _itemsize(name):
    return 2 if name == "bfloat16" else np.dtype(name).itemsize


def as_numpy(value):
    """The NumPy array of a tensor, an NDArray or an array."""
    value = getattr(value, "_tensor", value)
    return value.numpy() if isinstance(value, _core.Tensor) else np.asarray(value)


class _Reader:
    """Numbers and bytes of a buffer, with an error that says what was missing."""

    def __init__(self, data, name):
        self.data, self.name, self.at = memoryview(data), name, 0

    def bad(self, what):
        return Corrupt(f"{self.name}: {what} (at byte {self.at})")

    def left(self):
        return len(self.data) - self.at

    def bytes(self, count, what):
        if count > self.left():
            raise self.bad(f"{what} takes {count} bytes, and {self.left()} are left")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form, what):
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form), what))[0]

    def shape(self, form="q", axes=None):
        axes = self.number("i", "a shape") if axes is None else axes
        if axes > MAX_AXES or axes < -1:
            raise self.bad(f"a shape of {axes} axes")
        return None if axes < 0 else tuple(self.number(form, "a shape") for _ in range(axes))


def _count(reader, shape):
    total, bound = 1, 1
    for extent in shape:
        total *= extent
        bound *= max(extent, 1)
        if extent < 0 or bound > _MOST_ELEMENTS:
            raise reader.bad(f"a shape {list(shape)}")
    return total


def _dtype(reader):
    number = reader.number("i", "a dtype")
    if number not in DTYPES:
        raise reader.bad(f"a dtype {number}, expected 0 to 12")
    return DTYPES[number]


def _values(reader, shape, dtype):
    count = _count(reader, shape)
    raw = reader.bytes(count * _itemsize(dtype), f"an array of {dtype}{list(shape)}")
    try:
        return _array(raw, dtype, shape)
    except Error as error:
        raise reader.bad(str(error)) from None


def _array(raw, dtype, shape):
    if dtype in _NO_TENSOR:
        return np.frombuffer(raw, dtype="<" + np.dtype(dtype).str[1:]).reshape(shape).copy()
    return _core._from_bytes(bytes(raw), dtype, tuple(shape))


def _device(reader):
    reader.number("i", "a device")
    reader.number("i", "a device")


def _empty():
    return _core._from_bytes(b"", "float32", (0,))


def _read_sparse(reader, stype, stored, shape, dtype):
    kinds = []
    for _ in range(1 if stype == 1 else 2):
        kind = _dtype(reader)
        kinds.append((kind, reader.shape()))
    data = _values(reader, stored, dtype)
    aux = [_values(reader, extent or (), kind) for kind, extent in kinds]
    made = SparseArray(STYPES[stype], shape, data, aux[-1], aux[0] if stype == 2 else None)
    _check_sparse(reader, made)
    return made


def _check_sparse(reader, array):
    """Indices stay inside of the shape, and parts belong together."""
    indices = as_numpy(array.indices)
    rows = array.stype == "row_sparse"
    limit = array.shape[0 if rows else 1] if len(array.shape) > (0 if rows else 1) else 0
    if indices.ndim != 1 or (indices.size and (indices.min() < 0 or indices.max() >= limit)):
        raise reader.bad(f"{array.stype} indices outside of the shape {list(array.shape)}")
    if len(array.data.shape) < 1 or array.data.shape[0] != indices.size:
        raise reader.bad(f"{array.stype} with {indices.size} indices for data of shape "
                         f"{list(array.data.shape)}")
    if rows:
        if tuple(array.data.shape[1:]) != tuple(array.shape[1:]):
            raise reader.bad(f"rows of shape {list(array.data.shape[1:])} in {list(array.shape)}")
        return
    starts = as_numpy(array.indptr)
    if (len(array.shape) != 2 or starts.shape != (array.shape[0] + 1,) or starts[0] != 0
            or starts[-1] != indices.size or (np.diff(starts) < 0).any()):
        raise reader.bad("csr with pointers that do not fit its indices")


def _read_v2(reader, scalars):
    stype = reader.number("i", "a storage type")
    if stype not in STYPES:
        raise reader.bad(f"a storage type {stype}, expected 0, 1 or 2")
    stored = reader.shape() if stype else None
    shape = reader.shape()
    if shape is None or (not shape and not scalars) or any(extent < 0 for extent in shape):
        return _empty()
    _device(reader)
    dtype = _dtype(reader)
    if stype:
        return _read_sparse(reader, stype, stored or (), shape, dtype)
    return _values(reader, shape, dtype)


def read_array(reader):
    """One array: V2 and V3 begin with a magic and a storage type, V1 with a magic, older ones
    with the number of axes."""
    magic = reader.number("I", "an array")
    if magic in (MAGIC_V2, MAGIC_V3):
        return _read_v2(reader, magic == MAGIC_V3)
    if magic == MAGIC_V1:
        shape = reader.shape()
    elif magic <= MAX_AXES:
        shape = reader.shape("I", magic)
    else:
        raise reader.bad(f"an array that begins with {magic:#x}")
    if not shape:
        return _empty()
    _device(reader)
    return _values(reader, shape, _dtype(reader))


def array_from_bytes(data, name="an array"):
    """One array's record, as a pickled NDArray holds it."""
    return read_array(_Reader(data, name))


def _dtype_name(value):
    name = getattr(value.dtype, "name", None) or str(value.dtype)
    if name not in NUMBERS:
        raise InvalidArgument(f"save: there is no number for dtype {name} in a file")
    return name


def _plain(value):
    """A tensor, an array or a SparseArray, of whatever was given."""
    if isinstance(value, SparseArray):
        return value
    if getattr(value, "stype", "default") != "default":
        parts = [getattr(value, part, None) for part in ("data", "indices", "indptr")]
        parts = [getattr(part, "_tensor", part) for part in parts]
        return SparseArray(value.stype, value.shape, *parts)
    value = getattr(value, "_tensor", value)
    if isinstance(value, _core.Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    raise InvalidArgument(f"save: expected arrays, got {type(value).__name__}")


def _raw(value):
    if isinstance(value, _core.Tensor):
        return _core._to_bytes(value.detach().contiguous())
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def _pack_shape(shape):
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def array_to_bytes(value):
    """One array's record: V2, which MXNet 0.12 to 1.9 read; V3 where the shape has no axes or
    extents of 0, which V2 takes for unknown."""
    value = _plain(value)
    stype = {"default": 0, "row_sparse": 1, "csr": 2}[getattr(value, "stype", "default")]
    data = value.data if stype else value
    scalar = not stype and (len(value.shape) == 0 or 0 in value.shape)
    parts = [struct.pack("<Ii", MAGIC_V3 if scalar else MAGIC_V2, stype)]
    if stype:
        parts.append(_pack_shape(data.shape))
    parts += [_pack_shape(value.shape), struct.pack("<iii", 1, 0, NUMBERS[_dtype_name(data)])]
    aux = [_plain(array) for array in value.aux] if stype else []
    for array in aux:
        parts += [struct.pack("<i", NUMBERS[_dtype_name(array)]), _pack_shape(array.shape)]
    return b"".join(parts + [_raw(data)] + [_raw(array) for array in aux])


def dump_params(arrays):
    """The bytes of a file with a dict of arrays, or a list of them without names."""
    if isinstance(arrays, dict):
        names, values = list(arrays), list(arrays.values())
    elif isinstance(arrays, (list, tuple)):
        names, values = [], list(arrays)
    else:
        names, values = [], [arrays]
    parts = [struct.pack("<QQQ", LIST_MAGIC, 0, len(values))]
    parts += [array_to_bytes(value) for value in values]
    parts.append(struct.pack("<Q", len(names)))
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgument(f"save: the name of an array is {name!r}, expected a string")
        encoded = name.encode()
        parts += [struct.pack("<Q", len(encoded)), encoded]
    return b"".join(parts)


def parse_params(data, name="params"):
    """What the bytes of a file hold: a dict, or a list when its arrays have no names."""
    reader = _Reader(data, name)
    if reader.number("Q", "the head of the file") != LIST_MAGIC:
        reader.at = 0
        raise reader.bad("no list of arrays of MXNet's begins so")
    reader.number("Q", "the head of the file")
    count = reader.number("Q", "the head of the file")
    # The smallest array is a magic and a shape.
    if count * 4 > reader.left():
        raise reader.bad(f"{count} arrays in {reader.left()} bytes")
    values = [read_array(reader) for _ in range(count)]
    named = reader.number("Q", "the number of names")
    if named not in (0, count):
        raise reader.bad(f"{named} names for {count} arrays")
    names = []
    for _ in range(named):
        raw = bytes(reader.bytes(reader.number("Q", "a name"), "a name"))
        try:
            names.append(raw.decode())
        except UnicodeDecodeError:
            raise reader.bad("a name that is no UTF-8") from None
    if reader.left():
        raise reader.bad(f"{reader.left()} bytes behind the last name")
    if len(set(names)) != len(names):
        raise reader.bad("two arrays of the same name")
    return dict(zip(names, values)) if names else values


def write_atomically(path, data):
    """The file has all of the bytes, or is what it was before."""
    path = os.fspath(path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".",
                                         prefix="." + os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def save_params(path, arrays):
    """Writes a dict of arrays by name, or a list of arrays, as MXNet's `nd.save` does."""
    write_atomically(path, dump_params(arrays))


def load_params(path):
    """A file's arrays by name, or a list. Lockstep's tensors; NumPy arrays of dtypes that tensors
    have not; SparseArray for sparse ones. `.npz` and `.npy` of MXNet 2 are known by their head."""
    with open(path, "rb") as file:
        return load_bytes(file.read(), os.fspath(path))


def load_bytes(data, name="a buffer"):
    """As load_params, of a file's bytes."""
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _parse_npz(data, name)
    if data[:6] == b"\x93NUMPY":
        return [_parse_npy(data, name)]
    return parse_params(data, name)


def _parse_npy(data, name):
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = (np.lib.format.read_array_header_1_0 if version == (1, 0)
                else np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise Corrupt(f"{name}: {error}") from None
    # MXNet writes bfloat16 as <b2, which NumPy does not know; it reads it as two bytes of nothing.
    kind = "bfloat16" if dtype.str in ("<V2", "|V2") else dtype.name
    if kind not in NUMBERS:
        raise Corrupt(f"{name}: an array of {dtype}")
    rest = data[file.tell():]
    if int(np.prod(shape, dtype=object)) * _itemsize(kind) != len(rest):
        raise Corrupt(f"{name}: {len(rest)} bytes for {kind}{list(shape)}")
    if kind == "bfloat16":
        return _array(rest, kind, shape)
    array = np.frombuffer(rest, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    array = np.ascontiguousarray(array.astype(dtype.newbyteorder("="), copy=False))
    return _array(array.tobytes(), kind, shape)


def _parse_npz(data, name):
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                # Deflate makes a byte of at most 1032.
                if info.file_size > 1032 * info.compress_size + 64:
                    raise Corrupt(f"{name}: {info.filename} says that it has {info.file_size} bytes")
                key = info.filename[:-4] if info.filename.endswith(".npy") else info.filename
                contents = archive.read(info)
                # Which of the sparse layouts a folder has is told by its members.
                if key.endswith("/format"):
                    continue
                arrays[key] = _parse_npy(contents, f"{name}: {info.filename}")
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, Corrupt):
            raise
        raise Corrupt(f"{name}: {error}") from None
    return _with_sparse(arrays, name)


def _with_sparse(arrays, name):
    """Folders `key/{data,indices,shape}` are sparse arrays."""
    made = {}
    for key, value in arrays.items():
        folder, _, part = key.rpartition("/")
        if not folder or f"{folder}/indices" not in arrays or f"{folder}/shape" not in arrays:
            made[key] = value
        elif part == "data":
            shape = tuple(int(extent) for extent in as_numpy(arrays[f"{folder}/shape"]))
            indptr = arrays.get(f"{folder}/indptr")
            made[folder] = SparseArray("row_sparse" if indptr is None else "csr", shape, value,
                                       arrays[f"{folder}/indices"], indptr)
            _check_sparse(_Reader(b"", name), made[folder])
    return made
