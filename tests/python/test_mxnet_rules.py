# SPDX-License-Identifier: Apache-2.0
"""Update rules: their rates, what a Trainer keeps between steps, and rules as ops."""

import warnings

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep.mxnet import autograd, gluon, nd, sym


def parameter(value=0.0, **options):
    made = gluon.Parameter("w", shape=(1,), **options)
    made.initialize(mx.init.Constant(value))
    return made


def step(trainer, parameters, gradient=1.0, batch=1, **options):
    """One step of a loss with this gradient; the first parameter's value."""
    parameters = parameters if isinstance(parameters, list) else [parameters]
    with autograd.record():
        loss = sum((p.data() * gradient).sum() for p in parameters)
    loss.backward()
    trainer.step(batch, **options)
    return parameters[0].data().asnumpy()[0]


def mxnet_adam(gradients, w=0.0, lr=0.001, wd=0.0, clip=np.inf, epsilon=1e-8):
    mean = square = 0.0
    for t, gradient in enumerate(gradients, 1):
        g = np.clip(gradient + wd * w, -clip, clip)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        rate = lr * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        w -= rate * mean / (np.sqrt(square) + epsilon)
    return w


# Rates.


@pytest.mark.parametrize("rule", ["sgd", "nag", "sgld", "dcasgd", "adagrad", "adadelta", "ftml",
                                  "ftrl", "lars", "lbsgd"])
def test_a_schedule_keeps_its_rate_where_the_rule_names_none(rule):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule = mx.lr_scheduler.FactorScheduler(100, 0.5, base_lr=0.5)
        assert mx.optimizer.create(rule, lr_scheduler=schedule).learning_rate == 0.5


def test_trainers_and_modules_step_by_the_schedules_rate():
    schedule = mx.lr_scheduler.FactorScheduler(100, 0.5, base_lr=0.5)
    p = parameter()
    assert step(gluon.Trainer([p], "sgd", {"lr_scheduler": schedule}), p) == -0.5
    loss = sym.MakeLoss(sym.broadcast_mul(sym.var("data"), sym.var("w_weight", shape=(1,))))
    module = mx.mod.Module(loss, label_names=[])
    module.bind([("data", (1,))])
    module.init_params(mx.init.Zero())
    module.init_optimizer(optimizer_params={"lr_scheduler": schedule})
    module.forward(mx.io.DataBatch([nd.ones((1,))]), is_train=True)
    module.backward()
    module.update()
    assert module.get_params()[0]["w_weight"].asscalar() == -0.5


def test_a_rate_that_overrides_a_schedules_is_told_and_is_its_base_alone():
    schedule = mx.lr_scheduler.FactorScheduler(100, 0.5, base_lr=0.5)
    with pytest.warns(UserWarning, match="has been overwritten by ``learning_rate``"):
        rule = mx.optimizer.Adam(lr_scheduler=schedule)
    assert rule.learning_rate == 0.001
    # A cosine goes on from the rate that it was made with.
    cosine = mx.lr_scheduler.CosineScheduler(100, base_lr=0.5)
    with pytest.warns(UserWarning):
        rule = mx.optimizer.Adam(lr_scheduler=cosine)
    assert cosine.base_lr == 0.001 and rule.learning_rate == 0.5


def test_a_schedule_may_be_a_function():
    p = parameter()
    assert step(gluon.Trainer([p], "sgd", {"lr_scheduler": lambda update: 2.0 * update}), p) == -2


# What is kept between steps.


@pytest.mark.parametrize("rule", ["sgd", "adam", "rmsprop"])
def test_parameters_that_are_trained_later_are_updated_from_then_on(rule):
    first, second = parameter(), parameter(grad_req="null")
    trainer = gluon.Trainer([first, second], rule, {"learning_rate": 0.125})
    for _ in range(3):
        step(trainer, first)
    second.grad_req = "write"
    step(trainer, [first, second])
    alone = parameter()
    expected = step(gluon.Trainer([alone], rule, {"learning_rate": 0.125}), alone)
    assert expected != 0
    np.testing.assert_allclose(second.data().asnumpy()[0], expected, rtol=1e-5)


