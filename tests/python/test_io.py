# SPDX-License-Identifier: Apache-2.0
import os
import struct

import numpy as np
import pytest

import lockstep as ls
from lockstep import nn


def every_kind():
    """Every dtype with, and without, axes and elements; bits that rounding would not give back."""
    rng = np.random.default_rng(3)
    tensors = {}
    for name in ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64"):
        for shape in ((3,), (2, 3), (), (0,), (5, 0, 4)):
            size = int(np.prod(shape)) * np.dtype(name).itemsize
            array = np.frombuffer(rng.bytes(size), name).reshape(shape)
            tensors[f"{name}{shape}"] = ls.tensor(np.array(array))
    tensors["bool"] = ls.tensor(np.array([True, False]))
    tensors["bfloat16"] = ls.tensor([1.5, -2.0, 3e38]).astype("bfloat16")
    return tensors


def bits(tensor):
    return tensor.dtype.name, tensor.shape, ls._core._to_bytes(tensor)


@pytest.mark.parametrize("ending", ["lockstep", "params", "safetensors", "npz"])
def test_what_was_saved_comes_back_bit_for_bit(tmp_path, ending):
    tensors = every_kind()
    path = tmp_path / f"net.{ending}"
    ls.io.save(path, tensors)
    again = ls.io.load(path)
    assert {name: bits(x) for name, x in again.items()} == {
        name: bits(x) for name, x in tensors.items()}
    assert ls.io.format_of(path) == ("native" if ending == "lockstep" else ending)
    assert os.listdir(tmp_path) == [path.name]


def test_numpy_reads_what_we_write_and_we_what_it_writes(tmp_path):
    path = tmp_path / "a.npz"
    ls.save(path, {"x": np.arange(6.0).reshape(2, 3), "n": [1, 2], "s": 2.5})
    with np.load(path) as file:
        assert file["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and file["x"].dtype == np.float64
        assert file["n"].tolist() == [1, 2] and file["s"].shape == ()
    np.savez_compressed(path, t=np.arange(6).reshape(2, 3).T, u=np.array([7], np.uint32))
    got = ls.load_arrays(path)
    assert got["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert got["u"].dtype == "int64" and got["u"].tolist() == [7]


def test_a_file_of_mxnet_is_read_byte_by_byte(tmp_path):
    path = tmp_path / "net-0001.params"
    path.write_bytes(struct.pack("<3Q", 0x112, 0, 1) + struct.pack("<IiIq", 0xF993FAC9, 0, 1, 2) +
                     struct.pack("<3i2f", 1, 0, 0, 1.5, -2) + struct.pack("<QQ", 1, 5) + b"arg:w")
    assert {name: x.tolist() for name, x in ls.io.load(path).items()} == {"arg:w": [1.5, -2.0]}


def test_bad_files_and_names_are_errors_with_one_line(tmp_path):
    path = tmp_path / "net.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(ls.Corrupt, match="is no safetensors file, or ends early"):
        ls.io.load(path)
    with pytest.raises(ls.NotFound, match="no such file"):
        ls.io.load(tmp_path / "none")
    with pytest.raises(ls.InvalidArgument, match="its ending does not say what to write"):
        ls.io.save(tmp_path / "net.bin", {})
    with pytest.raises(ls.InvalidArgument, match="a name is 3, expected a string"):
        ls.io.save(tmp_path / "net.npz", {3: [1.0]})
    with pytest.raises(ls.InvalidArgument, match="format: there is no 'onnx'"):
        ls.io.load(path, format="onnx")
    np.savez_compressed(tmp_path / "zeros.npz", z=np.zeros(10000))
    with pytest.raises(ls.Corrupt, match="more than are left of max_inflated"):
        ls.io.load(tmp_path / "zeros.npz", max_inflated=1000)
    assert sorted(os.listdir(tmp_path)) == ["net.safetensors", "zeros.npz"]


def make_net():
    return nn.sequential(nn.conv2d(4, 3), nn.batch_norm(), nn.activation("relu"), nn.flatten(),
                         nn.dense(2))


def test_a_state_dict_of_pytorch_loads_by_name(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4),
                                 torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 2))
    x = torch.randn(5, 3, 6, 6)
    theirs(x)  # statistics that are not those of the start
    theirs.eval()
    path = tmp_path / "net.safetensors"
    ls.io.save(path, {"module." + name: value.numpy()
                      for name, value in theirs.state_dict().items()})
    ours = make_net()
    assert ours.load(str(path)).startswith("8 of the block's 8 parameters fit")
    with torch.no_grad():
        wanted = theirs(x).numpy()
    np.testing.assert_allclose(ours(ls.tensor(x.numpy())).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_weights_of_pytorch_load_by_name(tmp_path, bidirectional):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=bidirectional)
    path = tmp_path / "lstm.safetensors"
    ls.io.save(path, {name: value.numpy() for name, value in theirs.state_dict().items()})
    ours = nn.lstm(4, layers=2, bidirectional=bidirectional, layout="TNC")
    ours.load(str(path))
    x = torch.randn(6, 2, 3)
    with torch.no_grad():
        wanted = theirs(x)[0].numpy()
    np.testing.assert_allclose(ours(ls.tensor(x.numpy())).numpy(), wanted, rtol=1e-4, atol=1e-5)
