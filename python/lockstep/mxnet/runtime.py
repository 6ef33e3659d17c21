# SPDX-License-Identifier: Apache-2.0
"""What this build has."""

from collections import namedtuple

Feature = namedtuple("Feature", ["name", "enabled"])
_ENABLED = ("CPU_SSE", "CPU_SSE2", "CPU_SSE3", "CPU_AVX", "CPU_AVX2", "F16C", "OPENMP", "DIST_KVSTORE",
            "SIGNAL_HANDLER", "INT64_TENSOR_SIZE")
_DISABLED = ("CUDA", "CUDNN", "NCCL", "TENSORRT", "CUDA_RTC", "MKLDNN", "OPENCV", "LAPACK", "BLAS_MKL",
             "CAFFE", "PROFILER", "DEBUG", "TVM_OP", "JEMALLOC", "SSE")


class Features(dict):
    """Features by name."""

    def __init__(self):
        super().__init__([(name, Feature(name, True)) for name in _ENABLED]
                         + [(name, Feature(name, False)) for name in _DISABLED])

    def is_enabled(self, feature_name):
        """Whether it is there; a name that nobody knows is an error."""
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self)}")
        return self[name].enabled

    def __repr__(self):
        return str(["{} {}".format("✔" if f.enabled else "✖", f.name) for f in self.values()])


def feature_list():
    """All features."""
    return list(Features().values())