def test_momentum_stays_when_the_rule_is_changed_between_steps():
    p = parameter()
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.9})
    step(trainer, p)
    np.testing.assert_allclose(step(trainer, p), -2.9, rtol=1e-6)
    trainer.optimizer.momentum = 0.5
    np.testing.assert_allclose(step(trainer, p), -4.85, rtol=1e-6)  # m = .5 * -1.9 - 1
    trainer.optimizer.wd = 0.1
    np.testing.assert_allclose(step(trainer, p), -4.85 - 0.975 - 1 + 0.485, rtol=1e-6)


def test_decay_and_clipping_change_between_steps_and_states_stay():
    p = parameter(1.0)
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    w, m = 1.0, 0.0
    for decay, limit in ((0.0, None), (0.25, None), (0.25, 0.5), (0.0, 0.25), (0.0, None)):
        trainer.optimizer.wd, trainer.optimizer.clip_gradient = decay, limit
        m = 0.5 * m - (min(1.0, limit or 1.0) + decay * w)
        w += m
        np.testing.assert_allclose(step(trainer, p), w, rtol=1e-6)


def test_momentum_is_of_steps_so_that_a_new_rate_counts_from_the_next_gradient_on():
    p = parameter()
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.9})
    step(trainer, p)
    trainer.set_learning_rate(0.1)
    np.testing.assert_allclose(step(trainer, p), -1 - 0.9 - 0.1, rtol=1e-6)
    p.lr_mult = 2.0
    np.testing.assert_allclose(step(trainer, p), -2 - 0.9 - 0.2, rtol=1e-6)


def test_states_stay_when_a_parameters_contents_are_made_anew():
    for change in (lambda p: p.reset_ctx(mx.cpu()), lambda p: p.cast("float64"),
                   lambda p: p.initialize(mx.init.Zero(), force_reinit=True)):
        p = parameter()
        trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
        step(trainer, p)
        change(p)
        before = p.data().asnumpy()[0]
        np.testing.assert_allclose(step(trainer, p) - before, -1.5, rtol=1e-6)


def test_short_parameters_keep_their_float32_copy_when_the_rule_goes_on_on_arrays():
    for dtype in ("float16", "bfloat16"):
        p = parameter(1.0, dtype=dtype)
        trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1e-4, "momentum": 0.5})
        for _ in range(3):
            step(trainer, p)
        trainer.set_learning_rate(2e-4)
        w, m = np.float64(1.0), 0.0
        for i in range(43):
            m = 0.5 * m - (1e-4 if i < 3 else 2e-4)
            w += m
        for _ in range(40):
            last = step(trainer, p)
        np.testing.assert_allclose(np.float32(last), w, atol=0.004)


def test_adam_counts_updates_of_each_parameter():
    a, b = parameter(), parameter()
    trainer = gluon.Trainer([a, b], "adam", {"learning_rate": 0.1})
    step(trainer, [a, b], 2.0)
    step(trainer, a, 2.0, ignore_stale_grad=True)  # b has no new gradient: skipped
    step(trainer, [a, b], -1.0)
    np.testing.assert_allclose(a.data().asscalar(), mxnet_adam([2, 2, -1], lr=0.1), rtol=1e-5)
    np.testing.assert_allclose(b.data().asscalar(), mxnet_adam([2, -1], lr=0.1), rtol=1e-5)


def test_a_step_leaves_gradients_as_they_are():
    for grad_req in ("write", "add"):
        p = parameter(grad_req=grad_req)
        trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "rescale_grad": 0.5})
        assert step(trainer, p, 3.0, batch=2) == -0.75
        assert p.grad().asscalar() == 3.0
        step(trainer, p, 3.0, batch=1.5)
        assert p.grad().asscalar() == (6.0 if grad_req == "add" else 3.0)


def test_adam_clips_the_gradient_with_its_decay():
    gradients = [3.0, -0.25, 0.5]
    p = parameter(4.0)
    trainer = gluon.Trainer([p], "adam", {"learning_rate": 0.1, "wd": 0.5, "clip_gradient": 1.0})
    for gradient in gradients:
        step(trainer, p, gradient)
    expected = mxnet_adam(gradients, 4.0, lr=0.1, wd=0.5, clip=1.0)
    np.testing.assert_allclose(p.data().asscalar(), expected, rtol=1e-5)
    late = parameter(4.0)
    trainer = gluon.Trainer([late], "adam", {"learning_rate": 0.1, "clip_gradient": 1.0})
    step(trainer, late, 0.0)
    trainer.optimizer.wd = 0.5
    for gradient in gradients:
        step(trainer, late, gradient)
    mean = square = 0.0
    w = 4.0
    for t, gradient in enumerate(gradients, 2):
        g = np.clip(gradient + 0.5 * w, -1, 1)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        w -= 0.1 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * mean / np.sqrt(square)
    np.testing.assert_allclose(late.data().asscalar(), w, rtol=1e-5)


