# SPDX-License-Identifier: Apache-2.0
import threading

import numpy as np
import pytest

import lockstep as ls
from lockstep import data


class Pairs(data.Dataset):
    def __init__(self, size=10):
        self.size = size
        self.threads = set()

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        self.threads.add(threading.get_ident())
        return np.full((2, 3), i, dtype="float32"), i


def test_a_loader_stacks_samples_of_python():
    pairs = Pairs()
    batches = list(data.Loader(pairs, batch=4))
    assert [y.tolist() for _, y in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches[1][0].shape == (4, 2, 3) and batches[1][0][3, 0, 0].item() == 7
    assert batches[0][1].dtype == "int64"
    many = Pairs(4000)  # those that wait for a batch may make one
    assert len(list(data.Loader(many, batch=4))) == 1000
    assert many.threads - {threading.get_ident()}
    kept = list(data.Loader(pairs, batch=4, last="keep"))
    assert [len(y) for _, y in kept] == [4, 4, 2] and len(data.Loader(pairs, 4, last="keep")) == 3


def test_what_a_loader_gives_depends_on_no_thread():
    def epochs(threads):
        loader = data.Loader(Pairs(), batch=3, shuffle=True, seed=5, threads=threads)
        return [[y.tolist() for _, y in loader] for _ in range(2)]

    one = epochs(1)
    assert one == epochs(2) == epochs(0) and one[0] != one[1]
    assert all(len(set(sum(epoch, []))) == 9 for epoch in one)


def test_transforms_of_python_and_of_the_engine():
    images = np.arange(2 * 4 * 4, dtype="uint8").reshape(2, 4, 4, 1)
    labels = np.array([0, 1])
    loader = data.Loader((images, labels), 2, transform=data.to_tensor([0.5], [0.5]))
    ((x, y),) = list(loader)
    np.testing.assert_allclose(x.numpy()[:, 0], (images[..., 0] / 255.0 - 0.5) / 0.5, rtol=1e-5)
    half = data.Loader((images, labels), 2, transform=lambda x: x.numpy().astype("float32") / 2)
    assert next(iter(half))[0].dtype == "float32"
    both = data.compose(data.center_crop(2, 2), data.to_tensor())
    assert both(images[0]).shape == (1, 2, 2)


def test_random_transforms_draw_by_the_samples_place():
    noise = data.random_transform(lambda x, rng: x.numpy() + rng.normal(size=x.shape).astype("f4"))
    x = np.zeros((6, 2), "float32")

    def epochs(threads):
        loader = data.Loader((x, np.arange(6)), 3, transform=noise, seed=2, threads=threads)
        return [batch[0].tolist() for batch in loader] + [batch[0].tolist() for batch in loader]

    one = epochs(1)
    assert one == epochs(2) and len({str(batch) for batch in one}) == 4


def test_samplers_of_python():
    class Backwards(data.Sampler):
        def __len__(self):
            return 4

        def epoch(self, number):
            return [3, 2, 1, 0] if number == 0 else [0, 0, 1, 1]

    loader = data.Loader(Pairs(4), 2, sampler=Backwards())
    assert [y.tolist() for _, y in loader] == [[3, 2], [1, 0]]
    assert [y.tolist() for _, y in loader] == [[0, 0], [1, 1]]


def test_errors_of_samples_come_to_whoever_asks():
    class Broken(Pairs):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("sample 5")
            return super().__getitem__(i)

    with pytest.raises(KeyError, match="sample 5"):
        list(data.Loader(Broken(), 2))
    with pytest.raises(TypeError, match="__len__"):
        data.Loader(3, 2)
    with pytest.raises(ValueError, match="batch"):
        data.Loader(Pairs(), 0)


def test_sets_are_cut_and_drawn():
    whole = data.arrays(np.arange(10, dtype="float32"), np.arange(10), class_names=["a", "b"])
    assert whole.class_names == ["a", "b"] and len(whole) == 10
    assert [y.item() for _, y in data.slice(whole, 2, 5)] == [2, 3, 4]
    first, second = data.random_split(whole, [7, 3], seed=1)
    seen = sorted(y.item() for part in (first, second) for _, y in part)
    assert seen == list(range(10))
    assert whole.batch([1, 1])[1].tolist() == [1, 1]
    with pytest.raises(IndexError):
        whole[10]


def test_a_loader_that_is_dropped_ends_its_threads():
    before = threading.active_count()
    for _ in range(5):
        loader = iter(data.Loader(Pairs(1000), 2, threads=2, prefetch=8))
        next(loader)
        del loader
    assert threading.active_count() == before


def test_metrics_by_name_and_of_python():
    assert "accuracy" in ls.metrics.metric_names()
    mean = ls.metrics.custom("gap", lambda label, prediction: (prediction - label).mean())
    mean.update(ls.zeros(2), ls.ones(2))
    mean.update(ls.zeros(2), ls.ones(2) * 3)
    assert mean.get() == ("gap", 2.0)
    mean.reset()
    assert np.isnan(mean.get()[1])


def test_batches_of_like_lengths():
    lengths = [2, 9, 3, 8, 1, 7, 2, 9, 4]
    order = data.bucket_sampler(lengths, [4, 10], batch=2, seed=1)
    assert len(order) == 8  # one of the five short ones waits for another epoch
    for epoch in range(3):
        numbers = list(order.epoch(epoch))
        assert len(set(numbers)) == 8
        for i in range(0, 8, 2):
            assert len({lengths[n] > 4 for n in numbers[i:i + 2]}) == 1
    assert list(order.epoch(0)) != list(order.epoch(1))
    texts = np.arange(9)
    batches = [x.tolist() for x, in data.Loader((texts,), batch=2, sampler=order)]
    assert [n for batch in batches for n in batch] == list(order.epoch(0))
    with pytest.raises(ValueError):
        data.bucket_sampler(lengths, [10, 4], batch=2)
    with pytest.raises(ValueError):
        data.bucket_sampler(lengths, [4, 10], batch=0)


def picture(value):
    return data.encode_png(ls.tensor(np.full((4, 5, 3), value, "uint8")))


def test_pictures_in_folders_are_a_data_set(tmp_path):
    for name, value in (("cats", 10), ("dogs", 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.png").write_bytes(picture(value))
    pictures = data.image_folder(tmp_path)
    x, y = pictures.batch([0, 1])
    assert pictures.class_names == ["cats", "dogs"] and y.tolist() == [0, 1]
    assert x.shape == (2, 4, 5, 3) and x[1].numpy().max() == 200
    (tmp_path / "dogs" / "two.png").write_bytes(picture(3)[:40])
    assert len(data.image_folder(str(tmp_path))) == 3
    with pytest.raises(ls.Corrupt):
        data.image_folder(str(tmp_path))[2]
    assert len(data.image_folder(str(tmp_path), skip_bad=True)) == 2
    (tmp_path / "eels").mkdir()
    with pytest.raises(FileNotFoundError, match="eels"):
        data.image_folder(str(tmp_path))
    assert data.image_folder(str(tmp_path), allow_empty=True).class_names[-1] == "eels"
    with pytest.raises(FileNotFoundError):
        data.image_folder(str(tmp_path / "none"))
