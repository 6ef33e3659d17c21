# SPDX-License-Identifier: Apache-2.0
"""Boxes of detectors: priors, targets, detections, suppression. All but box_iou is computed by
NumPy from values and has no gradient, as in MXNet."""

import numpy as np

from lockstep import _core, ops
from lockstep.mxnet.base import as_shape
from lockstep.mxnet.ndarray.registry import register

_VARIANCES = (0.1, 0.1, 0.2, 0.2)


def _values(tensor):
    return np.asarray(tensor.detach().numpy())


def _tensor(array, like):
    return _core.Tensor(np.ascontiguousarray(array, dtype=like.dtype.name))


def _floats(value):
    return (float(value),) if isinstance(value, (int, float)) else tuple(float(v) for v in value)


@register("_contrib_MultiBoxPrior")
def multibox_prior(data, sizes=(1.0,), ratios=(1.0,), clip=False, steps=(-1.0, -1.0),
                   offsets=(0.5, 0.5)):
    """Boxes around each place: all sizes of the first ratio, then the first size of the others."""
    height, width = data.shape[2:]
    sizes, ratios, steps, offsets = map(_floats, (sizes, ratios, steps, offsets))
    step_y = steps[0] if steps[0] > 0 else 1.0 / height
    step_x = steps[1] if steps[1] > 0 else 1.0 / width
    shapes = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    half = np.array([(s * height / width * np.sqrt(r) / 2, s / np.sqrt(r) / 2) for s, r in shapes])
    y, x = np.meshgrid((np.arange(height) + offsets[0]) * step_y,
                       (np.arange(width) + offsets[1]) * step_x, indexing="ij")
    centres = np.stack([x, y], -1)[:, :, None, :]
    boxes = np.concatenate([centres - half, centres + half], -1).reshape(1, -1, 4)
    return _tensor(np.clip(boxes, 0, 1) if clip else boxes, data)