def test_states_of_either_form_are_read(tmp_path):
    """The engine's file, and the pickle of a trainer whose rate has changed."""
    trained = []
    for changes in (False, True):
        p, path = parameter(), str(tmp_path / "states")
        trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
        step(trainer, p)
        if changes:
            trainer.save_states(str(tmp_path / "engine"))
            trainer.set_learning_rate(0.5)
            step(trainer, p)
        trainer.save_states(path)
        other = parameter()
        resumed = gluon.Trainer([other], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
        resumed.load_states(path)
        trained.append(step(resumed, other))
    np.testing.assert_allclose(trained, [-1.5, -1.0], rtol=1e-6)
    trainer.load_states(str(tmp_path / "engine"))
    trainer.set_learning_rate(1.0)
    before = p.data().asscalar()
    np.testing.assert_allclose(step(trainer, p) - before, -1.5, rtol=1e-6)


def test_a_store_with_a_trainer_updates_a_scripts_own_keys_by_the_same_rule():
    store, weight = mx.kv.create("local"), parameter()
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 0.5}, kvstore=store)
    assert step(trainer, weight) == -0.5
    store.init(9, nd.ones((2,)))
    store.push(9, nd.ones((2,)))
    value = nd.zeros((2,))
    store.pull(9, out=value)
    assert value.asnumpy().tolist() == [0.5, 0.5]
    assert step(trainer, weight) == -1.0


def test_adamax_divides_by_the_largest_gradient_alone():
    weight = nd.array([1.0, 1.0, 1.0])
    rule = mx.optimizer.Adamax(learning_rate=0.5)
    state = rule.create_state(0, weight)
    for _ in range(2):
        rule.update(0, weight, nd.array([0.0, 1e-9, -2.0]), state)
    # Whatever its size, the first gradients of one sign are a step of the rate each.
    np.testing.assert_allclose(weight.asnumpy(), [1.0, 0.0, 2.0], atol=1e-2)


# Servers.


def test_servers_are_told_a_rule_that_they_can_keep():
    told = []

    class Servers:
        def set_optimizer(self, rule, rescale):
            told.append((rule.name, rule.learning_rate, rescale))

    store = mx.kvstore.AsyncKVStore.__new__(mx.kvstore.AsyncKVStore)
    store._store = Servers()
    create = mx.optimizer.create
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.set_optimizer(create("sgd", learning_rate=0.5, rescale_grad=0.25, momentum=0.5,
                                   param_idx2name={0: "a_bias"}))
    assert told == [("sgd", 0.5, 0.25)]
    with pytest.raises(mx.MXNetError, match="expected no lr_scheduler"):
        store.set_optimizer(create("sgd", lr_scheduler=mx.lr_scheduler.FactorScheduler(10)))
    with pytest.raises(mx.MXNetError, match="expected no lr_mult"):
        store.set_optimizer(create("sgd", param_dict={0: parameter(lr_mult=2.0)}))
    with pytest.warns(UserWarning, match="wd_mult is not seen there"):
        store.set_optimizer(create("sgd", wd=0.5, param_idx2name={0: "a_bias"}))
    with pytest.raises(mx.MXNetError, match="do not know the rule Adam with these options"):
        store.set_optimizer(create("adam", wd=0.5, clip_gradient=1.0))
    assert len(told) == 2


# Rules by layer and for large batches.


def updated(rule, index, weight, gradients):
    weight = nd.array(weight)
    state = rule.create_state(index, weight)
    for gradient in gradients:
        rule.update(index, weight, nd.array(gradient), state)
    return weight.asnumpy()


