# SPDX-License-Identifier: Apache-2.0
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

import lockstep as ls
from lockstep import errors
from lockstep.mxnet import _files, _states

F32 = np.arange(6, dtype="float32").reshape(2, 3)


def shape(*extents):
    return struct.pack(f"<i{len(extents)}q", len(extents), *extents)


def listed(records, names=()):
    out = struct.pack("<QQQ", 0x112, 0, len(records)) + b"".join(records)
    out += struct.pack("<Q", len(names))
    return out + b"".join(struct.pack("<Q", len(n.encode())) + n.encode() for n in names)


def v2(array, number, magic=0xF993FAC9):
    return (struct.pack("<Ii", magic, 0) + shape(*array.shape) + struct.pack("<iii", 1, 0, number)
            + array.tobytes())


def values(loaded):
    return ls.asarray(loaded).numpy()


def saved(arrays, path):
    _files.save_params(path, arrays)
    return path.read_bytes()


def test_every_generation_of_records_is_read():
    v1 = (struct.pack("<I", 0xF993FAC8) + shape(2, 3) + struct.pack("<iii", 2, 1, 0)
          + F32.tobytes())
    v0 = struct.pack("<I2Iiii", 2, 2, 3, 1, 0, 0) + F32.tobytes()
    v3_scalar = v2(np.float32(7).reshape(()), 0, 0xF993FACA)
    file = listed([v2(F32, 0), v1, v0, v2(F32, 0, 0xF993FACA), v3_scalar],
                  ["two", "one", "zero", "three", "scalar"])
    loaded = _files.load_bytes(file)
    for name in ("two", "one", "zero", "three"):
        assert isinstance(loaded[name], ls.Tensor) and loaded[name].dtype == "float32"
        np.testing.assert_array_equal(values(loaded[name]), F32)
    assert loaded["scalar"].shape == () and loaded["scalar"].item() == 7


def test_arrays_without_names_are_a_list_and_empty_ones_end_early():
    empty_v2 = struct.pack("<Ii", 0xF993FAC9, 0) + shape()
    unknown_v3 = struct.pack("<Iii", 0xF993FACA, 0, -1)
    empty_v1 = struct.pack("<I", 0xF993FAC8) + shape()
    loaded = _files.load_bytes(listed([empty_v2, v2(F32, 0), unknown_v3, empty_v1]))
    assert [array.shape for array in loaded] == [(0,), (2, 3), (0,), (0,)]


WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


@pytest.mark.parametrize("number, name", [(9, "uint16"), (10, "uint32"), (11, "uint64")])
def test_unsigned_integers_become_wider_ones(number, name):
    array = np.array([1, 0, 3], dtype=name)
    (loaded,) = _files.load_bytes(listed([v2(array, number)]))
    assert loaded.dtype == WIDER[name] and loaded.tolist() == [1, 0, 3]


@pytest.mark.parametrize("number, name", [item for item in _files.DTYPES.items()
                                          if item[1] not in WIDER])
def test_every_dtype_has_its_number(number, name, tmp_path):
    if name == "bfloat16":
        array = ls.tensor([1.5, -2.0]).cast("bfloat16")
        raw = np.array([0x3FC0, 0xC000], "<u2").tobytes()
    else:
        array = np.array([1, 0, 3], dtype=name)
        raw = array.tobytes()
    path = tmp_path / "x.params"
    _files.save_params(path, [array])
    expected = listed([struct.pack("<Ii", 0xF993FAC9, 0) + shape(*array.shape)
                       + struct.pack("<iii", 1, 0, number) + raw])
    assert path.read_bytes() == expected
    (loaded,) = _files.load_params(path)
    assert str(loaded.dtype) == name
    np.testing.assert_array_equal(values(loaded), values(array))


