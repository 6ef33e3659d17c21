# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong: one clear line, the right exit status, nothing half made."""
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import pytest

from conftest import PROGRAM
from jobs import steps_done, wait_until


@pytest.mark.parametrize("words,complaint", [
    (["train"], "recipe is required"),
    (["train", "mnist-mlp", "--data", ""], "--data: is empty"),
    (["train", "mnist-mlp", "--out", ""], "--out: is empty"),
    (["eval", "runs/x", "--data", ""], "--data: is empty"),
    (["train", "char-gpt", "--image-size", "4"],
     "--image-size 4: char-gpt takes its samples as they are"),
    (["train", "mnist"], "recipe: mnist not in {mnist-mlp,"),
    (["train", "mnist-mlp", "--global-batch", "100"],
     "--global-batch 100 with --shards 8: the shards must divide the batch evenly"),
    (["train", "mnist-mlp", "--workers", "9"],
     "--workers 9 with --shards 8: a worker computes at least one shard"),
    (["train", "mnist-mlp", "--workers", "2", "--kvstore", "local"],
     "--kvstore local with --workers 2: it is within one process; expected allreduce"),
    (["train", "mnist-mlp", "--kvstore", "redis"],
     "--kvstore: kvstore 'redis': expected local, allreduce, ps_sync, ps_async or ps_ssp, or "
     "MXNet's device, dist_sync, dist_device_sync, dist_async or horovod"),
    (["train", "mnist-mlp", "--workers", "2", "--algorithm", "star"],
     "--algorithm: algorithm 'star': expected tree, ring, multi_ring, hierarchical, central or "
     "native"),
    (["train", "mnist-mlp", "--workers", "2", "--algorithm", "native", "--data", "synthetic"],
     "--algorithm native with --transport auto: it has no all-reduce of its own; expected "
     "--transport mpi, in mpirun"),
    (["train", "mnist-mlp", "--workers", "2", "--algorithm", "native", "--secure"],
     "--algorithm native with --transport zmq: it has no all-reduce of its own"),
    (["train", "mnist-mlp", "--workers", "2", "--compression", "3bit"],
     "--compression: compression '3bit': expected none, fp16, bf16, 1bit, 2bit[:threshold] or "
     "topk[:ratio]"),
    (["train", "mnist-mlp", "--compression", "2bit:-1"],
     "--compression: compression '2bit:-1': the threshold is -1, expected more than 0"),
    (["train", "mnist-mlp", "--workers", "2", "--compression", "fp16", "--algorithm", "ring"],
     "--compression fp16 with --algorithm ring: compressed gradients are gathered"),
    (["train", "mnist-mlp", "--epochs", "0"],
     "--epochs: got 0, expected a whole number of at least 1"),
    (["train", "mnist-mlp", "--epochs", "1", "--steps", "1"], "--epochs excludes --steps"),
    (["train", "mnist-mlp", "--threads", "none"], "expected a whole number of at least 1"),
    (["train", "mnist-mlp", "--learning-rate", "-1"],
     "learning rate: got -1, expected a number above 0"),
    (["train", "mnist-mlp", "--learning-rate", "0x10"],
     "--learning-rate: got 0x10, expected a number"),
    (["train", "mnist-mlp", "--optimizer", "adam", "--momentum", "0.9"], "adam: no parameter 'momentum'"),
    (["train", "mnist-mlp", "--resume"], "--resume: needs --out RUNDIR, the run to go on with"),
    (["predict"], "run is required"),
    (["data", "get", "imagenet"], "imagenet not in {"),
    (["completion", "tcsh"], "tcsh not in {bash,zsh,fish}"),
    (["models", "--summary", "vgg"], "vgg not in {"),
])
def test_wrong_usage_is_two(lockstep, words, complaint):
    outcome = lockstep.run(*words, status=2)
    assert complaint in outcome.complaint
    assert outcome.out == ""
    assert list(lockstep.folder.iterdir()) == []


def test_a_run_folder_that_exists_is_refused_and_untouched(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    before = sorted((p, p.stat().st_mtime_ns) for p in (lockstep.folder / "run").rglob("*"))
    outcome = lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=1)
    assert "run: " in outcome.complaint
    assert sorted((p, p.stat().st_mtime_ns) for p in (lockstep.folder / "run").rglob("*")) == before


def test_checkpoints_that_cannot_be_written_are_refused_before_the_first_step(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    checkpoints = lockstep.folder / "run" / "checkpoints"
    shutil.rmtree(checkpoints)
    checkpoints.write_text("no folder")
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", status=1)
    assert "run/checkpoints: checkpoints cannot be written there" in outcome.complaint


def test_a_model_that_cannot_be_saved_is_a_failure_and_its_result_is_told(lockstep):
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--steps", 100000,
                             "--out", "run", "--json", "--quiet")
    wait_until(lambda: steps_done(lockstep.folder / "run") >= 3)
    checkpoints = lockstep.folder / "run" / "checkpoints"
    checkpoints.rename(lockstep.folder / "moved")
    checkpoints.write_text("no folder")
    process.send_signal(signal.SIGTERM)
    told, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert re.search("run: the last step is not saved: checkpoint of step [0-9]+ is not written",
                     errors), errors
    assert "params_sha256" in told


