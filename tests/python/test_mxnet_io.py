# SPDX-License-Identifier: Apache-2.0
import gzip
import json
import pickle
import random
import struct

import numpy as np
import pytest

import lockstep.mxnet as mx
from lockstep import errors
from lockstep.mxnet import nd, recordio
from lockstep.mxnet._record_aug import RecordAug

MAGIC = struct.pack("<I", 0xCED7230A)


def chunk(flag, data):
    return MAGIC + struct.pack("<I", flag << 29 | len(data)) + data + bytes(-len(data) % 4)


def test_records_are_written_byte_for_byte_and_magics_inside_are_cut(tmp_path):
    path = str(tmp_path / "x.rec")
    with recordio.MXRecordIO(path, "w") as file:
        file.write(b"hello")
        file.write(b"abcd" + MAGIC + b"efgh" + MAGIC)
        file.write(b"a" + MAGIC + b"z")  # not at a multiple of 4: it stays
        file.write(MAGIC)
        file.write("text")
        file.write(b"")
    expected = (chunk(0, b"hello") + chunk(1, b"abcd") + chunk(2, b"efgh") + chunk(3, b"")
                + chunk(0, b"a" + MAGIC + b"z") + chunk(1, b"") + chunk(3, b"") + chunk(0, b"text")
                + chunk(0, b""))
    assert open(path, "rb").read() == expected
    file = recordio.MXRecordIO(path, "r")
    assert [file.read() for _ in range(7)] == [
        b"hello", b"abcd" + MAGIC + b"efgh" + MAGIC, b"a" + MAGIC + b"z", MAGIC, b"text", b"", None]
    file.reset()
    assert file.read() == b"hello"


def test_any_records_come_back(tmp_path, rng):
    path = str(tmp_path / "x.rec")
    records = []
    for _ in range(200):
        words = [MAGIC if rng.random() < 0.3 else rng.bytes(4) for _ in range(rng.integers(0, 9))]
        records.append(b"".join(words) + rng.bytes(rng.integers(0, 4)))
    with recordio.MXRecordIO(path, "w") as file:
        for record in records:
            file.write(record)
    file = recordio.MXRecordIO(path, "r")
    for record in records:
        assert file.read() == record
    assert file.read() is None


def test_the_index_finds_records_in_any_order(tmp_path):
    paths = str(tmp_path / "x.idx"), str(tmp_path / "x.rec")
    file = recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(20):
        file.write_idx(i * 3, b"record %d" % i)
    file.close()
    assert open(paths[0]).readline() == "0\t0\n"
    file = recordio.MXIndexedRecordIO(*paths, "r")
    assert file.keys == list(range(0, 60, 3))
    for i in np.random.default_rng(0).permutation(20):
        assert file.read_idx(i * 3) == b"record %d" % i
    again = pickle.loads(pickle.dumps(file))
    assert again.read_idx(6) == b"record 2"
    with pytest.raises(KeyError, match="no record 1"):
        file.read_idx(1)


def test_broken_record_files_are_refused(tmp_path):
    path = tmp_path / "x.rec"
    for contents, words in (
            (b"abcdefgh", "no record begins at byte 0"), (MAGIC, "within a record's head"),
            (chunk(0, b"12345678")[:-4], "and 4 are left"), (chunk(3, b"1234"), "a later part"),
            (chunk(1, b"1234"), "lacks its last part"),
            (MAGIC + struct.pack("<I", (1 << 29) - 1), "and 0 are left")):
        path.write_bytes(contents)
        with pytest.raises(errors.Corrupt, match=words):
            recordio.MXRecordIO(str(path), "r").read()


def test_headers_of_images_are_packed():
    packed = recordio.pack(recordio.IRHeader(0, 2.0, 7, 8), b"img")
    assert packed == struct.pack("<IfQQ", 0, 2.0, 7, 8) + b"img"
    header, rest = recordio.unpack(packed)
    assert (header.label, header.id, rest) == (2.0, 7, b"img")
    packed = recordio.pack((0, [1.0, 2.0, 3.0], 7, 0), b"img")
    assert packed == struct.pack("<IfQQ3f", 3, 0, 7, 0, 1, 2, 3) + b"img"
    header, rest = recordio.unpack(packed)
    assert header.label.tolist() == [1, 2, 3] and rest == b"img"
    with pytest.raises(errors.Corrupt):
        recordio.unpack(b"short")
    with pytest.raises(errors.Corrupt, match="labels"):
        recordio.unpack(struct.pack("<IfQQ", 1 << 30, 0, 0, 0))