def _iou(a, b):
    """Of every box in `a` with every box in `b`, corners."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), -1)
    sizes = [np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), -1) for boxes in (a, b)]
    union = sizes[0][:, None] + sizes[1][None, :] - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)


def _corners(boxes, form):
    if form == "corner":
        return boxes
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)


@register("_contrib_box_iou")
def box_iou(lhs, rhs, format="corner"):  # noqa: A002 - MXNet's name
    """Shared area by joint area, of every box with every box."""
    a, b = (_corners(_values(x).reshape(-1, 4), format) for x in (lhs, rhs))
    return _tensor(_iou(a, b).reshape(lhs.shape[:-1] + rhs.shape[:-1]), lhs)


def _encode(anchors, boxes, variances):
    sizes, wanted = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    shift = (boxes[:, :2] + boxes[:, 2:] - anchors[:, :2] - anchors[:, 2:]) / 2 / sizes
    return np.concatenate([shift, np.log(np.maximum(wanted / sizes, 1e-30))], 1) / variances


def _decode(anchors, moves, variances):
    sizes, centres = anchors[:, 2:] - anchors[:, :2], (anchors[:, :2] + anchors[:, 2:]) / 2
    moves = moves * variances
    middle, half = centres + moves[:, :2] * sizes, np.exp(moves[:, 2:]) * sizes / 2
    return np.concatenate([middle - half, middle + half], 1)


def _match(overlaps, threshold):
    """(the box of each anchor or -1, whether it is the anchor's for sure): every box gets its best
    anchor, then anchors that overlap one enough get it."""
    anchors, boxes = overlaps.shape
    matched, is_positive = np.full(anchors, -1), np.zeros(anchors, bool)
    left = overlaps.copy()
    for _ in range(boxes):
        place = np.unravel_index(np.argmax(left), left.shape)
        if left[place] <= 1e-6:
            break
        matched[place[0]], is_positive[place[0]] = place[1], True
        left[place[0], :] = left[:, place[1]] = -1
    best = overlaps.argmax(1)
    if threshold > 0:
        more = ~is_positive & (overlaps.max(1) > threshold)
        matched[more], is_positive[more] = best[more], True
    return matched, is_positive


def _negatives(predictions, overlaps, is_positive, ratio, limit, least):
    """The anchors without a box whose background is least believed in."""
    count = min(max(int(is_positive.sum() * ratio), least), int((~is_positive).sum()))
    able = np.flatnonzero(~is_positive & (overlaps.max(1) < limit))
    shifted = np.exp(predictions - predictions.max(0))
    background = (shifted[0] / shifted.sum(0))[able]
    return able[np.argsort(background, kind="stable")[:count]]


@register("_contrib_MultiBoxTarget")
def multibox_target(anchor, label, cls_pred, overlap_threshold=0.5, ignore_label=-1.0,
                    negative_mining_ratio=-1.0, negative_mining_thresh=0.5,
                    minimum_negative_samples=0, variances=_VARIANCES):
    """What an SSD learns: moves of anchors to their boxes, which of them count, and classes."""
    anchors, labels, scores = _values(anchor)[0], _values(label), _values(cls_pred)
    batch, count = len(labels), len(anchors)
    moves, masks = np.zeros((batch, count, 4)), np.zeros((batch, count, 4))
    classes = np.full((batch, count), float(ignore_label))
    for i in range(batch):
        ends = np.flatnonzero(labels[i, :, 0] == -1)
        boxes = labels[i, :ends[0] if len(ends) else None]
        if not len(boxes):
            continue
        overlaps = _iou(anchors, boxes[:, 1:5])
        matched, positive = _match(overlaps, float(overlap_threshold))
        own = boxes[matched[positive]]
        moves[i, positive] = _encode(anchors[positive], own[:, 1:5], np.array(_floats(variances)))
        masks[i, positive] = 1
        negative = ~positive if negative_mining_ratio <= 0 else _negatives(
            scores[i], overlaps, positive, float(negative_mining_ratio),
            float(negative_mining_thresh), int(minimum_negative_samples))
        classes[i, negative] = 0
        classes[i, positive] = own[:, 0] + 1
    return tuple(_tensor(part.reshape(batch, -1), anchor) for part in (moves, masks, classes))


def _suppressed(boxes, classes, threshold):
    """Which boxes, the best first, overlap a better one of their class."""
    gone = np.zeros(len(boxes), bool)
    overlaps = _iou(boxes, boxes)
    for i in range(len(boxes)):
        if not gone[i]:
            same = overlaps[i] > threshold
            same[:i + 1] = False
            gone |= same if classes is None else same & (classes == classes[i])
    return gone


@register("_contrib_MultiBoxDetection")
def multibox_detection(cls_prob, loc_pred, anchor, clip=True, threshold=0.01, background_id=0,
                       nms_threshold=0.5, force_suppress=False, variances=_VARIANCES,
                       nms_topk=-1):
    """(class, score, corners) of each anchor, the best first; class -1 is nothing."""
    scores, moves, anchors = _values(cls_prob), _values(loc_pred), _values(anchor)[0]
    made = np.full((len(scores), len(anchors), 6), -1.0)
    for i, probabilities in enumerate(scores):
        objects = np.delete(probabilities, int(background_id), 0)
        best, score = objects.argmax(0), objects.max(0)
        boxes = _decode(anchors, moves[i].reshape(-1, 4), np.array(_floats(variances)))
        boxes = np.clip(boxes, 0, 1) if clip else boxes
        order = np.flatnonzero(score >= threshold)
        order = order[np.argsort(-score[order], kind="stable")]
        rows = np.concatenate([best[order, None], score[order, None], boxes[order]], 1)
        if nms_topk > 0:
            rows[int(nms_topk):, 0] = -1
        if 0 < nms_threshold <= 1:
            live = np.flatnonzero(rows[:, 0] >= 0)
            gone = _suppressed(rows[live, 2:], None if force_suppress else rows[live, 0],
                               float(nms_threshold))
            rows[live[gone], 0] = -1
        made[i, :len(rows)] = rows
    return _tensor(made, cls_prob)


@register("_contrib_box_nms", "_contrib_box_non_maximum_suppression")
def box_nms(data, overlap_thresh=0.5, valid_thresh=0.0, topk=-1, coord_start=2, score_index=1,
            id_index=-1, background_id=-1, force_suppress=False, in_format="corner",
            out_format="corner"):
    """Boxes by score without those that overlap a better one; what is left over is -1."""
    rows = _values(data)
    made = np.full(rows.reshape((-1,) + rows.shape[-2:]).shape, -1.0)
    at = slice(int(coord_start), int(coord_start) + 4)
    for i, boxes in enumerate(rows.reshape(made.shape)):
        score = boxes[:, int(score_index)]
        valid = score > valid_thresh
        if id_index >= 0 and background_id >= 0:
            valid &= boxes[:, int(id_index)] != background_id
        order = np.flatnonzero(valid)
        order = order[np.argsort(-score[order], kind="stable")]
        order = order[:int(topk)] if topk > 0 else order
        corners = _corners(boxes[order, at], in_format)
        classes = None if force_suppress or id_index < 0 else boxes[order, int(id_index)]
        kept = boxes[order].copy()
        if out_format != in_format:
            kept[:, at] = corners if out_format == "corner" else np.concatenate(
                [(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], 1)
        kept = kept[~_suppressed(corners, classes, float(overlap_thresh))]
        made[i, :len(kept)] = kept
    return _tensor(made.reshape(rows.shape), data)


@register("_contrib_box_decode")
def box_decode(data, anchors, std0=1.0, std1=1.0, std2=1.0, std3=1.0, clip=-1.0, format="center"):  # noqa: A002
    """Corners of anchors that were moved."""
    scales = [float(std) for std in (std0, std1, std2, std3)]
    moves, rows = _values(data), _corners(_values(anchors).reshape(-1, 4), format)
    made = np.stack([_decode(rows, part, np.array(scales)) for part in moves])
    return _tensor(np.minimum(made, clip) if clip > 0 else made, data)


@register("_contrib_bipartite_matching")
def bipartite_matching(data, threshold=0.5, is_ascend=False, topk=-1):
    """(the column of each row, the row of each column) by the best scores first; -1 without one."""
    scores = _values(data)
    flat = scores.reshape((-1,) + scores.shape[-2:])
    rows, columns = np.full(flat.shape[:2], -1.0), np.full((len(flat), flat.shape[2]), -1.0)
    for i, table in enumerate(flat):
        found = 0
        for place in np.argsort(table if is_ascend else -table, axis=None, kind="stable"):
            row, column = divmod(int(place), table.shape[1])
            value = table[row, column]
            if (value > threshold if is_ascend else value < threshold) or found == topk:
                break
            if rows[i, row] < 0 and columns[i, column] < 0:
                rows[i, row], columns[i, column], found = column, row, found + 1
    return (_tensor(rows.reshape(scores.shape[:-1]), data),
            _tensor(columns.reshape(scores.shape[:-2] + scores.shape[-1:]), data))


def _samples(start, extent, bins, ratio, limit):
    """Places and weights of each bin's samples along an axis: [bins, samples, 2]."""
    count = int(ratio) if ratio > 0 else max(int(np.ceil(extent / bins)), 1)
    places = start + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count) * extent / bins
    outside = (places < -1) | (places > limit)
    places = np.clip(places, 0, limit - 1)
    low = np.minimum(np.floor(places).astype(int), limit - 1)
    high, part = np.minimum(low + 1, limit - 1), places - low
    weights = np.where(outside[..., None], 0, np.stack([1 - part, part], -1))
    return np.stack([low, high], -1), weights / count


