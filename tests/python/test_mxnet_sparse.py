# SPDX-License-Identifier: Apache-2.0
import pickle

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd
from lockstep.mxnet.ndarray import sparse


def step(table, trainer, rows):
    with autograd.record():
        loss = table(nd.array(rows)).sum()
    loss.backward()
    trainer.step(1)


@pytest.mark.parametrize("rule, options", [
    ("adam", {}), ("sgd", {"momentum": 0.9}), ("sgd", {"wd": 0.5}), ("adagrad", {}), ("ftrl", {})])
def test_rows_without_a_gradient_stay(rule, options):
    table = gluon.nn.Embedding(5, 2, sparse_grad=True)
    table.initialize(mx.init.One())
    trainer = gluon.Trainer(table.collect_params(), rule, {"learning_rate": 0.1, **options})
    step(table, trainer, [1])
    once = table.weight.data().asnumpy()
    step(table, trainer, [3])
    twice = table.weight.data().asnumpy()
    gradient = table.weight.grad()
    assert gradient.stype == "row_sparse" and gradient.indices.asnumpy().tolist() == [3]
    assert (once[[0, 2, 3, 4]] == 1).all() and (once[1] != 1).all()
    np.testing.assert_array_equal(twice[[0, 1, 2, 4]], once[[0, 1, 2, 4]])
    assert (twice[3] != 1).all()


def test_a_row_sparse_parameter_is_read_by_rows():
    weight = gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    weight.initialize(mx.init.One())
    rows = nd.array([0, 2])
    with pytest.raises(RuntimeError, match="row_sparse_data"):
        weight.data()
    with pytest.raises(RuntimeError, match="no Trainer"):
        weight.row_sparse_data(rows)
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 1})
    some = weight.row_sparse_data(rows)
    assert some.stype == "row_sparse" and some.asnumpy()[:, 0].tolist() == [1, 0, 1, 0]
    with autograd.record():
        picked = nd.Embedding(rows, some, input_dim=4, output_dim=2, sparse_grad=True).sum()
    picked.backward()
    trainer.step(1)
    everything = weight.row_sparse_data(nd.arange(4)).asnumpy()
    assert everything[:, 0].tolist() == [0, 1, 0, 1]
    with pytest.raises(RuntimeError, match="use data"):
        gluon.Parameter("d", shape=(2, 2)).row_sparse_data(rows)


def test_gradients_have_the_storage_of_their_arrays():
    for stype in ("default", "csr", "row_sparse"):
        x = nd.zeros((2, 2)).tostype(stype)
        x.attach_grad()
        assert x.grad.stype == stype and x.detach().stype == stype
    parts = gluon.utils.split_and_load(nd.eye(4).tostype("csr"), [mx.cpu(0), mx.cpu(0)])
    assert [part.stype for part in parts] == ["csr", "csr"]


class Halves(mx.kv.KVStoreBase):
    """Sums halves."""

    type, rank, num_workers = "halves", 0, 1

    def broadcast(self, key, value, out, priority=0):
        for array in out:
            value.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        total = sum(v.asnumpy() for v in value) / 2
        for array in out or value:
            array[:] = total


def test_a_store_of_ones_own_is_found_by_name_and_adds_gradients():
    mx.kv.KVStoreBase.register(Halves)
    weight = gluon.Parameter("w", shape=(3,))
    weight.initialize("zeros", ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 1.0}, kvstore=mx.kv.create("halves"))
    with autograd.record():
        for data in weight.list_data():
            (data * 3).backward()
    trainer.step(1)
    assert weight.data(mx.cpu(1)).asnumpy().tolist() == [-3, -3, -3]
    refused = gluon.Trainer([weight], "sgd", kvstore=mx.kv.create("teststore"),
                            update_on_kvstore=True)
    with pytest.raises(ValueError, match="update_on_kvstore=False"):
        refused.step(1)


