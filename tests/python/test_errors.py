# SPDX-License-Identifier: Apache-2.0
import signal
import subprocess
import sys
import threading
import time

import pytest

import lockstep as ls


def test_errors_are_of_pythons_kinds(tmp_path):
    with pytest.raises(ValueError) as error:
        ls.ones((2, 3)) @ ls.ones((2, 3))
    assert isinstance(error.value, ls.InvalidArgument) and isinstance(error.value, ls.Error)
    assert str(error.value).startswith("matmul: ") and "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError):
        ls.nn.dense(2).load(str(tmp_path / "none.params"))
    with pytest.raises(LookupError, match="resnet"):
        ls.nn.models.make_model("resnet51")
    bad = tmp_path / "bad.params"
    bad.write_bytes(b"no archive at all, but long enough to have a prefix" * 4)
    with pytest.raises(ls.Corrupt):
        ls.nn.dense(2, inputs=2).load(str(bad))
    with pytest.raises(MemoryError):
        ls.zeros((2**40, 2**10), "int8")
    with pytest.raises(FileNotFoundError):
        ls.load(tmp_path / "no-run")


def test_every_kind_of_the_engine_has_a_class(root):
    names = {line.split('"')[1] for path in (root / "lockstep").rglob("*.h")
             for line in path.read_text().splitlines()
             if 'kName = "' in line or 'kind() const noexcept override { return "' in line}
    assert {"PeerLost", "InvalidArgument", "Diverged"} <= names
    for name in names:
        assert issubclass(getattr(ls, name), ls.Error), name


def test_a_lost_peer_says_which(root):
    error = ls.PeerLost("worker 3 on node7 is gone")
    assert error.rank == -1 and isinstance(error, ConnectionError)
    assert str(error) == "worker 3 on node7 is gone"


def test_threads_run_while_an_op_computes():
    a = ls.ones((900, 900))
    ticks, done = [], threading.Event()

    def work():
        for _ in range(10):
            a @ a
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        ticks.append(time.perf_counter())
    thread.join()
    assert len(ticks) > 3


STOPPED = """
import numpy as np, lockstep as ls, sys
x = np.ones((512, 64), "float32")
y = np.zeros(512, "int64")
trainer = ls.Trainer(ls.nn.dense(4), ls.nn.SoftmaxCrossEntropyLoss(), ls.optim.sgd(learning_rate=0.1),
                     global_batch=64)
told = []
def tell(context, event):
    if event.step == 5: print("going", flush=True)
try:
    trainer.fit((x, y), epochs=10**7, callbacks=[ls.train.on_step(tell)], checkpoints=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_run_after_its_checkpoint(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path / "checkpoints")],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert out == "interrupted\n" and process.returncode == 0
    assert list((tmp_path / "checkpoints").glob("step-*.ckpt"))


def test_import_is_quick_and_starts_no_thread():
    # The processor's time: others may be using it.
    code = ("import time, threading, os; b = time.process_time(); import lockstep; "
            "print(time.process_time() - b, len(os.listdir('/proc/self/task')))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         check=True).stdout.split()
    assert float(out[0]) < 0.5 and out[1] == "1"


class Outer(ls.nn.Block):
    """A net in Python, of Python's and the engine's blocks."""

    def __init__(self, inner):
        super().__init__()
        self.body = inner

    def forward(self, x):
        return self.body(x)


def failing_layers():
    conv, reshape = ls.nn.conv2d(3, 3), ls.nn.lambda_(lambda x: x.reshape((7,)))
    hooked = ls.nn.dense(3)
    hooked.register_forward_hook(lambda block, inputs, outputs: [outputs[0] @ ls.ones((9, 2))])
    return {"conv2d": conv, "reshape": reshape, "matmul": hooked}


@pytest.mark.parametrize("op", failing_layers())
@pytest.mark.parametrize("how", ["called", "recorded", "hybridized", "trained"])
def test_an_error_says_where_in_a_net_of_python_it_happened(op, how):
    layer = failing_layers()[op]
    net = Outer(Outer(ls.nn.sequential(ls.nn.dense(4), layer)))
    net.initialize()
    x, y = ls.ones((4, 6)), ls.zeros((4,), "int64")
    with pytest.raises(ls.InvalidArgument) as error:
        if how == "hybridized":
            net.hybridize()
        if how == "trained":
            ls.Trainer(net, ls.nn.SoftmaxCrossEntropyLoss(), ls.optim.sgd(),
                       global_batch=4).fit((x, y))
        elif how == "recorded":
            with ls.autograd.record():
                net(x)
        else:
            net(x)
    text = str(error.value)
    assert text.startswith("body.body.1 (") and text.count("body.body.1") == 1, text
    assert f": {op}: " in text


def test_an_exception_of_pythons_goes_through_blocks_as_it_is():
    net = Outer(ls.nn.sequential(ls.nn.lambda_(lambda x: {}["key"])))
    with pytest.raises(KeyError) as error:
        net(ls.ones((2, 2)))
    assert error.value.args == ("key",)
