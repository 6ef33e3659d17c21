// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

int main(int argc, char** argv) { return lockstep::cli::run(argc, argv); }
