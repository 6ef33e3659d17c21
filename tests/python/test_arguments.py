# SPDX-License-Identifier: Apache-2.0
"""What is said about arguments that cannot be meant: one line that names them."""
import inspect
import subprocess
import sys
import types

import numpy as np
import pytest

import lockstep as ls
from lockstep import _arguments, _core

X = np.ones((8, 4), "float32")
Y = np.zeros(8, "int64")


class Lost:
    """A callback without a method."""


def trainer(net=None, loss=None, rule=None, **options):
    return ls.Trainer(net or ls.nn.dense(2), loss or ls.nn.SoftmaxCrossEntropyLoss(),
                      rule or ls.optim.sgd(learning_rate=0.5), **{"global_batch": 4, **options})


def fit(data=(X, Y), **options):
    return trainer().fit(data, **options)


WRONG = {
    "fit: epochs must be int, got '1'": lambda: fit(epochs="1"),
    "fit: epochs must be int, got 1.5": lambda: fit(epochs=1.5),
    "fit: resume must be bool, got 'yes'": lambda: fit(resume="yes"),
    "fit: checkpoints must be str or os.PathLike, got 3": lambda: fit(checkpoints=3),
    "fit: monitor must be a metric's name or (name, maximize), got 3": lambda: fit(monitor=3),
    "Trainer.fit() got an unexpected keyword argument 'epoch'": lambda: fit(epoch=1),
    "fit: callbacks must be a list of objects": lambda: fit(callbacks=[print]),
    "got <test_arguments.Lost": lambda: fit(callbacks=[Lost()]),
    "such as [lockstep.train.on_step(function)], got 3": lambda: fit(callbacks=[3]),
    "got the class Callback": lambda: fit(callbacks=[ls.train.Callback]),
    "fit: callbacks must be a list of callbacks": lambda: fit(callbacks=ls.train.on_step(print)),
    "metrics must be a list, such as ['accuracy']": lambda: fit(metrics="accuracy"),
    "Trainer: job must be what lockstep.join_job() gives, got 3": lambda: trainer(job=3),
    "Trainer: net must be a Block, got 3": lambda: trainer(net=3),
    "Trainer: net must be a Block, got the class Block": lambda: trainer(net=ls.nn.Block),
    "Trainer: loss must be a loss of lockstep.nn": lambda: trainer(loss=3),
    "makes one: write L2Loss()": lambda: trainer(loss=ls.nn.L2Loss),
    "Trainer: optimizer must be lockstep.optim.Optimizer, got 'sgd'": lambda: trainer(rule="sgd"),
    "Trainer: global_batch must be int, got '4'": lambda: trainer(global_batch="4"),
    "Trainer: fields must be list[str], got 3": lambda: trainer(fields=3),
    "Trainer: seed is -1, out of range": lambda: trainer(seed=-1),
    "Trainer: there is no argument 'shard' (did you mean 'shards'?": lambda: trainer(shard=2),
    "Trainer: 'optimizer' is missing": lambda: ls.Trainer(ls.nn.dense(2), ls.nn.L2Loss()),
    "Trainer.evaluate: there is no argument 'rows'": lambda: trainer().evaluate((X, Y), rows=3),
    "dense: units must be int, got ndarray of shape (8, 4)": lambda: ls.nn.dense(X),
    "dense: 'units' is given twice": lambda: ls.nn.dense(2, units=2),
    "L2Loss: takes 1 argument (weight), got 3": lambda: ls.nn.L2Loss(1, 2, 3),
    "Sequential: a layer must be a Block, got 3": lambda: ls.nn.Sequential(3),
    "Block.save: path must be str or os.PathLike, got 3": lambda: ls.nn.dense(2).save(3),
    "early_stopping: patience must be int, got 'x'":
        lambda: ls.train.early_stopping(patience="x"),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_argument_is_named_in_one_line(words):
    with pytest.raises(TypeError) as error:
        WRONG[words]()
    said = str(error.value)
    assert words in said
    assert "\n" not in said and "::" not in said and "C++" not in said


@pytest.mark.parametrize("options", [{"epochs": 0}, {"epochs": -1}, {"steps": -1}])
def test_a_run_has_a_length(options):
    with pytest.raises(ls.InvalidArgument, match="expected 1 or more"):
        fit(**options)
    assert fit(epochs=0, steps=3).steps == 3


def test_float64_says_how_to_be_float32():
    with pytest.raises(ls.InvalidArgument, match=r'float64, .*; x.astype\("float32"\) converts'):
        fit((X.astype("float64"), Y))


def test_callbacks_without_a_method_yet_and_with_one_are_callbacks():
    class Own:
        seen = 0

        def on_epoch_end(self, context, event):
            self.seen += 1

    own = Own()
    fit(epochs=2, callbacks=(ls.train.Callback(), own))
    assert own.seen == 2


def test_paths_are_strings_or_pathlibs(tmp_path):
    made = trainer()
    made.fit((X, Y), checkpoints=tmp_path / "checkpoints",
             callbacks=[ls.train.record_metrics(tmp_path / "run")])
    made.net.save(tmp_path / "net.params")
    made.net.load(str(tmp_path / "net.params"))
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    assert list((tmp_path / "checkpoints").iterdir())


def functions(of, prefix):
    """pybind's functions of a module or a class, with what they are called."""
    for name, member in vars(of).items():
        if isinstance(member, types.ModuleType) and member.__name__.startswith(prefix):
            yield from functions(member, prefix)
        elif inspect.isclass(member) and member.__module__.startswith(prefix):
            yield from functions(member, prefix)
        elif inspect.isbuiltin(member) or type(member).__name__ == "instancemethod":
            if "(" in (member.__doc__ or "") and not name.startswith("__"):
                yield name, member


def test_no_function_answers_in_the_words_of_another_language():
    seen = 0
    for name, function in functions(_core, "lockstep._core"):
        try:
            function(no_such_argument_at_all=1)
        except Exception as error:
            said = str(error)
            assert not any(word in said for word in ("::", "incompatible", "\n")), (name, said)
            seen += "no_such_argument_at_all" in said or "takes (" in said
    assert seen > 100


def test_signatures_of_many_shapes_are_read():
    text = ("(self: a.B, x: Tuple[int, str] = (1, ','), *args, y: Callable[[int], str], "
            "**kwargs) -> Dict[str, int]")
    names = [(p.name, p.required) for p in _arguments._parameters(text)]
    assert names == [("self", True), ("x", False), ("*args", True), ("y", True),
                     ("**kwargs", True)]
    assert _arguments.explain("", "f", False, ["() -> None"], (1,), {}) == (
        "f: takes no argument (), got 1")
    both = ["(a: int) -> None", "(a: str, b: int) -> None"]
    assert _arguments.explain("", "f", False, both, (1.5,), {}) == "f: takes (a) or (a, b), got (1.5)"


@pytest.mark.parametrize("words, said", [
    (["missing.py"], "lockstep.mxnet: cannot read 'missing.py': no such file\n"),
    (["-m", "no.such"], "lockstep.mxnet: there is no module 'no.such'\n"),
    (["-c"], "lockstep.mxnet: -c needs code; "),
])
def test_a_script_that_is_not_there_is_one_line(words, said, tmp_path):
    done = subprocess.run([sys.executable, "-m", "lockstep.mxnet", *words], capture_output=True,
                          text=True, cwd=tmp_path, timeout=120)
    assert done.returncode != 0 and done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
