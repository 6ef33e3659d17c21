# SPDX-License-Identifier: Apache-2.0
"""Numbers, files, memory and machines have ends: what is beyond is refused in one clear line."""
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import zlib

import pytest

from conftest import PROGRAM

FAR = "99999999999999999999"
NUMBERS = {"N", "B", "S", "T", "K", "W", "X", "MB", "SECONDS", "N,N,..."}
WORDS = {"train": ["mnist-mlp"], "eval": ["run"], "predict": ["run"], "launch": [], "doctor": [],
         "bench comm": [], "bench messages": [], "bench ps": [],
         "bench scale": []}


def number_options(lockstep):
    """Every option of every command that takes a number, as the help shows them."""
    for command in WORDS:
        shown = lockstep.run(*command.split(), "--help", status=0).out
        for name, kind in re.findall(r"^ +(?:-\w, ?)?(--[\w-]+) ([\w,.]+)", shown, re.M):
            if kind in NUMBERS:
                yield command, name


def test_a_number_beyond_its_range_is_refused_by_every_option(lockstep):
    found = list(number_options(lockstep))
    assert ("train", "--steps") in found and ("predict", "--seed") in found and len(found) > 20
    for command, name in found:
        if command == "launch" and name == "--cpus":
            continue  # Kubernetes' own: a quantity of any size
        for value in (FAR, "-" + FAR, "nan", "12x"):
            outcome = lockstep.run(*command.split(), *WORDS[command], f"{name}={value}")
            real = name in ("--learning-rate", "--momentum", "--weight-decay", "--clip-norm",
                            "--warm-up")
            if real and value in (FAR, "-" + FAR):
                continue  # a number, if a strange one
            assert outcome.status == 2, (command, name, value, outcome.err)
            assert outcome.complaint.startswith(f"lockstep: {name}: "), (command, name, value)


@pytest.mark.parametrize("value,complaint", [
    (FAR, f"--steps: got {FAR}, expected a whole number from 1 to 9223372036854775807"),
    ("1.5", "--steps: got 1.5, expected a whole number of at least 1"),
    ("0x10", "--steps: got 0x10, expected a whole number of at least 1"),
    ("-3", "--steps: got -3, expected a whole number of at least 1"),
])
def test_what_is_expected_is_said(lockstep, value, complaint):
    assert complaint in lockstep.train("mnist-mlp", f"--steps={value}", status=2).complaint


def test_a_leading_zero_means_nothing(lockstep):
    assert lockstep.train("mnist-mlp", "--steps", "010").json["steps"] == 10


@pytest.mark.parametrize("words", [["launch", "--workers", "100000", "--", "true"],
                                   ["doctor", "--workers", "100000"],
                                   ["train", "mnist-mlp", "--workers", "100000", "--shards", "100000",
                                    "--global-batch", "100000", "--data", "synthetic"]])
def test_more_workers_than_a_machine_takes_are_refused(lockstep, words):
    outcome = lockstep.run(*words)
    assert outcome.status in (1, 2)
    assert "100000 workers on one machine, expected at most 4096" in outcome.complaint


