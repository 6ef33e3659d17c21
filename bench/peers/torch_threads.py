# SPDX-License-Identifier: Apache-2.0
"""Call use() before importing torch: so many threads, and the OpenBLAS kernels that this CPU deserves.

Debian 12's OpenBLAS does not know CPUs newer than itself and gives them its kernels of 2004
("Prescott"), a fifth as fast. A comparison with that would be unfair to PyTorch.
"""

import os


def cpu_flags():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("flags"):
                return set(line.split())
    return set()


def use(threads):
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    flags = cpu_flags()
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    elif {"avx2", "fma"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
