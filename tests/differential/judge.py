# SPDX-License-Identifier: Apache-2.0
"""Whether results are right: their errors beside those that the precision explains.

The truth is the case in float64. What rounding may do to it is measured, not guessed: PyTorch's own
error in the same precision, and how far the truth moves when every intermediate result is moved by
the precision's epsilon. NaN and infinity must stand where they stand in the truth.
"""

import dataclasses

import numpy
from op_server import OpError
from programs import NoMeaning, moved_inputs, run_torch, values_infos, with_noise

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "bfloat16": 1.2e-38, "float16": 6.2e-5}
LARGEST = {"float64": 1.7e308, "float32": 3.4e38, "bfloat16": 3.3e38, "float16": 65504.0}
PEER_FACTOR = 6.0  # our error may be this many times PyTorch's, or that of the moved truth
FEW, MANY = 2, 24  # moved truths, where few do not explain an error
NEIGHBOURHOOD = 1e-3  # how far other inputs are whose errors in PyTorch count too
ULPS = 16.0  # of the largest element, whatever the measured errors are
SECOND_FACTOR = 16.0  # the first derivatives' own rounding stands between
CANCEL_FACTOR = 4.0  # a gradient that is zero in truth is a sum of many roundings and nothing else
ZERO_IN_TRUTH = 1e-9  # of the largest gradient, in float64
WINOGRAD_FACTOR = 64.0  # Winograd's transforms add and subtract what cancels later
WINOGRAD_WAYS = {
    "compiled", "not simplified", "not fused", "not recomputed", "plain layouts", "in bfloat16",
    "states", "no prologue", "step engine", "second compiled",
}  # fmt: skip


TORCH_REFUSES = (NoMeaning, RuntimeError, NotImplementedError, ValueError, IndexError)
# PyTorch divides the gradient among the elements that equal the largest, of which there is none
# where that is NaN, the product by an element, and in kl_div a target of zero by itself.
NAN_GRADIENTS = {"max", "min", "prod", "kl_div"}
# NaN reaches elements that PyTorch leaves at zero, where it takes a mask off, or the distance from
# the sum, which is infinite.
SPREADING_GRADIENTS = {"attention", "logsumexp"}
# Their weights come of places that are rounded: what is not finite counts with a weight of nearly
# zero, or not at all.
PLACED = {"interpolate", "grid_sample"}
# Which of several NaN is the largest is not said.
POOLS = {"max_pool", "global_max_pool", "adaptive_max_pool"}


@dataclasses.dataclass
class Finding:
    way: str
    kind: str  # error, NaN, value, death
    what: str

    def __str__(self):
        return f"{self.way}: {self.kind}: {self.what}"