@pytest.fixture
def picture(rng):
    return rng.integers(0, 256, (10, 14, 3)).astype("uint8")


def test_images_in_records_come_back_bit_for_bit(picture):
    header, image = recordio.unpack_img(recordio.pack_img((0, 1.0, 0, 0), picture, img_fmt=".png"))
    assert (image == picture).all() and header.label == 1.0


def test_images_are_read_resized_and_cropped(picture, tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(mx.image.encode(nd.array(picture, dtype="uint8")))
    image = mx.image.imread(str(path))
    assert image.dtype == np.uint8 and (image.asnumpy() == picture).all()
    assert (mx.image.imdecode(path.read_bytes(), to_rgb=False).asnumpy() == picture[..., ::-1]).all()
    assert mx.image.imread(str(path), flag=0).shape == (10, 14, 1)
    assert mx.image.imresize(image, 7, 5).shape == (5, 7, 3)
    assert mx.image.resize_short(image, 5).shape == (5, 7, 3)
    crop, place = mx.image.center_crop(image, (4, 6))
    assert place == (5, 2, 4, 6) and (crop.asnumpy() == picture[2:8, 5:9]).all()
    assert (mx.image.fixed_crop(image, 1, 2, 3, 4).asnumpy() == picture[2:6, 1:4]).all()
    crop, (x, y, w, h) = mx.image.random_crop(image, (4, 6))
    assert (crop.asnumpy() == picture[y:y + h, x:x + w]).all()
    assert mx.image.random_size_crop(image, (8, 8), (0.2, 1.0), (0.75, 1.3))[0].shape == (8, 8, 3)
    normal = mx.image.color_normalize(image.astype("float32"), nd.array([1, 2, 3]), nd.array([2, 2, 2]))
    np.testing.assert_allclose(normal.asnumpy(), (picture - np.array([1.0, 2, 3])) / 2, rtol=1e-6)
    with pytest.raises(errors.NotFound):
        mx.image.imread(str(tmp_path / "none.png"))
    with pytest.raises(errors.Corrupt):
        mx.image.imdecode(b"not an image")


def test_resizing_keeps_what_is_even(picture):
    flat = np.full((9, 7, 3), 100, "uint8")
    for interp in (0, 1, 2, 3):
        made = mx.image.imresize(nd.array(flat, dtype="uint8"), 11, 4, interp).asnumpy()
        assert (made == 100).all(), interp
    halves = np.zeros((8, 8, 3), "uint8")
    halves[:, 4:] = 200
    made = mx.image.imresize(nd.array(halves, dtype="uint8"), 2, 2, 3).asnumpy()
    assert made[0, :, 0].tolist() == [0, 200]


def test_augmenters_change_images_and_say_what_they_are(picture):
    random.seed(0)
    image = nd.array(picture, dtype="uint8")
    augmenters = mx.image.CreateAugmenter((3, 8, 8), resize=9, rand_crop=True, rand_mirror=True,
                                          mean=True, std=True, brightness=0.1, contrast=0.1,
                                          saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.2)
    for augmenter in augmenters:
        image = augmenter(image)
        assert augmenter.dumps()
    assert image.shape == (8, 8, 3) and image.dtype == np.float32
    assert json.loads(mx.image.ResizeAug(5).dumps()) == ["resizeaug", {"size": 5, "interp": 2}]
    flipped = mx.image.HorizontalFlipAug(1.0)(nd.array(picture, dtype="uint8"))
    assert (flipped.asnumpy() == picture[:, ::-1]).all()


def record_file(folder, rng, count=10):
    paths = str(folder / "x.idx"), str(folder / "x.rec")
    file = recordio.MXIndexedRecordIO(*paths, "w")
    images = rng.integers(0, 256, (count, 12, 12, 3)).astype("uint8")
    for i, image in enumerate(images):
        file.write_idx(i, recordio.pack_img((0, float(i), i, 0), image[..., ::-1], img_fmt=".png"))
    file.close()
    return paths, images


def test_images_of_a_record_file_come_in_batches(tmp_path, rng):
    (index, path), images = record_file(tmp_path, rng)
    batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 8, 8), batch_size=4,
                                    mean_r=10, std_g=2, scale=0.5, preprocess_threads=4)
    assert batches.provide_data[0].shape == (4, 3, 8, 8)
    seen = list(batches)
    assert [batch.pad for batch in seen] == [0, 0, 2]
    expected = images[0, 2:10, 2:10].astype("float32").transpose(2, 0, 1)
    expected[0] -= 10
    expected *= np.array([0.5, 0.25, 0.5], "float32").reshape(3, 1, 1)
    np.testing.assert_allclose(seen[0].data[0].asnumpy()[0], expected, rtol=1e-6)
    labels = np.concatenate([batch.label[0].asnumpy() for batch in seen])
    assert labels.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    parts = []
    for part in range(3):
        batches = mx.io.ImageRecordIter(path_imgrec=path, path_imgidx=index, data_shape=(3, 8, 8),
                                        batch_size=1, num_parts=3, part_index=part, shuffle=True)
        parts += [int(batch.label[0].asscalar()) for batch in batches]
    assert sorted(parts) == list(range(10))