def test_what_is_written_is_byte_for_byte_v2_and_all_v3_where_v2_cannot_say_it(tmp_path):
    path = tmp_path / "x.params"
    assert saved({"arg:w": F32, "aux:é": F32[0]}, path) == listed(
        [v2(F32, 0), v2(F32[0], 0)], ["arg:w", "aux:é"])
    scalar = v2(np.float32(2).reshape(()), 0, 0xF993FACA)
    _files.save_params(path, {"arg:w": F32, "aux:é": np.float32(2).reshape(())})
    assert path.read_bytes() == listed([v2(F32, 0, 0xF993FACA), scalar], ["arg:w", "aux:é"])
    assert list(_files.load_params(path)) == ["arg:w", "aux:é"]
    _files.save_params(path, [np.zeros((0, 3), "float32")])
    assert _files.load_params(path)[0].shape == (0, 3)


def test_sparse_arrays_are_read_and_written(tmp_path):
    data = np.array([[1, 2], [3, 4]], "float32")
    rows = np.array([1, 3], "int64")
    record = (struct.pack("<Ii", 0xF993FAC9, 1) + shape(2, 2) + shape(4, 2)
              + struct.pack("<iii", 1, 0, 0) + struct.pack("<i", 6) + shape(2) + data.tobytes()
              + rows.tobytes())
    (loaded,) = _files.load_bytes(listed([record]))
    assert loaded.stype == "row_sparse"
    assert loaded.dense().tolist() == [[0, 0], [1, 2], [0, 0], [3, 4]]
    assert saved([loaded], tmp_path / "x.params") == listed([record])
    values_, indptr, indices = (np.array([5, 6, 7], "float32"), np.array([0, 2, 3], "int64"),
                                np.array([0, 2, 1], "int64"))
    record = (struct.pack("<Ii", 0xF993FAC9, 2) + shape(3) + shape(2, 3)
              + struct.pack("<iii", 1, 0, 0) + struct.pack("<i", 6) + shape(3)
              + struct.pack("<i", 6) + shape(3) + values_.tobytes() + indptr.tobytes()
              + indices.tobytes())
    (loaded,) = _files.load_bytes(listed([record]))
    assert loaded.stype == "csr" and loaded.dense().tolist() == [[5, 0, 6], [0, 7, 0]]
    assert saved([loaded], tmp_path / "x.params") == listed([record])
    outside = record[:-8] + struct.pack("<q", 3)
    with pytest.raises(errors.Corrupt, match="has the column 3, expected 0 to 2"):
        _files.load_bytes(listed([outside]))


def test_files_that_lie_are_refused_before_anything_is_allocated():
    huge = struct.pack("<Ii", 0xF993FAC9, 0) + shape(1 << 40, 1 << 20) + struct.pack("<iii", 1, 0, 0)
    large = struct.pack("<Ii", 0xF993FAC9, 0) + shape(1 << 38) + struct.pack("<iii", 1, 0, 0)
    for file, words in (
            (b"", "is no .params file"), (struct.pack("<QQQ", 0x113, 0, 0), "is no .params file"),
            (struct.pack("<QQQ", 0x112, 0, 1 << 60), "arrays, but only"),
            (listed([huge]), "larger than the file"), (listed([large]), "larger than the file"),
            (listed([v2(F32, 99)]), "the type 99"),
            (listed([struct.pack("<Ii", 0xF993FAC9, 7)]), "the storage type 7"),
            (listed([v2(F32, 0)], ["a"])[:-1], "bytes of a name"),
            (listed([v2(F32, 0)]) + b"x", "1 bytes after its end"),
            (listed([v2(F32, 0)] * 2, ["a", "a"]), "two tensors are named 'a'"),
            (listed([struct.pack("<I", 0xDEADBEEF)]), "unknown version .0xdeadbeef"),
            (listed([struct.pack("<Iii", 0xF993FAC9, 0, 99)]), "99 axes")):
        with pytest.raises(errors.Corrupt, match="^broken.params: .*" + words):
            _files.load_bytes(file, "broken.params")