def test_several_devices_update_in_the_store_unless_told_otherwise():
    weight = gluon.Parameter("w", shape=(3,))
    weight.initialize("zeros", ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5, "momentum": 0.5})
    with pytest.raises(AssertionError, match="update_on_kvstore"):
        trainer.allreduce_grads()
    with autograd.record():
        for data in weight.list_data():
            (data + 1).backward()
    trainer.step(1)
    assert trainer._kvstore._updater.states[0].asnumpy().tolist() == [-1, -1, -1]
    alone = gluon.Parameter("w", shape=(3,))
    alone.initialize("zeros")
    trainer = gluon.Trainer([alone], "sgd")
    trainer.allreduce_grads()
    assert trainer._kvstore is None and trainer._update_on_kvstore is None


def test_rows_are_on_their_arrays_context_and_keys_of_one_kind():
    rows = nd.eye(3).tostype("row_sparse").copyto(mx.cpu(1))
    assert rows.stype == "row_sparse" and rows.indices.context == mx.cpu(1) == rows.data.context
    store = mx.kv.create("local")
    store.init(["a", "b"], [nd.eye(3).tostype("row_sparse")] * 2)
    outs = [nd.zeros((3, 3)).tostype("row_sparse") for _ in range(2)]
    store.row_sparse_pull(["a", "b"], out=outs, row_ids=[nd.array([0]), nd.array([1, 2])])
    assert [out.indices.asnumpy().tolist() for out in outs] == [[0], [1, 2]]
    with pytest.raises(mx.MXNetError, match="all numbers or all strings"):
        store.init(3, nd.ones((2,)))


def test_arrays_that_are_values_of_several_keys_are_added_once():
    store = mx.kv.create("device")
    store.init([1, 2], [nd.zeros((2,))] * 2)
    values = [[nd.ones((2,)), nd.ones((2,))]] * 2
    store.pushpull([1, 2], values)
    assert values[0][0].asnumpy().tolist() == [2, 2]


def test_sparse_arrays_keep_their_dtype_and_storage():
    csr = sparse.csr_matrix((np.float64([1, 2]), [0, 1], [0, 1, 2]))
    rows = sparse.row_sparse_array((nd.array([[1, 2]], dtype="int32"), [1]), shape=(3, 2))
    assert csr.dtype == np.float64 and rows.dtype == np.int32
    assert sparse.csr_matrix(([1, 2], [0, 1], [0, 1, 2])).dtype == np.float32
    for array in (csr, rows):
        read = pickle.loads(pickle.dumps(array))
        assert type(read) is type(array) and (read.asnumpy() == array.asnumpy()).all()
        assert array.astype(array.dtype, copy=False) is array
    assert nd.cast_storage(nd.eye(2), "csr").stype == "csr"
    assert sparse.FullyConnected(nd.ones((1, 2)), csr.astype("float32"), no_bias=True,
                                 num_hidden=2).asnumpy().tolist() == [[1, 2]]


def test_sparse_arrays_that_cannot_be_are_refused():
    for indices, indptr in (([0, 2, 1], [0, 5, 2, 3]), ([1, 2, 1], [0, 2, 2, 4]),
                            ([0, 4, 1], [0, 1, 2, 3]), ([0, -1, 1], [0, 1, 2, 3])):
        with pytest.raises(ValueError, match="csr_matrix"):
            sparse.csr_matrix(([7, 8, 9], indices, indptr), shape=(3, 4))
    for index in (-1, 3):
        with pytest.raises(ValueError, match="expected 0 to 2"):
            sparse.row_sparse_array(([[1, 2]], [index]), shape=(3, 2))
    with pytest.raises(ValueError, match="shape is"):
        sparse.csr_matrix(nd.ones((2, 2)), shape=(3, 2))
    with pytest.raises(ValueError, match="expected 2|csr has 2"):
        nd.array([1, 2, 3]).tostype("csr")
    with pytest.raises(ValueError, match="no storage"):
        sparse.zeros("dense", (2, 2))