def changed(folder, rng, shape=(3, 12, 12), **options):
    """(the images of a record file, what an iterator makes of them), both [N, H, W, C]."""
    (_, path), images = record_file(folder, rng, 3)
    batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=shape, batch_size=3, **options)
    return images, batches.next().data[0].asnumpy().transpose(0, 2, 3, 1)


def test_images_of_a_record_file_are_padded_mirrored_and_lightened(tmp_path, rng):
    images, made = changed(tmp_path, rng, (3, 16, 14), pad=2, fill_value=7)
    expected = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=7)
    assert (made == expected[:, :, 1:15]).all()
    images, made = changed(tmp_path, rng, mirror=True)
    assert (made == images[:, :, ::-1]).all()
    images, made = changed(tmp_path, rng, max_random_contrast=0.5, mean_r=10, scale=2.0, seed=1)
    for image, pixels in zip(images, made):
        factor = pixels[:, :, 1].sum() / image[:, :, 1].sum()
        assert 1 <= factor <= 3
        np.testing.assert_allclose(pixels, factor * (image - [10.0, 0, 0]), rtol=1e-4, atol=1e-3)


def test_images_of_a_record_file_are_scaled_stretched_and_turned(tmp_path, rng):
    images, made = changed(tmp_path, rng, (3, 24, 24), min_random_scale=2, max_random_scale=2)
    assert (made[:, ::2, ::2] == images).all()
    between = images[:, 0, :-1].astype(float) + images[:, 0, 1:]
    assert (made[:, 0, 1:-1:2] == np.rint(between / 2)).all()
    assert (made[:, 0, -1] == np.rint((images[:, 0, -1].astype(float) + 255) / 2)).all()
    images, made = changed(tmp_path, rng, rotate=90, fill_value=3)
    assert (made[:, 0] == 3).all() and (made[:, 1:] == images.swapaxes(1, 2)[:, :0:-1]).all()
    images, made = changed(tmp_path, rng, min_aspect_ratio=3.0, max_aspect_ratio=3.0)
    assert (made[:, :, :3] == 255).all() and (made[:, :, -3:] == 255).all()
    assert (made[:, ::3, 3:9] == images[:, 2:10:2, ::2]).all()  # half as wide, 3/2 as high
    images, made = changed(tmp_path, rng, (3, 8, 8), max_random_scale=1.5, max_rotate_angle=10,
                           max_shear_ratio=0.1, max_aspect_ratio=0.25, rand_crop=True)
    assert made.shape == (3, 8, 8, 3)