class Truth:
    """The case in float64, and how far rounding moves it."""

    def __init__(self, server, case, plan, arrays, second=False):
        self.server, self.case, self.plan, self.arrays = server, case, plan, arrays
        self.second = second
        self.infos = None
        self.exact = self.evaluate(plan, arrays)
        self.peer = self.peers_result()
        self.moves = {}
        self.peer_errors = {}

    def evaluate(self, plan, arrays):
        try:
            if self.multiplies_by_padding():
                raise NoMeaning("conv")
            return run_torch(plan, arrays, "float64", self.second)
        except TORCH_REFUSES:
            way = "second" if self.second else "reference"
            results = dict(self.server.run(plan.request("float64"), arrays, [way]))
            if isinstance(results[way], OpError):
                raise results[way]
            return zeros_for_none(results[way], plan, arrays, self.second)

    def peers_result(self):
        """PyTorch's in the case's own dtype, or in float32 where it has not that."""
        for dtype in (self.case.dtype, "float32"):
            try:
                results = run_torch(self.plan, self.arrays, dtype, self.second)
            except TORCH_REFUSES:
                continue
            if all(numpy.shape(a) == numpy.shape(b) for a, b in zip(results, self.exact)):
                return results
        return None

    def peer_error(self, index, samples):
        """The largest error of PyTorch's in result `index`, for the case and for as many more with
        inputs beside its own: where terms cancel, one error alone may be small by luck."""
        if self.peer is None:
            return 0.0
        if samples not in self.peer_errors:
            errors = largest_errors(self.peer, self.exact)
            for seed in range(samples):
                errors = numpy.maximum(errors, self.neighbours_errors(seed))
            self.peer_errors[samples] = errors
        return self.peer_errors[samples][index]

    def neighbours_errors(self, seed):
        dtype = self.case.dtype
        try:
            arrays = moved_inputs(self.plan, self.arrays, dtype, NEIGHBOURHOOD, seed)
            got = run_torch(self.plan, arrays, dtype, self.second)
            want = run_torch(self.plan, arrays, "float64", self.second)
        except TORCH_REFUSES:
            return numpy.zeros(len(self.exact))
        return largest_errors(got, want)

    def multiplies_by_padding(self):
        """PyTorch's float64 convolutions do: infinity times the zeros around the data is NaN."""
        convolves = any(node["op"].startswith("conv") for node in self.plan.nodes)
        return convolves and self.case.is_special()

    def moved(self, index, epsilon, samples, first_seed=0):
        """How far element by element of result `index` moves at most."""
        key = (epsilon, samples, first_seed)
        if key not in self.moves:
            self.moves[key] = self.sample(epsilon, samples, first_seed)
        return self.moves[key][index]

    def has_pattern_nearby(self, index, got, epsilon):
        """Which elements are as finite as those of a moved truth: a NaN passes a relu whose argument
        is positive in truth and zero when it is rounded, or does not."""
        near = numpy.zeros(numpy.shape(got), bool)
        if self.infos is None:
            self.infos = values_infos(self.server, self.plan, "float64")
        for seed in range(MANY):
            noisy = with_noise(self.plan, self.arrays, self.infos, epsilon, seed)
            near |= numpy.isfinite(self.evaluate(*noisy)[index]) == numpy.isfinite(got)
        return near

    def sample(self, epsilon, samples, first_seed):
        if self.infos is None:
            self.infos = values_infos(self.server, self.plan, "float64")
        largest = [numpy.zeros(numpy.shape(x)) for x in self.exact]
        for seed in range(first_seed, first_seed + samples):
            noisy = with_noise(self.plan, self.arrays, self.infos, epsilon, seed)
            for i, got in enumerate(self.evaluate(*noisy)):
                if got is not None and got.dtype != numpy.int64:
                    largest[i] = numpy.maximum(largest[i], finite_difference(got, self.exact[i]))
        return largest


def zeros_for_none(results, plan, arrays, second):
    shapes = [None] * (0 if second else len(results) - len(plan.wrt))
    shapes += [numpy.shape(arrays[i]) for i in plan.wrt]
    return [numpy.zeros(s) if r is None and s is not None else r for r, s in zip(results, shapes)]


def finite_difference(a, b):
    with numpy.errstate(invalid="ignore"):
        off = numpy.abs(a - b)
    return numpy.where(numpy.isfinite(off), off, 0.0)


def largest_errors(results, exact):
    """One number for each result; 0 where there is none."""
    return numpy.array([
        0.0 if a is None or b is None else greatest(finite_difference(a, b))
        for a, b in zip(results, exact)
    ])  # fmt: skip


def finite_part(array):
    return numpy.abs(numpy.where(numpy.isfinite(array), array, 0.0))


def greatest(array):
    return float(array.max()) if array.size else 0.0


