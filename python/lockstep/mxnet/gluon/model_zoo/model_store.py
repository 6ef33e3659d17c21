# SPDX-License-Identifier: Apache-2.0
"""Files of trained parameters, read from a folder."""

import glob
import os

__all__ = ["get_model_file", "load_pretrained", "purge"]
_ROOT = os.path.join("~", ".mxnet", "models")


def get_model_file(name, root=_ROOT):
    """The file of a model's parameters in the folder: name-hash.params or name.params."""
    root = os.path.expanduser(root)
    found = sorted(glob.glob(os.path.join(root, f"{name}-*.params"))
                   + glob.glob(os.path.join(root, f"{name}.params")))
    if not found:
        raise FileNotFoundError(f"model_zoo: there is no {name}-*.params in {root}; put the file of "
                                "trained parameters there, or give root=")
    return found[0]


def load_pretrained(net, name, pretrained, root, ctx):
    """Loads parameters where they are wanted; returns the net."""
    if pretrained:
        net.load_parameters(get_model_file(name, root or _ROOT), ctx=ctx)
    return net


def purge(root=_ROOT):
    """Removes the folder's parameters."""
    for path in glob.glob(os.path.join(os.path.expanduser(root), "*.params")):
        os.remove(path)