def test_no_truncation_and_no_flipped_byte_does_more_than_raise(rng, tmp_path):
    whole = saved({
        "a": F32, "b": ls.ones((2, 2)).cast("bfloat16"), "c": np.float32(1).reshape(()),
        "r": _files.SparseArray("row_sparse", (4, 2), F32[:, :2].copy(), np.array([0, 2])),
        "s": _files.SparseArray("csr", (2, 3), F32[0], np.array([0, 1, 2]), np.array([0, 1, 3]))},
        tmp_path / "x.params")
    for end in range(len(whole)):
        with pytest.raises(errors.Corrupt):
            _files.load_bytes(whole[:end])
    for _ in range(3000):
        broken = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            broken[place] = rng.integers(0, 256)
        try:
            _files.load_bytes(bytes(broken))
        except errors.Corrupt:
            pass


def test_npz_and_npy_of_later_releases_are_known_by_their_head(tmp_path):
    path = tmp_path / "x.params"
    with open(path, "wb") as file:
        np.savez(file, **{"0.weight": F32, "0.bias": np.ones(2, "float16")})
    loaded = _files.load_params(path)
    np.testing.assert_array_equal(values(loaded["0.weight"]), F32)
    assert loaded["0.bias"].dtype == "float16"
    with open(path, "wb") as file:
        np.save(file, np.asfortranarray(F32))
    np.testing.assert_array_equal(values(_files.load_params(path)[0]), F32)
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + "\n"
    path.write_bytes(head + text.encode())
    with pytest.raises(errors.Corrupt, match="0 bytes of data"):
        _files.load_params(path)


def test_sparse_arrays_of_npz_files_are_folders(tmp_path, rng):
    """As MXNet 2 writes them; the header of its `format` is malformed and never read."""
    path = tmp_path / "x.params"
    dense = rng.normal(size=(4, 3)).astype("float32") * (rng.random((4, 3)) < 0.5)
    row, column = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=4))])
    parts = {"csr/data": dense[row, column], "csr/indices": column, "csr/indptr": starts,
             "csr/shape": np.array([4, 3]), "rows/data": dense[[0, 2]],
             "rows/indices": np.array([0, 2]), "rows/shape": np.array([4, 3]), "w": dense}
    with open(path, "wb") as file:
        np.savez(file, **parts)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("csr/format.npy", b"\x93NUMPY\x01\x00nothing that is read")
    loaded = _files.load_params(path)
    assert [loaded[name].stype for name in ("csr", "rows")] == ["csr", "row_sparse"]
    np.testing.assert_array_equal(values(loaded["csr"].dense()), dense)
    np.testing.assert_array_equal(values(loaded["rows"].dense())[[0, 2]], dense[[0, 2]])
    assert sorted(loaded) == ["csr", "rows", "w"]
    np.testing.assert_array_equal(values(ls.io.load(path)["csr"]), dense)
    with open(path, "wb") as file:
        np.savez(file, **{**parts, "csr/indices": column + 3})
    with pytest.raises(errors.Corrupt, match="tensor 'csr' has the column"):
        _files.load_params(path)


def test_sparse_arrays_stay_sparse_through_a_file_and_a_buffer(tmp_path, rng):
    import lockstep.mxnet as mx

    dense = rng.normal(size=(5, 3)).astype("float32") * (np.arange(5) % 2)[:, None]
    path = str(tmp_path / "x.params")
    mx.nd.save(path, {"rows": mx.nd.array(dense).tostype("row_sparse"),
                      "csr": mx.nd.array(dense).tostype("csr"), "dense": mx.nd.array(dense)})
    with open(path, "rb") as file:
        buffer = file.read()
    assert len(buffer) < 3 * dense.nbytes + 3 * 200
    for loaded in (mx.nd.load(path), mx.nd.load_frombuffer(buffer)):
        assert {key: value.stype for key, value in loaded.items()} == {
            "rows": "row_sparse", "csr": "csr", "dense": "default"}
        for value in loaded.values():
            np.testing.assert_array_equal(value.asnumpy(), dense)
    np.testing.assert_array_equal(ls.io.load(path)["csr"].numpy(), dense)
    mx.npx.save(path, {"x": mx.np.array(dense)})
    np.testing.assert_array_equal(mx.npx.load(path)["x"].asnumpy(), dense)