class Judge:
    def __init__(self, truth, has_winograd):
        self.truth, self.has_winograd = truth, has_winograd
        self.dtype = truth.case.dtype
        self.ops = {node["op"] for node in truth.case.nodes}

    def judge(self, way, results):
        """A Finding or None."""
        if isinstance(results, OpError):
            return Finding(way, "error", str(results))
        for index, got in enumerate(results):
            want = self.truth.exact[index]
            if want is None or (got is None and not self.is_gradient(index)):
                continue
            if self.is_gradient(index) and self.truth.case.has("nan") and self.chooses_by_nan():
                continue
            got = numpy.zeros_like(want) if got is None else got
            kind, what = self.compare(way, index, got, want)
            if what:
                return Finding(way, kind, f"{self.name(index)} {what}")
        return None

    def chooses_by_nan(self):
        """Which window's element a gradient goes to, or which side of a minimum or a relu, where a
        NaN that may spread (below) is compared with numbers."""
        return self.ops & POOLS or self.masks_keys() and len(self.truth.case.nodes) > 1

    def is_gradient(self, index):
        return self.truth.second or index > len(self.truth.plan.outputs)

    def name(self, index):
        plan = self.truth.plan
        if self.truth.second:
            return f"second derivative of input {plan.wrt[index]}"
        if index < len(plan.outputs):
            return f"output {index}"
        if index == len(plan.outputs):
            return "weighted sum of the outputs"
        return f"gradient of input {plan.wrt[index - len(plan.outputs) - 1]}"

    def compare(self, way, index, got, want):
        if got.shape != want.shape:
            return "error", f"has shape {list(got.shape)}, expected {list(want.shape)}"
        if want.dtype == numpy.int64:
            return "value", describe(got != want, got, want, None)
        pattern = self.wrong_pattern(way, index, got, want)
        if pattern.any():
            return "NaN", describe(pattern, got, want, None)
        for samples, factor in ((FEW, 1.0), (MANY, 2.0)):
            bound = self.bound(way, index, want, samples, factor)
            off = finite_difference(got, want)
            if not (off > bound).any():
                return "value", ""
        return "value", describe(off > bound, got, want, bound)

    def precision(self, way):
        return "bfloat16" if way == "in bfloat16" else self.dtype

    def wrong_pattern(self, way, index, got, want):
        with numpy.errstate(invalid="ignore"):
            wrong = ~((got == want) | (numpy.isfinite(got) & numpy.isfinite(want)))
            wrong &= ~(numpy.isnan(got) & numpy.isnan(want))
            # What is near the largest number, or infinite in PyTorch too, may be infinite.
            wrong &= ~(numpy.abs(want) > LARGEST[self.dtype] / 8) | numpy.isinf(want)
        peer = self.truth.peer
        if peer is not None:
            wrong &= ~((peer[index] == got) | (numpy.isnan(peer[index]) & numpy.isnan(got)))
        if self.truth.case.is_special() and self.may_spread(way, index):
            wrong &= numpy.isfinite(got)
        if self.truth.case.is_special() and self.ops & PLACED:
            wrong &= False
        if self.is_gradient(index) and (self.ops & NAN_GRADIENTS or self.masks_keys()):
            wrong &= numpy.isfinite(want)
        if way == "step engine" and self.is_gradient(index):  # infinity less itself
            wrong &= numpy.isfinite(self.parameter(index))
        if wrong.any():
            wrong &= ~self.truth.has_pattern_nearby(index, got, 2 * EPSILON[self.precision(way)])
        return wrong

    def masks_keys(self):
        """Keys that a query does not see have nothing of its NaN, where PyTorch multiplies by 0."""
        return any(
            node["op"] == "attention" and (node["attrs"]["causal"] or len(node["in"]) > 3)
            for node in self.truth.case.nodes
        )

    def may_spread(self, way, index):
        """A NaN reaches the whole of Winograd's tile that it stands in; in bfloat16 the rows beside
        it, since a convolution takes pairs; in a convolution's gradients what the padding is
        multiplied by, where a matrix product computes it; and in a net's gradients whatever a zero
        times it is added to, which depends on the order of the sums."""
        convolves = not self.ops.isdisjoint({"conv", "conv_transpose"})
        if self.masks_keys():  # rows that are computed together multiply what one of them sees
            return True
        if self.has_winograd and way in WINOGRAD_WAYS:
            return True
        if convolves and (self.precision(way) == "bfloat16" or self.is_gradient(index)):
            return True
        spreads = len(self.truth.case.nodes) > 1 or self.ops & SPREADING_GRADIENTS
        return bool(spreads) and self.is_gradient(index)

    def gradients(self):
        exact = self.truth.exact
        return exact if self.truth.second else exact[len(self.truth.plan.outputs) + 1 :]

    def parameter(self, index):
        return self.truth.arrays[self.truth.plan.wrt[index - len(self.truth.plan.outputs) - 1]]

    def bound(self, way, index, want, samples, factor):
        epsilon = EPSILON[self.precision(way)]
        scale = greatest(finite_part(want))
        cancels = False
        if self.is_gradient(index):  # one that is zero in truth is made of others that are not
            own = scale
            scale = max([scale, 0.1] + [greatest(finite_part(g)) for g in self.gradients()])
            cancels = own < ZERO_IN_TRUTH * scale
        if self.is_gradient(index) and "attention" in self.ops:  # times queries or keys
            scale *= max([1.0] + [greatest(finite_part(x)) for x in self.truth.arrays])
        measured = greatest(self.truth.moved(index, factor * epsilon, samples))
        if self.truth.peer is not None and self.precision(way) == self.dtype:
            measured = max(measured, self.truth.peer_error(index, 0 if samples == FEW else samples))
        bound = (PEER_FACTOR * measured + ULPS * epsilon * scale) * (CANCEL_FACTOR if cancels else 1)
        if self.has_winograd and way in WINOGRAD_WAYS:
            bound *= WINOGRAD_FACTOR
        if self.truth.second:
            bound *= SECOND_FACTOR
        if way == "step engine" and self.is_gradient(index):  # what a parameter loses
            bound += 2 * epsilon * greatest(finite_part(self.parameter(index)))
        bound = numpy.full(want.shape, bound + 4 * SMALLEST[self.dtype])
        if self.is_plain_convolution(way):  # an element that no product reaches
            still = (want == 0) & (self.truth.moved(index, factor * epsilon, samples) == 0)
            bound[still] = 4 * SMALLEST[self.dtype]
        return bound

    def is_plain_convolution(self, way):
        if way in WINOGRAD_WAYS and self.has_winograd or way == "step engine":
            return False
        return self.ops in ({"conv"}, {"conv_transpose"})


