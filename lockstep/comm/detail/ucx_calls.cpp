// SPDX-License-Identifier: Apache-2.0
// OpenUCX's functions, as its headers declare them: the library is loaded when one is called. Those
// of libucs are found too, since libucp needs it.
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libucp.so.0"
#endif

namespace {

constinit lockstep::LazyLibrary library("ucx", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

const char* ucs_status_string(ucs_status_t status) {
  static constinit Call<decltype(ucs_status_string)> call(library, "ucs_status_string");
  return call(status);
}

void ucs_log_push_handler(ucs_log_func_t handler) {
  static constinit Call<decltype(ucs_log_push_handler)> call(library, "ucs_log_push_handler");
  return call(handler);
}

void ucs_debug_disable_signal(int signal) {
  static constinit Call<decltype(ucs_debug_disable_signal)> call(library,
                                                                 "ucs_debug_disable_signal");
  return call(signal);
}

ucs_status_t ucp_config_read(const char* prefix, const char* file, ucp_config_t** config) {
  static constinit Call<decltype(ucp_config_read)> call(library, "ucp_config_read");
  return call(prefix, file, config);
}

ucs_status_t ucp_config_modify(ucp_config_t* config, const char* name, const char* value) {
  static constinit Call<decltype(ucp_config_modify)> call(library, "ucp_config_modify");
  return call(config, name, value);
}

void ucp_config_release(ucp_config_t* config) {
  static constinit Call<decltype(ucp_config_release)> call(library, "ucp_config_release");
  return call(config);
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params,
                              const ucp_config_t* config, ucp_context_h* context) {
  static constinit Call<decltype(ucp_init_version)> call(library, "ucp_init_version");
  return call(major, minor, params, config, context);
}

void ucp_cleanup(ucp_context_h context) {
  static constinit Call<decltype(ucp_cleanup)> call(library, "ucp_cleanup");
  return call(context);
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t* params,
                               ucp_worker_h* worker) {
  static constinit Call<decltype(ucp_worker_create)> call(library, "ucp_worker_create");
  return call(context, params, worker);
}

void ucp_worker_destroy(ucp_worker_h worker) {
  static constinit Call<decltype(ucp_worker_destroy)> call(library, "ucp_worker_destroy");
  return call(worker);
}

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t** address, size_t* length) {
  static constinit Call<decltype(ucp_worker_get_address)> call(library, "ucp_worker_get_address");
  return call(worker, address, length);
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t* address) {
  static constinit Call<decltype(ucp_worker_release_address)> call(library,
                                                                   "ucp_worker_release_address");
  return call(worker, address);
}

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int* descriptor) {
  static constinit Call<decltype(ucp_worker_get_efd)> call(library, "ucp_worker_get_efd");
  return call(worker, descriptor);
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker) {
  static constinit Call<decltype(ucp_worker_arm)> call(library, "ucp_worker_arm");
  return call(worker);
}

unsigned ucp_worker_progress(ucp_worker_h worker) {
  static constinit Call<decltype(ucp_worker_progress)> call(library, "ucp_worker_progress");
  return call(worker);
}

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t* params) {
  static constinit Call<decltype(ucp_worker_flush_nbx)> call(library, "ucp_worker_flush_nbx");
  return call(worker, params);
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint) {
  static constinit Call<decltype(ucp_ep_create)> call(library, "ucp_ep_create");
  return call(worker, params, endpoint);
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h endpoint, const ucp_request_param_t* params) {
  static constinit Call<decltype(ucp_ep_close_nbx)> call(library, "ucp_ep_close_nbx");
  return call(endpoint, params);
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h endpoint, const void* bytes, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t* params) {
  static constinit Call<decltype(ucp_tag_send_nbx)> call(library, "ucp_tag_send_nbx");
  return call(endpoint, bytes, count, tag, params);
}

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t* info) {
  static constinit Call<decltype(ucp_tag_probe_nb)> call(library, "ucp_tag_probe_nb");
  return call(worker, tag, mask, remove, info);
}

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void* bytes, size_t count,
                                      ucp_tag_message_h message,
                                      const ucp_request_param_t* params) {
  static constinit Call<decltype(ucp_tag_msg_recv_nbx)> call(library, "ucp_tag_msg_recv_nbx");
  return call(worker, bytes, count, message, params);
}

ucs_status_t ucp_request_check_status(void* request) {
  static constinit Call<decltype(ucp_request_check_status)> call(library,
                                                                 "ucp_request_check_status");
  return call(request);
}

void ucp_request_free(void* request) {
  static constinit Call<decltype(ucp_request_free)> call(library, "ucp_request_free");
  return call(request);
}

}  // extern "C"