def test_more_workers_than_the_limits_allow_are_refused(lockstep):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    outcome = lockstep.run("launch", "--workers", "1000", "--", "true", preexec_fn=limit)
    assert outcome.status == 1
    assert "1000 workers on this machine take 2032 open files, ulimit -n allows 256" \
        in outcome.complaint


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def grey_png(width, height, extra=b""):
    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(bytes(width + 1)) for _ in range(height)) + rows.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + extra + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def predict_within(lockstep, megabytes, *words):
    """Of a process and what it had at most."""
    process = subprocess.Popen([PROGRAM, "predict", "run", *map(str, words)], cwd=lockstep.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert usage.ru_maxrss < megabytes << 10, usage.ru_maxrss
    return process.returncode, out, err


def test_bombs_in_images_take_no_memory(lockstep):
    lockstep.train("mnist-lenet", "--steps", 1, "--out", "run", status=0)
    text = b"x\0\0" + zlib.compress(bytes(8_000_000), 9)
    (lockstep.folder / "text.png").write_bytes(grey_png(28, 28, 400 * chunk(b"zTXt", text)))
    assert predict_within(lockstep, 500, "text.png")[0] == 0
    (lockstep.folder / "large.png").write_bytes(grey_png(8192, 8192))
    assert predict_within(lockstep, 700, "large.png")[0] == 0
    (lockstep.folder / "huge.png").write_bytes(grey_png(8193, 8192))
    status, _, err = predict_within(lockstep, 500, "huge.png")
    assert status == 1
    assert err == ("lockstep: huge.png: image: 8193 x 8192 pixels, expected 1 to 67108864, which is "
                   "max_pixels\n")
    assert predict_within(lockstep, 700, "huge.png", "--max-pixels", 8193 * 8192)[0] == 0


def image_folder(lockstep, images):
    for kind in ("train", "test"):
        for name in ("a", "b"):
            folder = lockstep.folder / "data" / kind / name
            folder.mkdir(parents=True)
            for i in range(images):
                (folder / f"{i}.png").write_bytes(grey_png(28, 28))


def test_broken_links_and_empty_classes_are_named(lockstep):
    image_folder(lockstep, 16)
    words = ["train", "mnist-mlp", "--data", "data", "--steps", 1, "--global-batch", 16]
    (lockstep.folder / "data/train/c").mkdir()
    (lockstep.folder / "data/test/c").mkdir()
    outcome = lockstep.run(*words, status=1)
    assert outcome.complaint.endswith("data/train: a class has no .jpg, .jpeg or .png file: c")
    (lockstep.folder / "data/train/c/0.png").symlink_to("gone.png")
    outcome = lockstep.run(*words, status=1)
    assert "data/train/c/0.png: is a link to gone.png, which is not there" in outcome.complaint
    (lockstep.folder / "data/train/c/gone.png").write_bytes(grey_png(28, 28))
    outcome = lockstep.run(*words, status=0)
    assert "data/test: the class c has no images" in outcome.err


def test_what_memory_cannot_hold_is_named(lockstep):
    with open(lockstep.folder / "book.txt", "wb") as book:
        book.truncate(16 << 30)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    if lockstep.run("models", preexec_fn=limit).status != 0:
        pytest.skip("this build cannot run in so little address space")
    outcome = lockstep.run("train", "char-gpt", "--data", "book.txt", "--steps", 1, status=1,
                           preexec_fn=limit)
    assert "book.txt: there is not enough memory: " in outcome.complaint
    assert "ulimit -v is 8192 MB" in outcome.complaint
    assert "bad_alloc" not in outcome.err


def test_a_file_that_may_not_grow_is_like_a_full_disk(lockstep):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    outcome = lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", preexec_fn=limit)
    assert outcome.status == 1, outcome.err
    assert "File too large" in outcome.complaint
    assert not [path for path in lockstep.folder.rglob("*") if ".tmp" in path.name]
    assert list((lockstep.folder / "run" / "checkpoints").iterdir()) == []


def test_a_run_without_a_checkpoint_says_that_it_starts_anew(lockstep):
    first = lockstep.train("mnist-mlp", "--steps", 2, "--out", "run").json
    for path in (lockstep.folder / "run" / "checkpoints").iterdir():
        path.unlink()
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--json", status=0)
    assert "there is no checkpoint to resume; starting at step 0" in outcome.err
    assert outcome.json["params_sha256"] == first["params_sha256"]
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", "--json", status=0)
    assert "no checkpoint" not in outcome.err


def test_a_process_bound_to_one_core_has_one_thread(lockstep):
    core = min(os.sched_getaffinity(0))
    outcome = lockstep.train("mnist-mlp", "--steps", 1,
                             preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert outcome.json["threads"] == 1


class Cgroup:
    """A control group of our own, or a skipped test."""
    def __init__(self, controller, **settings):
        root = f"/sys/fs/cgroup/{controller}"
        if not os.path.exists(f"{root}/cgroup.procs"):
            root = "/sys/fs/cgroup"
        own = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
        below = next((path for _, names, path in own if controller in names.split(",")), "/")
        self.folder = f"{root}{below.rstrip('/')}/lockstep-test-{os.getpid()}"
        try:
            os.mkdir(self.folder)
            for name, value in settings.items():
                with open(f"{self.folder}/{name.replace('__', '.')}", "w") as file:
                    file.write(str(value))
        except OSError as error:
            self.close()
            pytest.skip(f"no control group of {controller} can be made here: {error}")

    def enter(self):
        with open(f"{self.folder}/cgroup.procs", "w") as file:
            file.write("0")

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            pass


def test_a_quota_of_one_core_is_one_thread(lockstep):
    group = Cgroup("cpu", cpu__cfs_period_us=100000, cpu__cfs_quota_us=100000)
    try:
        outcome = lockstep.train("mnist-mlp", "--steps", 1, preexec_fn=group.enter)
        assert outcome.json["threads"] == 1
    finally:
        group.close()


EATER = ("import os, sys, time\n"
         "if os.environ['LOCKSTEP_RANK'] == '1': kept = [bytearray(1 << 20) for _ in range(1000)]\n"
         "time.sleep(600)\n")


def test_a_worker_that_the_kernel_ends_for_want_of_memory_is_said_to_be(lockstep):
    group = Cgroup("memory", memory__limit_in_bytes=300 << 20)
    try:
        outcome = lockstep.run("launch", "--workers", 2, "--", sys.executable, "-c", EATER, status=1,
                               preexec_fn=group.enter)
    finally:
        group.close()
    assert outcome.complaint == ("lockstep: worker 1 was ended by the kernel: memory ran out; the "
                                 "control group's limit is 300 MB; the job is over")


def test_a_worker_that_somebody_kills_is_not_said_to_lack_memory(lockstep):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    outcome = lockstep.run("launch", "--workers", 1, "--", sys.executable, "-c", code, status=1)
    assert "worker 0 was ended by signal 9 (Killed)" in outcome.complaint


def test_doctor_knows_the_memory_limit(lockstep):
    group = Cgroup("memory", memory__limit_in_bytes=600 << 20)
    try:
        outcome = lockstep.run("doctor", "--workers", 2, "--json", preexec_fn=group.enter)
    finally:
        group.close()
    report = json.loads(outcome.out)
    assert {member["memory_limit"] for member in report["members"]} == {600 << 20}
    assert all(member["memory_free"] <= 600 << 20 for member in report["members"])
