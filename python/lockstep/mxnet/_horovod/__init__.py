# SPDX-License-Identifier: Apache-2.0
"""What `import horovod.mxnet` finds under `python3 -m lockstep.mxnet`."""
