// SPDX-License-Identifier: Apache-2.0
// ZeroMQ's functions, as its header declares them: the library is loaded when one is called.
#include <zmq.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libzmq.so.5"
#endif

namespace {

constinit lockstep::LazyLibrary library("zmq", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

const char* zmq_strerror(int number) {
  static constinit Call<decltype(zmq_strerror)> call(library, "zmq_strerror");
  return call(number);
}

int zmq_errno() {
  static constinit Call<decltype(zmq_errno)> call(library, "zmq_errno");
  return call();
}

void* zmq_ctx_new() {
  static constinit Call<decltype(zmq_ctx_new)> call(library, "zmq_ctx_new");
  return call();
}

int zmq_ctx_term(void* context) {
  static constinit Call<decltype(zmq_ctx_term)> call(library, "zmq_ctx_term");
  return call(context);
}

int zmq_ctx_shutdown(void* context) {
  static constinit Call<decltype(zmq_ctx_shutdown)> call(library, "zmq_ctx_shutdown");
  return call(context);
}

int zmq_ctx_set(void* context, int option, int value) {
  static constinit Call<decltype(zmq_ctx_set)> call(library, "zmq_ctx_set");
  return call(context, option, value);
}

void* zmq_socket(void* context, int type) {
  static constinit Call<decltype(zmq_socket)> call(library, "zmq_socket");
  return call(context, type);
}

int zmq_close(void* socket) {
  static constinit Call<decltype(zmq_close)> call(library, "zmq_close");
  return call(socket);
}

int zmq_setsockopt(void* socket, int option, const void* value, size_t length) {
  static constinit Call<decltype(zmq_setsockopt)> call(library, "zmq_setsockopt");
  return call(socket, option, value, length);
}

int zmq_getsockopt(void* socket, int option, void* value, size_t* length) {
  static constinit Call<decltype(zmq_getsockopt)> call(library, "zmq_getsockopt");
  return call(socket, option, value, length);
}

int zmq_bind(void* socket, const char* address) {
  static constinit Call<decltype(zmq_bind)> call(library, "zmq_bind");
  return call(socket, address);
}

int zmq_connect(void* socket, const char* address) {
  static constinit Call<decltype(zmq_connect)> call(library, "zmq_connect");
  return call(socket, address);
}

int zmq_unbind(void* socket, const char* address) {
  static constinit Call<decltype(zmq_unbind)> call(library, "zmq_unbind");
  return call(socket, address);
}

int zmq_disconnect(void* socket, const char* address) {
  static constinit Call<decltype(zmq_disconnect)> call(library, "zmq_disconnect");
  return call(socket, address);
}

int zmq_send(void* socket, const void* bytes, size_t length, int flags) {
  static constinit Call<decltype(zmq_send)> call(library, "zmq_send");
  return call(socket, bytes, length, flags);
}

int zmq_recv(void* socket, void* bytes, size_t length, int flags) {
  static constinit Call<decltype(zmq_recv)> call(library, "zmq_recv");
  return call(socket, bytes, length, flags);
}

int zmq_socket_monitor(void* socket, const char* address, int events) {
  static constinit Call<decltype(zmq_socket_monitor)> call(library, "zmq_socket_monitor");
  return call(socket, address, events);
}

int zmq_msg_init(zmq_msg_t* message) {
  static constinit Call<decltype(zmq_msg_init)> call(library, "zmq_msg_init");
  return call(message);
}

int zmq_msg_init_size(zmq_msg_t* message, size_t size) {
  static constinit Call<decltype(zmq_msg_init_size)> call(library, "zmq_msg_init_size");
  return call(message, size);
}

int zmq_msg_init_data(zmq_msg_t* message, void* data, size_t size, zmq_free_fn* release,
                      void* hint) {
  static constinit Call<decltype(zmq_msg_init_data)> call(library, "zmq_msg_init_data");
  return call(message, data, size, release, hint);
}

int zmq_msg_send(zmq_msg_t* message, void* socket, int flags) {
  static constinit Call<decltype(zmq_msg_send)> call(library, "zmq_msg_send");
  return call(message, socket, flags);
}

int zmq_msg_recv(zmq_msg_t* message, void* socket, int flags) {
  static constinit Call<decltype(zmq_msg_recv)> call(library, "zmq_msg_recv");
  return call(message, socket, flags);
}

int zmq_msg_close(zmq_msg_t* message) {
  static constinit Call<decltype(zmq_msg_close)> call(library, "zmq_msg_close");
  return call(message);
}

int zmq_msg_move(zmq_msg_t* target, zmq_msg_t* source) {
  static constinit Call<decltype(zmq_msg_move)> call(library, "zmq_msg_move");
  return call(target, source);
}

int zmq_msg_copy(zmq_msg_t* target, zmq_msg_t* source) {
  static constinit Call<decltype(zmq_msg_copy)> call(library, "zmq_msg_copy");
  return call(target, source);
}

void* zmq_msg_data(zmq_msg_t* message) {
  static constinit Call<decltype(zmq_msg_data)> call(library, "zmq_msg_data");
  return call(message);
}

size_t zmq_msg_size(const zmq_msg_t* message) {
  static constinit Call<decltype(zmq_msg_size)> call(library, "zmq_msg_size");
  return call(message);
}

int zmq_msg_more(const zmq_msg_t* message) {
  static constinit Call<decltype(zmq_msg_more)> call(library, "zmq_msg_more");
  return call(message);
}

int zmq_msg_get(const zmq_msg_t* message, int property) {
  static constinit Call<decltype(zmq_msg_get)> call(library, "zmq_msg_get");
  return call(message, property);
}

int zmq_poll(zmq_pollitem_t* items, int count, long timeout) {
  static constinit Call<decltype(zmq_poll)> call(library, "zmq_poll");
  return call(items, count, timeout);
}

uint8_t* zmq_z85_decode(uint8_t* target, const char* text) {
  static constinit Call<decltype(zmq_z85_decode)> call(library, "zmq_z85_decode");
  return call(target, text);
}

char* zmq_z85_encode(char* target, const uint8_t* bytes, size_t size) {
  static constinit Call<decltype(zmq_z85_encode)> call(library, "zmq_z85_encode");
  return call(target, bytes, size);
}

int zmq_curve_keypair(char* public_key, char* secret_key) {
  static constinit Call<decltype(zmq_curve_keypair)> call(library, "zmq_curve_keypair");
  return call(public_key, secret_key);
}

}  // extern "C"
