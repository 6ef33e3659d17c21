// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a program that trains models needs; each part can be included alone.
#include "lockstep/autograd/autograd.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/data/transform.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/symbol.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/metric.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/optim/updater.h"
#include "lockstep/train/join_job.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/predict.h"
#include "lockstep/train/trainer.h"
