# SPDX-License-Identifier: Apache-2.0
"""Images with boxes around objects: changes that take the boxes along, and batches.

A label is [objects, 5 or more]: a class and the corners left, top, right, bottom in parts of the
image's size. Rows of a batch that no object fills are -1.
"""

import json
import random as _random

import numpy as np

from lockstep.errors import Corrupt
from lockstep.mxnet import image, io
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet._image_iter import ImageIter


class DetAugmenter:
    """A change of an image and its boxes."""

    def __init__(self, **kwargs):
        self._kwargs = kwargs

    def dumps(self):
        """Its name and its options as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src, label):
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class DetBorrowAug(DetAugmenter):
    """A change that leaves boxes where they are."""

    def __init__(self, augmenter):
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def __call__(self, src, label):
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several changes, or none with a probability."""

    def __init__(self, aug_list, skip_prob=0):
        super().__init__(skip_prob=skip_prob)
        self.aug_list, self.skip_prob = aug_list, skip_prob if aug_list else 1

    def __call__(self, src, label):
        if _random.random() < self.skip_prob:
            return src, label
        return _random.choice(self.aug_list)(src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrored with a probability."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src, label):
        if _random.random() >= self.p:
            return src, label
        flipped = label.copy()
        flipped[:, 1], flipped[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1]
        return image._array(np.ascontiguousarray(image._numpy(src)[:, ::-1])), flipped


def _area(boxes):
    return np.maximum(0, boxes[:, 2] - boxes[:, 0]) * np.maximum(0, boxes[:, 3] - boxes[:, 1])


def _inside(label, left, top, right, bottom):
    """The parts of boxes within a window, and how much of each box that is."""
    boxes = label[:, 1:5]
    cut = np.stack([np.maximum(boxes[:, 0], left), np.maximum(boxes[:, 1], top),
                    np.minimum(boxes[:, 2], right), np.minimum(boxes[:, 3], bottom)], axis=1)
    return cut, _area(cut) / np.maximum(_area(boxes), 1e-12)


def _relative(label, boxes, left, top, width, height):
    made = label.copy()
    made[:, (1, 3)] = np.clip((boxes[:, (0, 2)] - left) / width, 0, 1)
    made[:, (2, 4)] = np.clip((boxes[:, (1, 3)] - top) / height, 0, 1)
    return made


class DetRandomCropAug(DetAugmenter):
    """A window that covers enough of some object; objects of which too little is left go."""

    def __init__(self, min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33),
                 area_range=(0.05, 1.0), min_eject_coverage=0.3, max_attempts=50):
        super().__init__(min_object_covered=min_object_covered, area_range=area_range,
                         aspect_ratio_range=aspect_ratio_range, max_attempts=max_attempts,
                         min_eject_coverage=min_eject_coverage)
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.aspect_ratio_range, self.area_range = aspect_ratio_range, area_range
        self.max_attempts = max_attempts

    def __call__(self, src, label):
        height, width = src.shape[:2]
        for _ in range(self.max_attempts):
            window = self._window(height, width)
            made = window and self._cropped(label, window)
            if made is not None:
                x, y, w, h = (int(round(v)) for v in (window[0] * width, window[1] * height,
                                                      window[2] * width, window[3] * height))
                return image.fixed_crop(src, x, y, max(w, 1), max(h, 1)), made
        return src, label

    def _window(self, height, width):
        ratio = _random.uniform(*self.aspect_ratio_range) * height / width
        area = _random.uniform(*self.area_range)
        w, h = (area * ratio) ** 0.5, (area / ratio) ** 0.5
        if w > 1 or h > 1:
            return None
        return _random.uniform(0, 1 - w), _random.uniform(0, 1 - h), w, h

    def _cropped(self, label, window):
        left, top, width, height = window
        boxes, part = _inside(label, left, top, left + width, top + height)
        if not (part > 0).any() or part[part > 0].min() < self.min_object_covered:
            return None
        keep = part >= self.min_eject_coverage
        if not keep.any():
            return None
        return _relative(label[keep], boxes[keep], left, top, width, height)


class DetRandomPadAug(DetAugmenter):
    """The image somewhere on a larger area of one colour."""

    def __init__(self, aspect_ratio_range=(0.75, 1.33), area_range=(1.0, 3.0), max_attempts=50,
                 pad_val=(128, 128, 128)):
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range,
                         max_attempts=max_attempts, pad_val=pad_val)
        self.aspect_ratio_range, self.area_range = aspect_ratio_range, area_range
        self.max_attempts, self.pad_val = max_attempts, pad_val

    def __call__(self, src, label):
        height, width = src.shape[:2]
        for _ in range(self.max_attempts):
            ratio = _random.uniform(*self.aspect_ratio_range)
            area = _random.uniform(*self.area_range) * height * width
            w, h = int(round((area * ratio) ** 0.5)), int(round((area / ratio) ** 0.5))
            if w < width or h < height:
                continue
            x, y = _random.randint(0, w - width), _random.randint(0, h - height)
            made = image.copyMakeBorder(src, y, h - height - y, x, w - width - x, 0,
                                        values=self.pad_val)
            moved = label.copy()
            moved[:, (1, 3)] = (label[:, (1, 3)] * width + x) / w
            moved[:, (2, 4)] = (label[:, (2, 4)] * height + y) / h
            return made, moved
        return src, label