def test_parts_of_a_sparse_array_must_fit_together():
    for stype, shape_, data, indices, indptr, words in (
            ("row_sparse", (4, 3), F32, np.array([0, 4]), None, "the row 4, expected 0 to 3"),
            ("row_sparse", (4, 2), F32, np.array([0, 1]), None, "rows of shape"),
            ("row_sparse", (4, 3), F32, np.array([0, 1]), np.array([0]), "row_sparse has none"),
            ("csr", (2, 3), F32[0], np.array([0, 1, 2]), np.array([0, 2, 1]), "do not rise"),
            ("coo", (2, 3), F32[0], np.array([0, 1, 2]), None, "no storage 'coo'")):
        with pytest.raises(errors.InvalidArgument, match=words):
            _files.SparseArray(stype, shape_, data, indices, indptr)
    with pytest.raises(errors.InvalidArgument, match="too large"):
        _files.SparseArray("row_sparse", (1 << 40, 3), F32, np.array([0, 1])).dense()


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "x.params"
    _files.save_params(path, [F32])
    before = path.read_bytes()
    with pytest.raises(TypeError, match="complex"):
        _files.save_params(path, [F32, np.ones(2, "complex64")])
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.params"]


class Evil:
    def __reduce__(self):
        return os.system, ("echo no",)


def test_states_are_data_and_nothing_else():
    for payload in (pickle.dumps({0: Evil()}), pickle.dumps(json.loads), pickle.dumps(eval)):
        with pytest.raises(errors.Corrupt, match="which is no part of states"):
            _states.loads(payload)
    with pytest.raises(errors.Corrupt):
        _states.loads(b"\x80\x04broken")


def test_a_pickle_cannot_ask_for_memory():
    many = b"\x80\x03]r" + struct.pack("<I", 1 << 31) + b"."  # remembers its list far away
    large = b"\x80\x03cbuiltins\nbytearray\n\x8a\x06" + (1 << 40).to_bytes(6, "little") + b"\x85R."
    long = b"\x80\x05\x96" + struct.pack("<Q", 1 << 50) + b"."
    for payload, words in ((many, "remembers"), (large, "bytearray"), (long, "optimizer states")):
        with pytest.raises(errors.Corrupt, match=words):
            _states.loads(payload)


def test_states_come_back_through_a_file(tmp_path):
    import lockstep.mxnet as mx

    updater = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
    weight = mx.nd.ones((2, 3))
    updater(0, weight * 2, weight)
    other = mx.optimizer.get_updater(mx.optimizer.SGD())
    other.set_states(updater.get_states(dump_optimizer=True))
    assert isinstance(other.optimizer, mx.optimizer.Adam)
    for one, two in zip(other.states[0], updater.states[0]):
        assert (one.asnumpy() == two.asnumpy()).all() and one.shape == (2, 3)


def test_states_that_mxnet_pickled_are_read():
    """A pickle whose arrays are {'handle': record} under MXNet's own names of classes."""
    record = v2(F32, 0)

    def array(pickler_bytes=record):
        # What pickle writes of an mxnet.ndarray.ndarray.NDArray with __getstate__.
        return (b"cmxnet.ndarray.ndarray\nNDArray\n)\x81}U\x06handleB"
                + struct.pack("<I", len(pickler_bytes)) + pickler_bytes + b"sb")

    loaded = _states.loads(b"\x80\x03}K\x00" + array() + b"s.", make=lambda value: value)
    np.testing.assert_array_equal(values(loaded[0]), F32)
