# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `lockstep bench step`: forward, loss, backward and SGD with momentum, one thread.

step_peer.py                      every recipe, each in a process of its own: one JSON line a recipe
step_peer.py --serve --model M    answers `window SECONDS` lines until standard input ends
step_peer.py --dump DIR --model M writes weights, inputs, loss and gradients as .npy files
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import torch_threads

torch_threads.use(1)

try:
    import numpy as np
    import torch
except ImportError as error:
    print(json.dumps({"error": f"{sys.executable}: {error}"}), flush=True)
    sys.exit(77)  # for ctest: skipped

from recipes import RECIPES  # noqa: E402
from step import Step  # noqa: E402

WARM_UP_STEPS = 3


def serve(name, channels_last):
    step = Step(name, channels_last)
    for _ in range(WARM_UP_STEPS):
        step.run()
    print(json.dumps({"ready": name, **step.facts()}), flush=True)
    for line in sys.stdin:
        rate = step.window(float(line.split()[1]))
        print(json.dumps({"samples_per_s": rate, **step.facts()}), flush=True)


def ask(peer, line=None):
    if line:
        peer.stdin.write(line + "\n")
        peer.stdin.flush()
    return json.loads(peer.stdout.readline())


def measure(name, channels_last, windows, seconds):
    command = [sys.executable, os.path.abspath(__file__), "--serve", "--model", name]
    if channels_last:
        command.append("--channels-last")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        ask(peer)
        answers = [ask(peer, f"window {seconds}") for _ in range(windows)]
        peer.stdin.close()
    best = answers[-1]
    best["samples_per_s"] = statistics.median(answer["samples_per_s"] for answer in answers)
    return {"name": name, **best}


def measure_all(names, windows, seconds):
    for name in names:
        layouts = (False, True) if RECIPES[name].image else (False,)
        results = [measure(name, layout, windows, seconds) for layout in layouts]
        print(json.dumps(max(results, key=lambda result: result["samples_per_s"])), flush=True)


def dump(name, folder, batch, seed):
    """What the equality test reads: a .npy file for each tensor and a manifest with the loss.

    Weights and data are float32; loss and gradients are computed from them in float64. In float32
    PyTorch differs from itself: where a value before a relu is nearer to zero than rounding, its
    slope flips, and ResNet's gradients move by 1e-3 from one memory format to the other. The
    default batch and seed have no such value.
    """
    step = Step(name, False, seed)
    os.makedirs(folder, exist_ok=True)

    def save(key, tensor):
        np.save(os.path.join(folder, key + ".npy"), tensor.detach().contiguous().numpy())

    def as_double(tensor):
        return tensor.double() if tensor.is_floating_point() else tensor

    inputs, labels = [x[:batch] for x in step.inputs], step.labels[:batch]
    for number, field in enumerate([*inputs, labels]):
        save(f"field{number}", field)
    for key, parameter in step.model.named_parameters():
        save("weight." + key, parameter)
    model = step.model.double()
    loss = step.loss(model(*map(as_double, inputs)), as_double(labels))
    loss.backward()
    for key, parameter in model.named_parameters():
        save("gradient." + key, parameter.grad)
    manifest = {
        "model": name,
        "batch": batch,
        "seed": seed,
        "fields": len(inputs) + 1,
        "loss": loss.item(),
        "parameters": {key: list(value.shape) for key, value in model.named_parameters()},
    }
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=list(RECIPES), action="append")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--dump", metavar="DIR")
    parser.add_argument("--batch", type=int, default=2, help="samples in --dump")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.model or list(RECIPES)
    if options.serve:
        serve(names[0], options.channels_last)
    elif options.dump:
        for name in names:
            dump(name, os.path.join(options.dump, name), options.batch, options.seed)
    else:
        measure_all(names, options.windows, options.seconds)


if __name__ == "__main__":
    main()