def CreateMultiRandCropAugmenter(min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33),
                                 area_range=(0.05, 1.0), min_eject_coverage=0.3, max_attempts=50,
                                 skip_prob=0):
    """One of several crops: lists of options give as many."""
    given = {"min_object_covered": min_object_covered, "aspect_ratio_range": aspect_ratio_range,
             "area_range": area_range, "min_eject_coverage": min_eject_coverage,
             "max_attempts": max_attempts}
    count = max(len(v) if isinstance(v, list) else 1 for v in given.values())
    made = [DetRandomCropAug(**{key: v[i % len(v)] if isinstance(v, list) else v
                                for key, v in given.items()}) for i in range(count)]
    return DetRandomSelectAug(made, skip_prob)


def CreateDetAugmenter(data_shape, resize=0, rand_crop=0, rand_pad=0, rand_gray=0, rand_mirror=False,
                       mean=None, std=None, brightness=0, contrast=0, saturation=0, pca_noise=0,
                       hue=0, inter_method=2, min_object_covered=0.1,
                       aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 3.0),
                       min_eject_coverage=0.3, max_attempts=50, pad_val=(127, 127, 127)):
    """The list of changes that these options mean."""
    made = [DetBorrowAug(image.ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        crop = CreateMultiRandCropAugmenter(
            min_object_covered, aspect_ratio_range, (area_range[0], min(1.0, area_range[1])),
            min_eject_coverage, max_attempts)
        made.append(DetRandomSelectAug([crop], 1 - rand_crop))
    if rand_mirror:
        made.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, max(1.0, area_range[1])), max_attempts,
                              pad_val)
        made.append(DetRandomSelectAug([pad], 1 - rand_pad))
    made.append(DetBorrowAug(image.ForceResizeAug((data_shape[2], data_shape[1]), inter_method)))
    # What is left changes colours: the plain list without its crop.
    colours = image.CreateAugmenter(data_shape, brightness=brightness, contrast=contrast,
                                    saturation=saturation, hue=hue, pca_noise=pca_noise,
                                    rand_gray=rand_gray, mean=mean, std=std)[1:]
    return made + [DetBorrowAug(change) for change in colours]


class ImageDetIter(ImageIter):
    """Batches of images with boxes: data [N, C, H, W], labels [N, objects, 5 or more]."""

    def __init__(self, batch_size, data_shape, path_imgrec=None, path_imglist=None, path_root=None,
                 path_imgidx=None, shuffle=False, part_index=0, num_parts=1, aug_list=None,
                 imglist=None, data_name="data", label_name="label", last_batch_handle="pad",
                 **kwargs):
        if aug_list is None:
            aug_list = CreateDetAugmenter(data_shape, **kwargs)
        super().__init__(batch_size, data_shape, 1, path_imgrec, path_imglist, path_root,
                         path_imgidx, shuffle, part_index, num_parts, aug_list, imglist, data_name,
                         label_name, last_batch_handle=last_batch_handle)
        self.label_shape = self._largest()

    def _largest(self):
        """(objects, numbers of an object) that hold every label; every image's is looked at."""
        objects, width = 0, 5
        for key in self.seq:
            label = self._parse_label(self._raw_label(key))
            objects, width = max(objects, label.shape[0]), max(width, label.shape[1])
        return objects, width

    def _raw_label(self, key):
        if self.imglist:
            return self.imglist[key][0]
        from lockstep.mxnet import recordio

        return recordio.unpack(self.imgrec.read_idx(key))[0].label

    def _parse_label(self, label):
        """[objects, numbers] of a label that begins with the widths of its head and an object."""
        raw = np.asarray(label, np.float32).reshape(-1)
        if raw.size < 7:
            raise Corrupt(f"ImageDetIter: a label of {raw.size} numbers, expected 7 or more")
        head, width = int(raw[0]), int(raw[1])
        if head < 2 or width < 5 or (raw.size - head) % width:
            raise Corrupt(f"ImageDetIter: a label of {raw.size} numbers with a head of {head} and "
                          f"{width} for an object")
        made = raw[head:].reshape(-1, width)
        made = made[(made[:, 3] > made[:, 1]) & (made[:, 4] > made[:, 2])]
        if not len(made):
            raise Corrupt("ImageDetIter: a label without an object")
        return made

    @property
    def provide_label(self):
        """What its labels are."""
        return [io.DataDesc(self._names[1], (self.batch_size,) + self.label_shape)]

    def reshape(self, data_shape=None, label_shape=None):
        """Other shapes of data or labels."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.label_shape = tuple(label_shape)

    def sync_label_shape(self, it, verbose=False):
        """The larger label shape of two iterators for both."""
        shape = tuple(max(a, b) for a, b in zip(self.label_shape, it.label_shape))
        self.reshape(None, shape)
        it.reshape(None, shape)
        return it

    def augmentation_transform(self, data, label):  # noqa: D102 - with the boxes
        """The image and its boxes after all changes."""
        for change in self.auglist:
            data, label = change(data, label)
        return data, label

    def _labels(self):
        return np.full((self.batch_size,) + self.label_shape, -1.0, np.float32)

    def _fill(self, data, labels, count):
        while count < self.batch_size:
            try:
                label, contents = self.next_sample()
            except StopIteration:
                break
            made, boxes = self.augmentation_transform(self.imdecode(contents),
                                                      self._parse_label(label))
            data[count] = self.postprocess_data(made)
            boxes = boxes[:self.label_shape[0]]
            labels[count, :len(boxes), :boxes.shape[1]] = boxes
            count += 1
        return count

    def _label_array(self, labels):
        return nd.array(labels)
