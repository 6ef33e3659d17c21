# SPDX-License-Identifier: Apache-2.0
"""Every model, number of workers, number of threads and transport: the bits of one process."""
import json
import shutil
import subprocess

import pytest

import small_data
from conftest import PROGRAM

RECIPES = list(small_data.KIND)
FEW = ["--shards", "8", "--steps", "2", "--global-batch", "8", "--quiet", "--no-report", "--json"]
SAME = ("params_sha256", "train_loss", "test_loss", "test_accuracy")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data.write_all(tmp_path_factory.mktemp("data"))


class Runs:
    """Runs of one configuration, whose results must be equal."""
    def __init__(self, folder, data):
        self.folder = folder
        self.data = data
        self.alone = {}

    def words(self, recipe, *words):
        return ["train", recipe, "--data", str(self.data[small_data.KIND[recipe]]), *FEW, "--out",
                "run", *map(str, words)]

    def run(self, command):
        process = subprocess.run(command, cwd=self.folder, text=True, capture_output=True,
                                 timeout=300)
        assert process.returncode == 0, process.stderr
        shutil.rmtree(self.folder / "run")  # resnet18's checkpoint is 90 MB
        return json.loads(process.stdout.strip().splitlines()[-1])

    def train(self, recipe, *words):
        return self.run([PROGRAM, *self.words(recipe, *words)])

    def train_by_mpirun(self, recipe, tasks, *words):
        return self.run([*MPIRUN, "-n", str(tasks), PROGRAM, *self.words(recipe, *words)])

    def check(self, recipe, workers, result):
        if recipe not in self.alone:
            self.alone[recipe] = self.train(recipe, "--workers", 1, "--threads", 1)
        assert result["workers"] == workers and result["invariant"] is True
        assert ([result[key] for key in SAME] ==
                [self.alone[recipe][key] for key in SAME]), f"{recipe}, {workers} workers"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    return Runs(tmp_path_factory.mktemp("runs"), data)


@pytest.mark.parametrize("recipe", RECIPES)
def test_workers_and_threads_change_no_bit(runs, recipe):
    for workers, threads in [(1, 3), (2, 1), (3, 2), (4, 1), (5, 1), (7, 2), (8, 1)]:
        runs.check(recipe, workers,
                   runs.train(recipe, "--workers", workers, "--threads", threads))


@pytest.mark.parametrize("transport", ["tcp", "ucx", "zmq"])
@pytest.mark.parametrize("recipe, counts", [("mnist-lenet", [2, 4, 7, 8]), ("text-lstm", [3, 5])])
def test_the_transport_changes_no_bit(runs, transport, recipe, counts):
    for workers in counts:
        runs.check(recipe, workers, runs.train(recipe, "--workers", workers, "--threads", 1,
                                               "--transport", transport))


@pytest.mark.parametrize("recipe, counts", [("mnist-lenet", [2, 4, 7, 8]), ("text-lstm", [3, 5])])
def test_mpi_changes_no_bit(runs, recipe, counts):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    for workers in counts:
        runs.check(recipe, workers, runs.train_by_mpirun(recipe, workers, "--threads", 1,
                                                         "--transport", "mpi"))


@pytest.mark.parametrize("algorithm", ["ring", "multi_ring"])
def test_rings_have_the_same_bits_for_a_number_of_workers(runs, algorithm):
    for workers in (3, 4):
        results = [runs.train("mnist-lenet", "--workers", workers, "--threads", threads,
                              "--algorithm", algorithm, "--transport", transport)
                   for threads, transport in ((1, "auto"), (2, "auto"), (1, "tcp"))]
        assert len({result["params_sha256"] for result in results}) == 1
        assert all(result["invariant"] is False for result in results)