def test_a_configuration_that_nobody_can_run_is_corrupt(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    config = lockstep.folder / "run" / "config.json"
    config.write_text(config.read_text().replace('"global_batch": 128', '"global_batch": 0'))
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", status=1)
    assert "config.json: is not a run's configuration: " in outcome.complaint


def change_config(lockstep, change):
    config = lockstep.folder / "run" / "config.json"
    settings = json.loads(config.read_text())
    change(settings)
    config.write_text(json.dumps(settings))


@pytest.mark.parametrize("change, what", [
    (lambda settings: settings.pop("shards"), "no 'shards'"),
    (lambda settings: settings.update(seed="x"), "'seed' is \"x\""),
])
def test_a_key_that_is_missing_or_of_another_type_is_named(lockstep, change, what):
    lockstep.train("mnist-mlp", "--steps", 1, "--out", "run", status=0)
    change_config(lockstep, change)
    for words in (["train", "mnist-mlp", "--resume", "--out", "run"], ["eval", "run"]):
        complaint = lockstep.run(*words, status=1).complaint
        assert complaint.endswith(f"run/config.json: is not a run's configuration: {what}")


def test_a_run_from_before_some_options_goes_on_without_them(lockstep):
    def remove(settings):
        for key in ("dropout", "kvstore", "algorithm", "compression"):
            settings.pop(key)
    first = lockstep.train("mnist-mlp", "--steps", 2, "--out", "run").json
    change_config(lockstep, remove)
    for words in ([], ["--workers", 2], ["--algorithm", "tree"]):
        resumed = lockstep.train("mnist-mlp", "--resume", "--out", "run", *words).json
        assert resumed["params_sha256"] == first["params_sha256"]
    outcome = lockstep.train("mnist-mlp", "--resume", "--out", "run", "--algorithm", "ring",
                             status=1)
    assert 'algorithm was "tree", now "ring"' in outcome.complaint


def test_more_epochs_than_can_be_counted_leave_no_folder(lockstep):
    outcome = lockstep.train("mnist-mlp", "--epochs", 2**63 - 1, "--out", "run", status=2)
    assert "--epochs 9223372036854775807: too many to count their steps" in outcome.complaint
    assert not (lockstep.folder / "run").exists()


def test_a_run_too_short_for_every_change_of_the_rate_runs(lockstep):
    for steps in (1, 2, 4):
        lockstep.train("mnist-mlp", "--schedule", "steps", "--steps", steps, "--out", f"run{steps}",
                       status=0)


def test_more_threads_than_there_is_work_are_no_harm(lockstep):
    row = lockstep.train("mnist-mlp", "--steps", 2, "--threads", 100000, "--out", "run").json
    assert row["threads"] == row["shards"], "what was used"


def test_another_configuration_names_what_differs(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--seed", 5,
                           "--global-batch", 64, status=1)
    assert "seed" in outcome.complaint and "global_batch" in outcome.complaint
    assert "64" in outcome.complaint and "128" in outcome.complaint
    lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--threads", 3, status=0)


def test_nothing_to_resume_or_to_evaluate(lockstep):
    assert "nowhere" in lockstep.run("train", "mnist-mlp", "--resume", "--out", "nowhere",
                                     status=1).complaint
    assert "nowhere" in lockstep.run("eval", "nowhere", status=1).complaint
    assert "nowhere" in lockstep.run("predict", "nowhere", "x.png", status=1).complaint
    assert list(lockstep.folder.iterdir()) == []


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(lockstep):
    outcome = lockstep.train("mnist-mlp", "--steps", 50, "--learning-rate", "1e30", "--schedule",
                             "constant", "--warm-up", "0", "--checkpoint-every", 1, "--out", "run",
                             status=1)
    assert "step" in outcome.complaint
    lockstep.run("eval", "run", status=0)


@pytest.mark.parametrize("shell", [True, False])
@pytest.mark.parametrize("words,status", [
    (["--nonsense"], 2), (["train", "no-such-recipe"], 2), (["eval", "no-such-run"], 1),
    (["train", "mnist-mlp", "--data", "synthetic", "--steps", "1", "--threads", "1"], 0),
    (["launch", "--workers", "2", "--", "false"], 1), (["--help"], 1)])
def test_errors_that_nobody_can_read_change_no_exit_status(lockstep, words, status, shell):
    """--help: its own output goes nowhere either. A shell lets SIGPIPE end programs."""
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.run([PROGRAM, *words], cwd=lockstep.folder, restore_signals=shell,
                             stderr=theirs, timeout=60,
                             stdout=theirs if words == ["--help"] else subprocess.DEVNULL)
    os.close(theirs)
    assert process.returncode == status


@pytest.mark.parametrize("words", ["models --help", "train --help"])  # the latter fills buffers
def test_a_reader_that_has_enough_hears_no_complaint(lockstep, words):
    process = subprocess.run(["sh", "-c", f"(sleep 0.3; exec {PROGRAM} {words}) | true"],
                             timeout=60, capture_output=True, text=True)
    assert process.stderr == ""


def test_output_that_cannot_be_written_is_a_failure(lockstep):
    process = lockstep.run_without_space("--help")
    assert process.returncode == 1
    assert process.stderr.startswith("lockstep: standard output: cannot be written")


def idx(dtype, *shape, fill=0, count=None):
    size = 1
    for extent in shape:
        size *= extent
    return (bytes([0, 0, dtype, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
            + bytes([fill]) * (size if count is None else count))


def write_mnist(folder, **replaced):
    folder.mkdir()
    files = {"train-images-idx3-ubyte": idx(8, 64, 28, 28), "train-labels-idx1-ubyte": idx(8, 64),
             "t10k-images-idx3-ubyte": idx(8, 16, 28, 28), "t10k-labels-idx1-ubyte": idx(8, 16)}
    files.update({name.replace("_", "-"): contents for name, contents in replaced.items()})
    for name, contents in files.items():
        if contents is not None:
            (folder / name).write_bytes(contents)


def train_on_files(lockstep, **how):
    return lockstep.run("train", "mnist-mlp", "--data", "mnist", "--steps", 2, "--global-batch", 16,
                        "--json", "--out", "run", **how)


def test_files_of_a_folder_are_read_plain_or_gzip(lockstep):
    packed = gzip.compress(idx(8, 64, 28, 28))
    write_mnist(lockstep.folder / "mnist", train_images_idx3_ubyte=packed)
    assert train_on_files(lockstep).json["test_accuracy"] >= 0


@pytest.mark.parametrize("replaced,names", [
    ({"train_images_idx3_ubyte": None}, ["train-images-idx3-ubyte"]),
    ({"train_images_idx3_ubyte": idx(8, 64, 28, 28, count=1000)}, ["train-images-idx3-ubyte"]),
    ({"train_labels_idx1_ubyte": b"\x01\x02\x08\x01" + b"\0" * 68}, ["train-labels-idx1-ubyte"]),
    ({"train_labels_idx1_ubyte": idx(8, 63)}, ["63", "64"]),
    ({"t10k_labels_idx1_ubyte": idx(8, 16, fill=10)}, ["t10k-labels-idx1-ubyte", "10"]),
    ({"train_images_idx3_ubyte": gzip.compress(idx(8, 64, 28, 28))[:-20]},
     ["train-images-idx3-ubyte"]),
    ({"train_images_idx3_ubyte": idx(8, 64, 20, 20)}, ["20", "28"]),
])
def test_bad_files_are_named_and_leave_no_run(lockstep, replaced, names):
    write_mnist(lockstep.folder / "mnist", **replaced)
    outcome = train_on_files(lockstep, status=1)
    for name in names:
        assert name in outcome.complaint
    assert not (lockstep.folder / "run").exists()


def test_a_data_folder_that_is_not_there_is_named(lockstep):
    outcome = train_on_files(lockstep, status=1)
    assert "mnist" in outcome.complaint and not (lockstep.folder / "run").exists()


@pytest.mark.parametrize("recipe,file", [("cifar-cnn", "data_batch_1.bin"),
                                         ("mnist-mlp", "train-images-idx3-ubyte")])
def test_a_folder_without_images_says_what_is_expected(lockstep, recipe, file):
    (lockstep.folder / "images" / "cats").mkdir(parents=True)
    outcome = lockstep.run("train", recipe, "--data", "images", "--out", "run", status=1)
    assert "train/CLASS/*.png" in outcome.complaint and file in outcome.complaint
    (lockstep.folder / "images" / "train").mkdir()
    outcome = lockstep.run("train", recipe, "--data", "images", "--out", "run", status=1)
    assert "images/train: has no folder in it, expected one for each class" in outcome.complaint


def test_fewer_samples_than_a_batch(lockstep):
    write_mnist(lockstep.folder / "mnist")
    outcome = lockstep.run("train", "mnist-mlp", "--data", "mnist", "--out", "run", status=1)
    assert "64 samples" in outcome.complaint and "128" in outcome.complaint
    assert "--global-batch 64 or less" in outcome.complaint
    assert not (lockstep.folder / "run").exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder],
            capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_damages_no_checkpoint(lockstep, small_disk):
    words = ["--steps", 40, "--checkpoint-every", 5, "--keep", 2, "--out", small_disk / "run"]
    lockstep.train("mnist-mlp", "--steps", 40, "--checkpoint-every", 5, "--keep", 2, "--out", "all",
                   status=0)
    process = lockstep.start("train", "mnist-mlp", "--data", "synthetic", "--quiet", *words)
    while not list(small_disk.glob("run/checkpoints/*.ckpt")) and process.poll() is None:
        pass
    try:
        with open(small_disk / "filler", "wb") as filler:
            while True:
                filler.write(b"x" * 65536)
                filler.flush()
    except OSError:
        pass
    process.communicate(timeout=60)
    lockstep.run("eval", small_disk / "run", status=0)
