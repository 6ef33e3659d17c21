# SPDX-License-Identifier: Apache-2.0
"""Parameters from one kind of file to another."""
import io
import json
import struct
import zipfile

import numpy as np
import pytest


def params(arrays):
    """MXNet's file of float32 arrays, as its version 1.9 writes it."""
    out = struct.pack("<3Q", 0x112, 0, len(arrays))
    for array in arrays.values():
        out += struct.pack("<3I", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
        out += struct.pack("<3i", 1, 0, 0) + array.astype("<f4").tobytes()
    out += struct.pack("<Q", len(arrays))
    for name in arrays:
        out += struct.pack("<Q", len(name)) + name.encode()
    return out


def safetensors(arrays):
    kinds = {"float32": "F32", "float16": "F16", "int64": "I64", "bool": "BOOL", "int8": "I8"}
    header, data = {}, b""
    for name, array in arrays.items():
        start = len(data)
        data += array.tobytes()
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path):
    blob = path.read_bytes()
    length, = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + length])
    dtypes = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "BOOL": "?", "I8": "i1", "BF16": "<u2"}
    return {name: np.frombuffer(blob[8 + length:][slice(*facts["data_offsets"])],
                                dtypes[facts["dtype"]]).reshape(facts["shape"])
            for name, facts in header.items()}


@pytest.fixture
def weights():
    rng = np.random.default_rng(7)
    return {"fc1.weight": rng.standard_normal((3, 4)).astype(np.float32),
            "fc1.bias": rng.standard_normal(3).astype(np.float32)}


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_becomes_every_format_and_back_with_the_same_bits(lockstep):
    digest = lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", "--json").json["params_sha256"]
    words = ["run", "a.safetensors", "b.npz", "c.params", "d.lockstep", "e.npz"]
    for source, target in zip(words, words[1:]):
        line = lockstep.run("convert", source, target, status=0).out
        assert line.startswith(f"{target}: 4 tensors, 101770 elements, 407.1 KB (")
    first, last = (np.load(lockstep.folder / name) for name in ("b.npz", "e.npz"))
    assert sorted(first) == sorted(last) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    for name in first:
        assert first[name].tobytes() == last[name].tobytes()
    import hashlib
    bits = hashlib.sha256(b"".join(last[name].tobytes() for name in sorted(last)))
    assert bits.hexdigest() == digest


