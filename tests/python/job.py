# SPDX-License-Identifier: Apache-2.0
"""A worker that talks to the others; the first one prints what all of them know in the end."""

import numpy as np

import lockstep as ls

job = ls.join_job()
x = ls.full((3,), job.rank + 1.0)
total = job.all_reduce(x)
largest = job.all_reduce(x, "max")
first = job.broadcast(x, root=job.workers - 1)
all_of_them = job.all_gather(ls.tensor([job.rank]))
job.barrier()

store = ls.kvstore.create("dist_sync", job)
store.init("w", ls.zeros(2))
store.set_optimizer(ls.optim.sgd(learning_rate=1.0))
store.push("w", np.full(2, job.rank + 1, "float32"))
store.barrier()
own = ls.stack([total[0], largest[0], first[0], store.pull("w")[1]])
everybody = job.all_gather(own)
if job.is_first:
    print("know", everybody.tolist(), all_of_them.tolist(), store.num_workers, flush=True)