@register("_contrib_ROIAlign")
def roi_align(data, rois, pooled_size=None, spatial_scale=1.0, sample_ratio=-1,
              position_sensitive=False, aligned=False):
    """Means of bilinear samples in as many bins of each region; gradients go to the data."""
    rows, columns = as_shape(pooled_size) if not isinstance(pooled_size, int) else (pooled_size,) * 2
    channels, height, width = data.shape[1:]
    flat, made = ops.reshape(data, (data.shape[0], channels, -1)), []
    shift = 0.5 if aligned else 0.0
    for picture, *corners in _values(rois).tolist():
        x0, y0, x1, y1 = (c * spatial_scale - shift for c in corners)
        tall, wide = (y1 - y0, x1 - x0) if aligned else (max(y1 - y0, 1.0), max(x1 - x0, 1.0))
        ys, wy = (part.reshape(rows, -1) for part in _samples(y0, tall, rows, sample_ratio, height))
        xs, wx = (part.reshape(columns, -1)
                  for part in _samples(x0, wide, columns, sample_ratio, width))
        places = (ys[:, None, :, None] * width + xs[None, :, None, :]).reshape(-1)
        weights = (wy[:, None, :, None] * wx[None, :, None, :]).reshape(1, rows, columns, -1)
        taken = ops.take(flat[int(picture)], _core.Tensor(places.astype("int64")), 1)
        taken = ops.reshape(taken, (channels, rows, columns, -1)) * _tensor(weights, data)
        made.append(ops.sum(taken, (3,)))
    return _core.stack(made, 0)
