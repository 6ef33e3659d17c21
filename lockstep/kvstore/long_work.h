// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "lockstep/kvstore/group.h"

namespace lockstep::kvstore {

// Work that takes each worker a time of its own, such as fetching data; returns when all are done.
// There is no deadline for the work, but for signs of life: another thread tells the others every
// now and then that this worker is at it, and how long the thread that works has used no processor
// time. A worker that is not heard within the group's own deadline, or whose work has stood
// still for longer than `patience` (a file that does not answer), is a Timeout for all others; one
// whose work throws, Aborted. They hear of it at once and throw it when their own work is done,
// which is not interrupted. `what` begins the messages.
void work_together(Group& group, std::chrono::milliseconds patience, const std::string& what,
                   const std::function<void()>& work);

}  // namespace lockstep::kvstore