def test_lars_has_a_rate_for_each_weight_and_leaves_biases_alone():
    names = {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma", 3: "bn_beta"}
    rule = mx.optimizer.LARS(learning_rate=2.0, eta=0.1, eps=0.5, wd=0.25, rescale_grad=0.5,
                             momentum_correction=True, param_idx2name=names)
    w, g = np.array([3.0, 4.0]), np.array([0.0, 4.0])
    rate = 2.0 * 0.1 * 5 / (2 + 0.25 * 5 + 0.5)
    np.testing.assert_allclose(updated(rule, 0, w, [g]), w - rate * (g / 2 + 0.25 * w), rtol=1e-5)
    for index in (1, 2, 3):
        np.testing.assert_allclose(updated(rule, index, w, [g]), w - 2.0 * g / 2, rtol=1e-5)


def test_lars_scales_momentum_with_the_rate():
    class Halved(mx.lr_scheduler.LRScheduler):
        def __call__(self, num_update):
            return 1.0 if num_update == 1 else 0.5

    for correct, kept in ((True, 0.25), (False, 0.5)):
        rule = mx.optimizer.LARS(momentum=0.5, momentum_correction=correct, lr_scheduler=Halved(),
                                 param_idx2name={0: "a_bias"})
        made = updated(rule, 0, [0.0], [[1.0], [1.0]])
        np.testing.assert_allclose(made, [-1 + kept * -1 - 0.5], rtol=1e-6)


def test_lbsgd_steps_by_the_mean_of_several_gradients_with_a_growing_rate():
    for strategy, share in (("linear", 0.5), ("power2", 0.25), ("sqrt", 0.5 ** 0.5)):
        rule = mx.optimizer.LBSGD(learning_rate=0.5, batch_scale=4, warmup_strategy=strategy,
                                  warmup_epochs=2, updates_per_epoch=4)
        weight, gradients = [1.0], [[1.0], [2.0], [3.0], [6.0]]
        assert updated(rule, 0, weight, gradients[:3]) == [1.0]
        made = updated(rule, 1, weight, gradients)
        np.testing.assert_allclose(made, [1 - 0.5 * (1 + 3 * share) * 3], rtol=1e-6)
        made = updated(rule, 2, weight, gradients * 2)  # as many as the warm-up has
        np.testing.assert_allclose(made, [1 - 0.5 * (1 + 3 * share + 4) * 3], rtol=1e-6)


def test_lbsgd_has_a_rate_by_norms():
    p = parameter(2.0)
    trainer = gluon.Trainer([p], "lbsgd", {"learning_rate": 0.5, "warmup_strategy": "lars"})
    np.testing.assert_allclose(step(trainer, p, 8.0), 2 - 0.5 * (2 / 8) * 8, rtol=1e-6)


# Rules as ops.


def test_rules_as_ops_clip_the_decay_with_the_gradient():
    weight, gradient = nd.array([2.0]), nd.array([-0.5])  # with the decay 1.5, clipped to 1
    options = {"lr": 0.1, "wd": 1.0, "clip_gradient": 1.0}
    made = nd.adam_update(weight, gradient, nd.ones((1,)), nd.ones((1,)), **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1], rtol=1e-5)
    made = nd.rmsprop_update(weight, gradient, nd.ones((1,)), gamma1=0.75, **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1], rtol=1e-5)
    made = nd.rmspropalex_update(weight, gradient, nd.ones((1,)), nd.zeros((1,)), nd.zeros((1,)),
                                 gamma1=0.75, **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1 / np.sqrt(1 - 0.0625)], rtol=1e-5)
    made = nd.ftml_update(weight, gradient, nd.zeros((1,)), nd.ones((1,)), nd.zeros((1,)), t=1,
                          lr=0.1, wd=1.0, clip_grad=1.0)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.4 / (4 / np.sqrt(0.001))], rtol=1e-5)
    made = nd.sgd_update(weight, nd.array([3.0]), **options)
    np.testing.assert_allclose(made.asnumpy(), [2 - 0.1 * (1 + 2)], rtol=1e-6)


def test_signsgd_takes_the_sign_of_the_gradient_alone():
    made = nd.signsgd_update(nd.array([2.0]), nd.array([-0.1]), lr=0.1, wd=0.5, clip_gradient=0.01)
    np.testing.assert_allclose(made.asnumpy(), [2.0], rtol=1e-6)