def test_a_checkpoint_gives_its_parameters_alone(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    checkpoint, = (lockstep.folder / "run" / "checkpoints").glob("*.ckpt")
    lockstep.run("convert", checkpoint, "net.npz", status=0)
    assert sorted(np.load(lockstep.folder / "net.npz")) == [
        "fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]


def test_the_table_has_names_shapes_and_dtypes(lockstep, weights):
    weights["step"] = np.array(3, dtype=np.int64)
    weights["mask"] = np.array([True, False])
    (lockstep.folder / "net.safetensors").write_bytes(safetensors(weights))
    outcome = lockstep.run("convert", "net.safetensors", "--list", status=0)
    assert outcome.out.splitlines() == [
        "name        shape   dtype",
        "fc1.weight  [3, 4]  float32",
        "fc1.bias    [3]     float32",
        "step        []      int64",
        "mask        [2]     bool",
        "4 tensors, 18 elements, 70 bytes"]
    assert files_of(lockstep.folder) == ["net.safetensors"]


def test_mxnets_prefixes_go_where_only_mxnet_has_them(lockstep, weights):
    arrays = {"arg:fc1_weight": weights["fc1.weight"], "aux:bn_moving_mean": weights["fc1.bias"]}
    (lockstep.folder / "net-0003.params").write_bytes(params(arrays))
    lockstep.run("convert", "net-0003.params", "net.npz", status=0)
    got = np.load(lockstep.folder / "net.npz")
    assert got["fc1_weight"].tobytes() == arrays["arg:fc1_weight"].tobytes()
    assert got["bn_moving_mean"].tobytes() == arrays["aux:bn_moving_mean"].tobytes()
    lockstep.run("convert", "net.npz", "again.params", "--module-names", status=0)
    assert (lockstep.folder / "again.params").read_bytes() == params(arrays)
    lockstep.run("convert", "again.params", "same.params", status=0)
    assert (lockstep.folder / "same.params").read_bytes() == params(arrays)


def test_names_are_changed_and_floats_cast(lockstep, weights):
    weights["backbone.step"] = np.array([3], dtype=np.int64)
    (lockstep.folder / "in.safetensors").write_bytes(safetensors(weights))
    lockstep.run("convert", "in.safetensors", "out.safetensors", "--rename", r"^fc(\d)=layer$1",
                 "--rename", r"^backbone\.=", "--dtype", "float16", status=0)
    got = read_safetensors(lockstep.folder / "out.safetensors")
    assert sorted(got) == ["layer1.bias", "layer1.weight", "step"]
    assert np.array_equal(got["layer1.weight"], weights["fc1.weight"].astype(np.float16))
    assert got["step"].dtype == np.int64
    lockstep.run("convert", "in.safetensors", "b.safetensors", "--dtype", "bfloat16", status=0)
    bits = read_safetensors(lockstep.folder / "b.safetensors")["fc1.bias"].astype(np.uint32) << 16
    assert np.allclose(bits.view(np.float32), weights["fc1.bias"], rtol=1 / 128)


def test_content_and_options_come_before_endings(lockstep, weights):
    (lockstep.folder / "net.bin").write_bytes(params(weights))
    lockstep.run("convert", "net.bin", "out.bin", "--to", "npz", status=0)
    assert np.array_equal(np.load(lockstep.folder / "out.bin")["fc1.bias"], weights["fc1.bias"])
    complaint = lockstep.run("convert", "net.bin", "x.npz", "--from", "npz", status=1).complaint
    assert "net.bin: is no zip file" in complaint
    assert lockstep.run("convert", "net.bin", "out.txt", status=2).complaint.startswith(
        "lockstep: convert: out.txt: its ending does not say what to write")
    assert "no OUT was given" in lockstep.run("convert", "net.bin", status=2).complaint
    assert "expected PATTERN=TO" in lockstep.run("convert", "net.bin", "x.npz", "--rename", "a",
                                                 status=2).complaint


def test_compressed_arrays_of_numpy_are_read(lockstep, weights):
    np.savez_compressed(lockstep.folder / "in.npz", order=np.asfortranarray(weights["fc1.weight"]),
                        zeros=np.zeros(1 << 20, np.float32), counts=np.array([1, 65535], np.uint16))
    lockstep.run("convert", "in.npz", "out.npz", status=0)
    got = np.load(lockstep.folder / "out.npz")
    assert np.array_equal(got["order"], weights["fc1.weight"])
    assert got["counts"].tolist() == [1, 65535]
    complaint = lockstep.run("convert", "in.npz", "x.npz", "--max-inflated", 1, status=1).complaint
    assert "in.npz: entry 'zeros.npy' inflates to 4194432 bytes" in complaint


BAD = {
    "cut.params": (lambda w: params(w)[:-30], "cut.params: "),
    "lie.params": (lambda w: struct.pack("<4Q", 0x112, 0, 1 << 60, 0),
                   "says it has 1152921504606846976 arrays, but only 8 bytes are left"),
    "cut.safetensors": (lambda w: safetensors(w)[:-1], "cut.safetensors: tensor 'fc1.bias' is at"),
    "torch.pt": (lambda w: torch_file(), "torch.pt: is a file of torch.save: write safetensors"),
    "old.pth": (lambda w: b"\x80\x02}q\x00.", "old.pth: is no file of tensors that can be read"),
    "empty": (lambda w: b"", "empty: is no file of tensors that can be read"),
}


def torch_file():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        file.writestr("archive/data/0", b"1234")
    return out.getvalue()


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_line_and_nothing_is_written(lockstep, weights, name):
    make, expected = BAD[name]
    (lockstep.folder / name).write_bytes(make(weights))
    assert expected in lockstep.run("convert", name, "out.npz", status=1).complaint
    assert files_of(lockstep.folder) == [name]


def test_what_cannot_be_done_leaves_the_old_file(lockstep, weights):
    (lockstep.folder / "in.params").write_bytes(params(weights))
    (lockstep.folder / "out.npz").write_bytes(b"old")
    for words, expected in [(["--rename", "^.*$=w"], "out.npz: two tensors are named 'w'"),
                            (["--rename", "tail=head"], "'tail' matches none of the 2 names"),
                            (["--rename", "(=x"], "'(' is no regular expression")]:
        assert expected in lockstep.run("convert", "in.params", "out.npz", *words,
                                        status=1).complaint
    assert "no such file" in lockstep.run("convert", "none.params", "out.npz", status=1).complaint
    assert "no such file" in lockstep.run("convert", "in.params", "no/out.npz", status=1).complaint
    assert (lockstep.folder / "out.npz").read_bytes() == b"old"
    assert files_of(lockstep.folder) == ["in.params", "out.npz"]


def test_a_file_may_replace_itself(lockstep, weights):
    (lockstep.folder / "net.params").write_bytes(params(weights))
    lockstep.run("convert", "net.params", "net.params", "--rename", "fc1=fc2", status=0)
    out = lockstep.run("convert", "net.params", "--list", status=0).out
    assert "fc2.weight" in out and "fc1" not in out