def test_random_resized_crops_are_of_an_area_and_a_ratio(tmp_path, rng):
    images, made = changed(tmp_path, rng, (3, 6, 6), random_resized_crop=True,
                           min_random_area=0.25, max_random_area=0.25, seed=1)
    for image, pixels in zip(images, made):
        windows = [image[y:y + 6, x:x + 6] for y in range(7) for x in range(7)]
        assert any((window == pixels).all() for window in windows)
    images, made = changed(tmp_path, rng, (3, 6, 6), max_crop_size=12, min_crop_size=12,
                           inter_method=3)
    mean = images.reshape(3, 6, 2, 6, 2, 3).mean((2, 4))
    assert (made == np.rint(mean)).all()
    with pytest.raises(errors.InvalidArgument, match="rand_crop does not go with random_resized"):
        changed(tmp_path, rng, random_resized_crop=True, rand_crop=True)
    with pytest.raises(errors.InvalidArgument, match="max_crop_size is 20"):
        changed(tmp_path, rng, max_crop_size=20, min_crop_size=4)
    with pytest.raises(errors.InvalidArgument, match="aug_seq is not here"):
        changed(tmp_path, rng, aug_seq="aug_det_default")


def coloured(image, **options):
    aug = RecordAug((3, *image.shape[:2]), **options)
    return aug(nd.array(image, dtype="uint8")).asnumpy().astype(float)


def test_brightness_contrast_and_saturation_move_colours_by_a_factor(rng):
    image = rng.integers(100, 140, (6, 6, 3)).astype("uint8")
    grey = (image @ np.array([0.299, 0.587, 0.114]))[..., None]
    for option, centre in (("brightness", 0), ("contrast", grey.mean()), ("saturation", grey)):
        for seed in range(4):
            made = coloured(image, seed=seed, **{option: 0.5})
            away = image.astype(float) - centre
            factor = (away * (made - centre)).sum() / (away ** 2).sum()
            assert 0.5 <= factor <= 1.5 and abs(factor - 1) > 1e-3
            np.testing.assert_allclose(made, away * factor + centre, atol=1)
    assert coloured(image, brightness=0.5, contrast=0.5, saturation=0.5).shape == (6, 6, 3)
    assert coloured(np.full((2, 2, 3), 255, "uint8"), pca_noise=0.5).max() <= 255


def test_hues_lightnesses_and_saturations_are_moved_as_much_as_told(rng):
    image = rng.integers(0, 256, (6, 6, 3)).astype("uint8")
    np.testing.assert_allclose(coloured(image, random_h=1e-9), image, atol=6)
    red = np.zeros((2, 2, 3), "uint8")
    red[..., 0] = 200
    for seed in range(5):
        r, g, b = coloured(red, random_l=50, seed=seed)[0, 0]
        assert g == b and 49 <= (r + g) / 2 <= 151 and (r + g) / 2 != 100
        r, g, b = coloured(red, random_s=100, seed=seed)[0, 0]
        assert g == b and abs((r + g) / 2 - 100) <= 1
        r, g, b = coloured(red, random_h=20, seed=seed)[0, 0]
        assert r == 200 and b == 0 and g <= 200 * 40 / 60  # a hue below red is cut off there


def test_a_mean_image_is_made_and_then_read(tmp_path, rng):
    path = str(tmp_path / "mean.bin")
    images, made = changed(tmp_path, rng, mean_img=path)
    mean = images.astype("float32").mean(0)
    np.testing.assert_allclose(made, images - mean, atol=1e-4)
    np.testing.assert_allclose(nd.load(path)["mean_img"].asnumpy(), mean.transpose(2, 0, 1),
                               rtol=1e-6)
    nd.save(path, {"mean_img": nd.ones((3, 12, 12)) * 5})
    images, made = changed(tmp_path, rng, mean_img=path)
    assert (made == images - 5.0).all()


def test_no_samples_are_lost_without_round_batch(tmp_path, rng):
    (_, path), _ = record_file(tmp_path, rng, 5)
    (tmp_path / "x.csv").write_text("0\n1\n2\n3\n4\n")
    (tmp_path / "x.svm").write_text("".join(f"{i} 0:1\n" for i in range(5)))
    text = str(tmp_path / "x.csv")
    for batches in (
            mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 8, 8), batch_size=2,
                                  round_batch=False),
            mx.io.CSVIter(data_csv=text, label_csv=text, data_shape=(1,), batch_size=2,
                          round_batch=False),
            mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(4,), batch_size=2,
                             round_batch=False)):
        seen = list(batches)
        assert [batch.pad for batch in seen] == [0, 0, 1]
        labels = np.concatenate([batch.label[0].asnumpy() for batch in seen])
        assert labels[:5].tolist() == [0, 1, 2, 3, 4]


