// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/parameter_server.h"

#include "lockstep/base/error.h"

namespace lockstep::train {

std::unique_ptr<kvstore::Mode> served_mode(cluster::Job& /*job*/,
                                           const ServedModeOptions& options) {
  throw Unsupported("kvstore '{}': there are no parameter servers yet", options.type);
}

void run_parameter_server(cluster::Job& /*job*/, const ParameterServerOptions& /*options*/) {
  throw Unsupported("kvstore: there are no parameter servers yet");
}

}  // namespace lockstep::train