def describe(wrong, got, want, bound):
    """The first wrong element and how many there are; empty where there is none."""
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    text = f"at {list(at)}: {got[at]!r}, expected {want[at]!r}"
    if bound is not None:
        text += f" (may be off by {bound[at]:.3g})"
    return text + f"; {int(wrong.sum())} of {wrong.size} elements are wrong"


def has_winograd(case):
    for node in case.nodes:
        if node["op"] == "conv" and all(s == 1 for s in node["attrs"].get("stride", [1])):
            return True
    return False


def ways_for(case, ways):
    """The step engine counts subnormal numbers as zeros, so other elements of a pool are largest."""
    return [w for w in ways if w != "step engine" or not case.has("subnormal")]


def check(server, case, plan, ways):
    """The first Finding in any of the ways, or None."""
    arrays = plan.arrays(case.dtype)
    firsts = [w for w in ways_for(case, ways) if not w.startswith("second")]
    judge = Judge(Truth(server, case, plan, arrays), has_winograd(case))
    for way, results in list(server.run(plan.request(case.dtype), arrays, firsts)):
        finding = judge.judge(way, results)
        if finding:
            return finding
    if not case.second or not plan.wrt:
        return None
    judge = Judge(Truth(server, case, plan, arrays, second=True), has_winograd(case))
    seconds = [w for w in ways if w.startswith("second")]
    for way, results in list(server.run(plan.request(case.dtype), arrays, seconds)):
        finding = judge.judge(way, results)
        if finding:
            return finding
    return None