def test_images_with_boxes_come_in_batches_and_boxes_follow_the_pixels(tmp_path, rng):
    random.seed(3)
    paths = str(tmp_path / "x.idx"), str(tmp_path / "x.rec")
    file = recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(6):
        picture = np.zeros((20, 30, 3), "uint8")
        top, left = rng.integers(0, 10, 2)
        picture[top:top + 8, left:left + 12] = 255
        box = [1.0, left / 30, top / 20, (left + 12) / 30, (top + 8) / 20]
        label = [2, 5] + box * (1 + i % 2)
        file.write_idx(i, recordio.pack_img((0, label, i, 0), picture, img_fmt=".png"))
    file.close()
    batches = mx.image.ImageDetIter(
        batch_size=4, data_shape=(3, 40, 40), path_imgrec=paths[1], path_imgidx=paths[0],
        shuffle=True, rand_crop=1, rand_pad=0.5, rand_mirror=True, min_object_covered=0.5)
    assert batches.provide_label[0].shape == (4, 2, 5)
    seen = 0
    for batch in batches:
        assert batch.data[0].shape == (4, 3, 40, 40) and batch.label[0].shape == (4, 2, 5)
        for image, boxes in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy()):
            for kind, left, top, right, bottom in boxes[boxes[:, 0] >= 0]:
                middle = image[:, int(20 * (top + bottom)), int(20 * (left + right))]
                assert (middle > 200).all()
                seen += 1
    assert seen >= 9 and batch.pad == 2
    with pytest.raises(errors.Corrupt, match="7 or more"):
        batches._parse_label([1.0, 2.0])


def test_arrays_come_in_batches_and_the_rest_is_filled_left_out_or_kept():
    data, label = np.arange(25.0).reshape(25, 1), np.arange(25)

    def labels(iterator):
        return [batch.label[0].asnumpy().astype(int).tolist() for batch in iterator]

    for handle, last, pads in (("pad", [20, 21, 22, 23, 24, 0, 1, 2, 3, 4], [0, 0, 5]),
                               ("discard", list(range(10, 20)), [0, 0]),
                               ("roll_over", list(range(10, 20)), [0, 0])):
        iterator = mx.io.NDArrayIter(data, label, 10, last_batch_handle=handle)
        assert iterator.provide_data[0] == ("data", (10, 1))
        assert iterator.provide_label[0].name == "softmax_label"
        batches = list(iterator)
        assert [batch.pad for batch in batches] == pads
        assert batches[-1].label[0].asnumpy().astype(int).tolist() == last
        iterator.reset()
        first = labels(iterator)[0]
        assert first == ([20, 21, 22, 23, 24, 0, 1, 2, 3, 4] if handle == "roll_over"
                         else list(range(10)))


def test_shuffled_batches_hold_every_sample_once():
    np.random.seed(0)
    iterator = mx.io.NDArrayIter({"a": np.arange(20), "b": np.arange(20) * 2}, np.arange(20), 5,
                                 shuffle=True)
    assert [desc.name for desc in iterator.provide_data] == ["a", "b"]
    orders = []
    for _ in range(2):
        iterator.reset()
        rows = [batch for batch in iterator]
        a = np.concatenate([batch.data[0].asnumpy() for batch in rows])
        b = np.concatenate([batch.data[1].asnumpy() for batch in rows])
        assert sorted(a.tolist()) == list(range(20)) and (b == 2 * a).all()
        orders.append(a.tolist())
    assert orders[0] != orders[1]
    with pytest.raises(errors.InvalidArgument, match="batch_size is 30"):
        mx.io.NDArrayIter(np.ones((20, 1)), batch_size=30, last_batch_handle="discard")
    few = mx.io.NDArrayIter(np.arange(3), batch_size=7).next()
    assert few.data[0].asnumpy().tolist() == [0, 1, 2, 0, 1, 2, 0] and few.pad == 4
    with pytest.raises(errors.InvalidArgument, match="samples"):
        mx.io.NDArrayIter(np.ones((20, 1)), np.ones(19), batch_size=3)


