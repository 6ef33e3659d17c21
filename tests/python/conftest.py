# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""

import os
import pathlib

import numpy as np
import pytest

SEED = int(os.environ.get("SEED", "0")) or int.from_bytes(os.urandom(4), "little")


def pytest_report_header(config):
    return f"SEED={SEED}"


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def program():
    """The program lockstep."""
    return os.environ["LOCKSTEP"]


@pytest.fixture(scope="session")
def root():
    return pathlib.Path(__file__).resolve().parents[2]
