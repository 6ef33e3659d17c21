# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib and mx.contrib, and modules by the names of MXNet's files."""

import os
import subprocess
import sys

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd

_contrib = gluon.contrib.rnn


def test_cells_on_pictures_are_their_dense_kin_for_a_kernel_of_one(rng):
    x = nd.array(rng.normal(size=(2, 3, 5)))
    for kind in ("RNN", "LSTM", "GRU"):
        cell = getattr(_contrib, f"Conv1D{kind}Cell")((3, 5), 4, 1, 1)
        dense = getattr(gluon.rnn, f"{kind}Cell")(4, input_size=3)
        for each in (cell, dense):
            each.initialize(mx.init.Normal(0.5))
        for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
            theirs = getattr(cell, name).data()
            getattr(dense, name).set_data(theirs.reshape(getattr(dense, name).shape))
        states = [nd.array(rng.normal(size=s["shape"])) for s in cell.state_info(2)]
        output, after = cell(x, states)

        def pixels(array):
            return array.transpose((0, 2, 1)).reshape((-1, array.shape[1]))

        expected, others = dense(pixels(x), [pixels(s) for s in states])
        for one, other in zip([output, *after], [expected, *others]):
            np.testing.assert_allclose(pixels(one).asnumpy(), other.asnumpy(), atol=1e-5)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_cells_on_pictures_keep_the_states_extents(dims):
    cell = getattr(_contrib, f"Conv{dims}DLSTMCell")((0,) + (8,) * dims, 6, 3, 5, i2h_dilate=2)
    cell.initialize()
    assert cell.prefix.startswith("conv_lstm")
    steps = nd.random.normal(shape=(2, 3, 2) + (8,) * dims)
    with autograd.record():
        outputs, states = cell.unroll(3, steps, layout="NTC" + "DHW"[-dims:], merge_outputs=True)
        outputs.sum().backward()
    assert outputs.shape == (2, 3, 6) + (4,) * dims
    assert [s.shape for s in states] == [(2, 6) + (4,) * dims] * 2
    assert cell.i2h_weight.shape == (24, 2) + (3,) * dims
    assert float(cell.h2h_weight.grad().abs().sum().asscalar()) > 0
    with pytest.raises(AssertionError, match="odd"):
        getattr(_contrib, f"Conv{dims}DRNNCell")((2,) + (8,) * dims, 6, 3, 2)


def test_a_cell_is_unrolled_as_far_as_its_inputs_go():
    cell = gluon.rnn.GRUCell(4, input_size=3)
    cell.initialize()
    x, lengths = nd.random.normal(shape=(5, 2, 3)), nd.array([2, 5])
    outputs, states = _contrib.dynamic_unroll(cell, x, cell.begin_state(2), valid_length=lengths)
    expected, others = cell.unroll(5, x, cell.begin_state(2), "TNC", True, lengths)
    assert outputs.shape == (5, 2, 4) and (outputs == expected).asnumpy().all()
    assert (states[0] == others[0]).asnumpy().all()
    with autograd.record():
        dropped, _ = _contrib.dynamic_unroll(cell, x, cell.begin_state(2), drop_outputs=0.5)
    gone = (dropped == 0).asnumpy()
    assert gone.any() and (gone == gone[:1]).all()


def test_modules_are_imported_by_the_names_of_mxnets_files():
    script = """
import mxnet as mx
from mxnet.io.io import DataDesc
from mxnet.image.detection import ImageDetIter
from mxnet.module.base_module import BaseModule
from mxnet.gluon.contrib.rnn.conv_rnn_cell import Conv2DLSTMCell
from mxnet.gluon.contrib.nn.basic_layers import SyncBatchNorm
from mxnet.gluon.contrib.data.sampler import IntervalSampler
from mxnet.gluon.model_zoo.vision.vgg import vgg11
from mxnet.kvstore.base import KVStoreBase
from mxnet.optimizer.optimizer import SGD, Optimizer
from mxnet.ndarray.utils import load, save
import mxnet.rnn.io
assert mx.rnn.io.encode_sentences is mx.rnn.encode_sentences and DataDesc is mx.io.DataDesc
try:
    import mxnet.io.none
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-m", "lockstep.mxnet", "-c", script],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "mxnet.io.none" in done.stdout