def test_iterators_on_iterators():
    inner = mx.io.NDArrayIter(np.arange(6), np.arange(6), 2)
    resized = mx.io.ResizeIter(inner, 5)
    assert [int(b.data[0].asnumpy()[0]) for b in resized] == [0, 2, 4, 0, 2]
    ahead = mx.io.PrefetchingIter([mx.io.NDArrayIter(np.arange(6), np.arange(6), 2),
                                   mx.io.NDArrayIter(np.arange(6) * 10, np.arange(6), 2)],
                                  rename_data=[{"data": "x"}, {"data": "y"}],
                                  rename_label=[{"softmax_label": "l"}, {"softmax_label": "m"}])
    assert [desc.name for desc in ahead.provide_data] == ["x", "y"]
    for _ in range(2):
        rows = [[array.asnumpy().tolist() for array in batch.data] for batch in ahead]
        assert rows == [[[0, 1], [0, 10]], [[2, 3], [20, 30]], [[4, 5], [40, 50]]]
        ahead.reset()

    class Broken(mx.io.NDArrayIter):
        def next(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.io.PrefetchingIter(Broken(np.arange(6), np.arange(6), 2)).next()


def idx_file(path, array, packed=False):
    codes = {"uint8": 8, "int32": 12, "float32": 13}
    data = struct.pack(">BBBB", 0, 0, codes[array.dtype.name], array.ndim)
    data += struct.pack(f">{array.ndim}I", *array.shape)
    data += array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(data) if packed else data)


def test_mnists_files_come_in_batches_of_256ths(tmp_path, rng):
    images = rng.integers(0, 256, (25, 4, 4)).astype("uint8")
    labels = rng.integers(0, 10, 25).astype("uint8")
    idx_file(tmp_path / "images", images)
    idx_file(tmp_path / "labels.gz", labels, packed=True)
    options = dict(image=str(tmp_path / "images"), label=str(tmp_path / "labels"), batch_size=10,
                   shuffle=False)
    batches = list(mx.io.MNISTIter(input_shape=(1, 4, 4), **options))
    assert len(batches) == 2 and batches[0].data[0].shape == (10, 1, 4, 4)
    np.testing.assert_array_equal(batches[1].data[0].asnumpy()[:, 0], images[10:20] / 256.0)
    assert (batches[1].label[0].asnumpy() == labels[10:20]).all()
    assert next(mx.io.MNISTIter(flat=True, **options)).data[0].shape == (10, 16)
    parts = mx.io.MNISTIter(num_parts=2, part_index=1, **options)
    assert (next(parts).label[0].asnumpy() == labels[12:22]).all()
    (tmp_path / "images").write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 1 << 30, 1 << 30, 4))
    with pytest.raises(errors.Corrupt, match="0 bytes for"):
        mx.io.MNISTIter(**options)
    with pytest.raises(errors.NotFound):
        mx.io.MNISTIter(image=str(tmp_path / "none"), label="x")


def test_numbers_with_commas_and_libsvm_lines(tmp_path, rng):
    data = rng.normal(size=(7, 6)).astype("float32")
    np.savetxt(tmp_path / "x.csv", data, delimiter=",")
    (tmp_path / "y.csv").write_text("\n".join(str(i) for i in range(7)))
    batches = list(mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2, 3),
                                 label_csv=str(tmp_path / "y.csv"), batch_size=3))
    np.testing.assert_allclose(batches[2].data[0].asnumpy()[0], data[6].reshape(2, 3), rtol=1e-6)
    assert batches[2].pad == 2 and batches[1].label[0].asnumpy().tolist() == [3, 4, 5]
    iterator = mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2, 3), batch_size=3)
    assert iterator.provide_label[0].name == "softmax_label"
    (tmp_path / "x.csv").write_text("1,2\n1,x\n")
    with pytest.raises(errors.Corrupt, match="x.csv:2"):
        mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2,), batch_size=1)
    (tmp_path / "x.svm").write_text("1 0:1.5 2:3\n0 1:2\n1 3:4\n")
    lines = mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(4,), batch_size=2)
    assert [d.name for d in lines.provide_data + lines.provide_label] == ["data", "softmax_label"]
    batch = next(lines)
    assert batch.data[0].stype == "csr"
    assert batch.data[0].asnumpy().tolist() == [[1.5, 0, 3, 0], [0, 2, 0, 0]]
    assert batch.label[0].asnumpy().tolist() == [1, 0]
    (tmp_path / "x.svm").write_text("1 9:1\n")
    with pytest.raises(errors.Corrupt, match="outside of 0 to 3"):
        mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(4,), batch_size=1)


def test_text_has_vocabularies_and_vectors(tmp_path):
    text = mx.contrib.text
    counter = text.utils.count_tokens_from_str("b a b\nc a b", to_lower=True)
    vocabulary = text.vocab.Vocabulary(counter, most_freq_count=2, reserved_tokens=["<pad>"])
    assert vocabulary.idx_to_token == ["<unk>", "<pad>", "b", "a"]
    assert vocabulary.to_indices(["a", "z"]) == [3, 0] and vocabulary.to_tokens(2) == "b"
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\n")
    vectors = text.embedding.create("CustomEmbedding", pretrained_file_path=str(tmp_path / "v.txt"),
                                    vocabulary=vocabulary)
    assert vectors.idx_to_vec.asnumpy().tolist() == [[0, 0], [0, 0], [3, 4], [1, 2]]
    assert vectors.get_vecs_by_tokens("b").asnumpy().tolist() == [3, 4]
    with pytest.raises(errors.NotFound, match="nothing is fetched"):
        text.embedding.create("glove", embedding_root=str(tmp_path))


def test_profiles_are_written(tmp_path):
    profiler = mx.profiler
    profiler.set_config(filename=str(tmp_path / "p.json"), aggregate_stats=True)
    profiler.set_state("run")
    with profiler.Domain("train").new_task("step"):
        pass
    counter = profiler.Domain("train").new_counter("loss", 3)
    counter += 2
    profiler.set_state("stop")
    assert "step" in profiler.dumps()
    profiler.dump()
    events = json.load(open(tmp_path / "p.json"))["traceEvents"]
    assert [event["ph"] for event in events] == ["X", "C", "C"] and events[-1]["args"] == {"loss": 5}


def test_small_modules_that_scripts_ask(capsys):
    with mx.engine.bulk(30):
        assert mx.engine.set_bulk_size(30) == 30
    features = mx.runtime.Features()
    assert features.is_enabled("DIST_KVSTORE") and not features.is_enabled("CUDA")
    with pytest.raises(RuntimeError, match="unknown"):
        features.is_enabled("TELEPATHY")
    assert mx.log.get_logger("mxnet-test") is mx.log.get_logger("mxnet-test")
    assert mx.libinfo.find_lib_path()[0].endswith(".so")


def test_numpys_arrays_become_float32_and_mxnets_stay_what_they_are():
    numbers = np.arange(6).reshape(3, 2)
    batch = next(mx.io.NDArrayIter(numbers, numbers[:, 0], 3))
    assert batch.data[0].dtype == batch.label[0].dtype == np.float32
    batch = next(mx.io.NDArrayIter(mx.nd.array(numbers, dtype="int32"), batch_size=3))
    assert batch.data[0].dtype == np.int32


def test_batches_are_cut_along_the_layouts_n():
    data, label = np.arange(30, dtype="float32").reshape(3, 5, 2), np.arange(5, dtype="float32")
    batches = mx.io.NDArrayIter(data, label, batch_size=2, layout="TNC")
    shapes = [tuple(d.shape) for d in batches.provide_data + batches.provide_label]
    assert shapes == [(3, 2, 2), (2,)]
    assert batches.provide_data[0].layout == "TNC"
    made = list(batches)
    assert len(made) == 3 and made[-1].pad == 1
    assert (made[1].data[0].asnumpy() == data[:, 2:4]).all()
    assert (made[2].data[0].asnumpy() == data[:, [4, 0]]).all()
    assert made[2].label[0].asnumpy().tolist() == [4, 0]
    with pytest.raises(mx.MXNetError, match="has no N"):
        mx.io.NDArrayIter(data, layout="HWC")
