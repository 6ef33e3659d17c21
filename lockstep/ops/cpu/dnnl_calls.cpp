// SPDX-License-Identifier: Apache-2.0
// oneDNN's functions, as its header declares them: the library, whose tables take milliseconds to
// relocate, is loaded when a kernel of it is made.
#include <dnnl.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libdnnl.so.2"
#endif

namespace {

constinit lockstep::LazyLibrary library("oneDNN", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

dnnl_status_t dnnl_batch_normalization_backward_desc_init(dnnl_batch_normalization_desc_t* desc,
                                                          dnnl_prop_kind_t prop_kind,
                                                          const dnnl_memory_desc_t* diff_data,
                                                          const dnnl_memory_desc_t* data,
                                                          float epsilon, unsigned flags) {
  static constinit Call<decltype(dnnl_batch_normalization_backward_desc_init)> call(
      library, "dnnl_batch_normalization_backward_desc_init");
  return call(desc, prop_kind, diff_data, data, epsilon, flags);
}

dnnl_status_t dnnl_batch_normalization_forward_desc_init(dnnl_batch_normalization_desc_t* desc,
                                                         dnnl_prop_kind_t prop_kind,
                                                         const dnnl_memory_desc_t* data,
                                                         float epsilon, unsigned flags) {
  static constinit Call<decltype(dnnl_batch_normalization_forward_desc_init)> call(
      library, "dnnl_batch_normalization_forward_desc_init");
  return call(desc, prop_kind, data, epsilon, flags);
}

dnnl_status_t dnnl_binary_desc_init(dnnl_binary_desc_t* desc, dnnl_alg_kind_t alg_kind,
                                    const dnnl_memory_desc_t* src0, const dnnl_memory_desc_t* src1,
                                    const dnnl_memory_desc_t* dst) {
  static constinit Call<decltype(dnnl_binary_desc_init)> call(library, "dnnl_binary_desc_init");
  return call(desc, alg_kind, src0, src1, dst);
}

dnnl_status_t dnnl_dilated_convolution_backward_data_desc_init(
    dnnl_convolution_desc_t* desc, dnnl_alg_kind_t alg_kind, const dnnl_memory_desc_t* diff_src,
    const dnnl_memory_desc_t* weights, const dnnl_memory_desc_t* diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding_l,
    const dnnl_dims_t padding_r) {
  static constinit Call<decltype(dnnl_dilated_convolution_backward_data_desc_init)> call(
      library, "dnnl_dilated_convolution_backward_data_desc_init");
  return call(desc, alg_kind, diff_src, weights, diff_dst, strides, dilates, padding_l, padding_r);
}

dnnl_status_t dnnl_dilated_convolution_backward_weights_desc_init(
    dnnl_convolution_desc_t* desc, dnnl_alg_kind_t alg_kind, const dnnl_memory_desc_t* src,
    const dnnl_memory_desc_t* diff_weights, const dnnl_memory_desc_t* diff_bias,
    const dnnl_memory_desc_t* diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding_l, const dnnl_dims_t padding_r) {
  static constinit Call<decltype(dnnl_dilated_convolution_backward_weights_desc_init)> call(
      library, "dnnl_dilated_convolution_backward_weights_desc_init");
  return call(desc, alg_kind, src, diff_weights, diff_bias, diff_dst, strides, dilates, padding_l,
              padding_r);
}

dnnl_status_t dnnl_dilated_convolution_forward_desc_init(
    dnnl_convolution_desc_t* desc, dnnl_prop_kind_t prop_kind, dnnl_alg_kind_t alg_kind,
    const dnnl_memory_desc_t* src, const dnnl_memory_desc_t* weights,
    const dnnl_memory_desc_t* bias, const dnnl_memory_desc_t* dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r) {
  static constinit Call<decltype(dnnl_dilated_convolution_forward_desc_init)> call(
      library, "dnnl_dilated_convolution_forward_desc_init");
  return call(desc, prop_kind, alg_kind, src, weights, bias, dst, strides, dilates, padding_l,
              padding_r);
}

dnnl_status_t dnnl_engine_create(dnnl_engine_t* engine, dnnl_engine_kind_t kind, size_t index) {
  static constinit Call<decltype(dnnl_engine_create)> call(library, "dnnl_engine_create");
  return call(engine, kind, index);
}

dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine) {
  static constinit Call<decltype(dnnl_engine_destroy)> call(library, "dnnl_engine_destroy");
  return call(engine);
}

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa() {
  static constinit Call<decltype(dnnl_get_effective_cpu_isa)> call(library,
                                                                   "dnnl_get_effective_cpu_isa");
  return call();
}

dnnl_status_t dnnl_inner_product_backward_data_desc_init(dnnl_inner_product_desc_t* desc,
                                                         const dnnl_memory_desc_t* diff_src,
                                                         const dnnl_memory_desc_t* weights,
                                                         const dnnl_memory_desc_t* diff_dst) {
  static constinit Call<decltype(dnnl_inner_product_backward_data_desc_init)> call(
      library, "dnnl_inner_product_backward_data_desc_init");
  return call(desc, diff_src, weights, diff_dst);
}

dnnl_status_t dnnl_inner_product_backward_weights_desc_init(dnnl_inner_product_desc_t* desc,
                                                            const dnnl_memory_desc_t* src,
                                                            const dnnl_memory_desc_t* diff_weights,
                                                            const dnnl_memory_desc_t* diff_bias,
                                                            const dnnl_memory_desc_t* diff_dst) {
  static constinit Call<decltype(dnnl_inner_product_backward_weights_desc_init)> call(
      library, "dnnl_inner_product_backward_weights_desc_init");
  return call(desc, src, diff_weights, diff_bias, diff_dst);
}

dnnl_status_t dnnl_inner_product_forward_desc_init(dnnl_inner_product_desc_t* desc,
                                                   dnnl_prop_kind_t prop_kind,
                                                   const dnnl_memory_desc_t* src,
                                                   const dnnl_memory_desc_t* weights,
                                                   const dnnl_memory_desc_t* bias,
                                                   const dnnl_memory_desc_t* dst) {
  static constinit Call<decltype(dnnl_inner_product_forward_desc_init)> call(
      library, "dnnl_inner_product_forward_desc_init");
  return call(desc, prop_kind, src, weights, bias, dst);
}

dnnl_status_t dnnl_memory_create(dnnl_memory_t* memory, const dnnl_memory_desc_t* info,
                                 dnnl_engine_t engine, void* handle) {
  static constinit Call<decltype(dnnl_memory_create)> call(library, "dnnl_memory_create");
  return call(memory, info, engine, handle);
}

int dnnl_memory_desc_equal(const dnnl_memory_desc_t* lhs, const dnnl_memory_desc_t* rhs) {
  static constinit Call<decltype(dnnl_memory_desc_equal)> call(library, "dnnl_memory_desc_equal");
  return call(lhs, rhs);
}

size_t dnnl_memory_desc_get_size(const dnnl_memory_desc_t* memory) {
  static constinit Call<decltype(dnnl_memory_desc_get_size)> call(library,
                                                                  "dnnl_memory_desc_get_size");
  return call(memory);
}

dnnl_status_t dnnl_memory_desc_init_by_strides(dnnl_memory_desc_t* memory, int ndims,
                                               const dnnl_dims_t dims, dnnl_data_type_t data_type,
                                               const dnnl_dims_t strides) {
  static constinit Call<decltype(dnnl_memory_desc_init_by_strides)> call(
      library, "dnnl_memory_desc_init_by_strides");
  return call(memory, ndims, dims, data_type, strides);
}

dnnl_status_t dnnl_memory_desc_init_by_tag(dnnl_memory_desc_t* memory, int ndims,
                                           const dnnl_dims_t dims, dnnl_data_type_t data_type,
                                           dnnl_format_tag_t tag) {
  static constinit Call<decltype(dnnl_memory_desc_init_by_tag)> call(
      library, "dnnl_memory_desc_init_by_tag");
  return call(memory, ndims, dims, data_type, tag);
}

dnnl_status_t dnnl_memory_desc_reshape(dnnl_memory_desc_t* out, const dnnl_memory_desc_t* in,
                                       int ndims, const dnnl_dims_t dims) {
  static constinit Call<decltype(dnnl_memory_desc_reshape)> call(library,
                                                                 "dnnl_memory_desc_reshape");
  return call(out, in, ndims, dims);
}

dnnl_status_t dnnl_memory_destroy(dnnl_memory_t memory) {
  static constinit Call<decltype(dnnl_memory_destroy)> call(library, "dnnl_memory_destroy");
  return call(memory);
}

dnnl_status_t dnnl_memory_set_data_handle_v2(dnnl_memory_t memory, void* handle,
                                             dnnl_stream_t stream) {
  static constinit Call<decltype(dnnl_memory_set_data_handle_v2)> call(
      library, "dnnl_memory_set_data_handle_v2");
  return call(memory, handle, stream);
}

dnnl_status_t dnnl_pooling_backward_desc_init(dnnl_pooling_desc_t* desc, dnnl_alg_kind_t alg_kind,
                                              const dnnl_memory_desc_t* diff_src,
                                              const dnnl_memory_desc_t* diff_dst,
                                              const dnnl_dims_t strides, const dnnl_dims_t kernel,
                                              const dnnl_dims_t padding_l,
                                              const dnnl_dims_t padding_r) {
  static constinit Call<decltype(dnnl_pooling_backward_desc_init)> call(
      library, "dnnl_pooling_backward_desc_init");
  return call(desc, alg_kind, diff_src, diff_dst, strides, kernel, padding_l, padding_r);
}

dnnl_status_t dnnl_pooling_forward_desc_init(
    dnnl_pooling_desc_t* desc, dnnl_prop_kind_t prop_kind, dnnl_alg_kind_t alg_kind,
    const dnnl_memory_desc_t* src, const dnnl_memory_desc_t* dst, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t padding_l, const dnnl_dims_t padding_r) {
  static constinit Call<decltype(dnnl_pooling_forward_desc_init)> call(
      library, "dnnl_pooling_forward_desc_init");
  return call(desc, prop_kind, alg_kind, src, dst, strides, kernel, padding_l, padding_r);
}

dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t* attr) {
  static constinit Call<decltype(dnnl_primitive_attr_create)> call(library,
                                                                   "dnnl_primitive_attr_create");
  return call(attr);
}

dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t attr) {
  static constinit Call<decltype(dnnl_primitive_attr_destroy)> call(library,
                                                                    "dnnl_primitive_attr_destroy");
  return call(attr);
}

dnnl_status_t dnnl_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t attr,
                                                      dnnl_scratchpad_mode_t mode) {
  static constinit Call<decltype(dnnl_primitive_attr_set_scratchpad_mode)> call(
      library, "dnnl_primitive_attr_set_scratchpad_mode");
  return call(attr, mode);
}

dnnl_status_t dnnl_primitive_create(dnnl_primitive_t* primitive,
                                    const_dnnl_primitive_desc_t primitive_desc) {
  static constinit Call<decltype(dnnl_primitive_create)> call(library, "dnnl_primitive_create");
  return call(primitive, primitive_desc);
}

dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t primitive_desc) {
  static constinit Call<decltype(dnnl_primitive_desc_destroy)> call(library,
                                                                    "dnnl_primitive_desc_destroy");
  return call(primitive_desc);
}

dnnl_status_t dnnl_primitive_desc_iterator_create(
    dnnl_primitive_desc_iterator_t* iterator, const_dnnl_op_desc_t op_desc,
    const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
    const_dnnl_primitive_desc_t hint_forward_primitive_desc) {
  static constinit Call<decltype(dnnl_primitive_desc_iterator_create)> call(
      library, "dnnl_primitive_desc_iterator_create");
  return call(iterator, op_desc, attr, engine, hint_forward_primitive_desc);
}

dnnl_status_t dnnl_primitive_desc_iterator_destroy(dnnl_primitive_desc_iterator_t iterator) {
  static constinit Call<decltype(dnnl_primitive_desc_iterator_destroy)> call(
      library, "dnnl_primitive_desc_iterator_destroy");
  return call(iterator);
}

dnnl_primitive_desc_t dnnl_primitive_desc_iterator_fetch(
    const_dnnl_primitive_desc_iterator_t iterator) {
  static constinit Call<decltype(dnnl_primitive_desc_iterator_fetch)> call(
      library, "dnnl_primitive_desc_iterator_fetch");
  return call(iterator);
}

dnnl_status_t dnnl_primitive_desc_iterator_next(dnnl_primitive_desc_iterator_t iterator) {
  static constinit Call<decltype(dnnl_primitive_desc_iterator_next)> call(
      library, "dnnl_primitive_desc_iterator_next");
  return call(iterator);
}

dnnl_status_t dnnl_primitive_desc_query(const_dnnl_primitive_desc_t primitive_desc,
                                        dnnl_query_t what, int index, void* result) {
  static constinit Call<decltype(dnnl_primitive_desc_query)> call(library,
                                                                  "dnnl_primitive_desc_query");
  return call(primitive_desc, what, index, result);
}

dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t primitive) {
  static constinit Call<decltype(dnnl_primitive_destroy)> call(library, "dnnl_primitive_destroy");
  return call(primitive);
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                     int nargs, const dnnl_exec_arg_t* args) {
  static constinit Call<decltype(dnnl_primitive_execute)> call(library, "dnnl_primitive_execute");
  return call(primitive, stream, nargs, args);
}

dnnl_status_t dnnl_reorder_primitive_desc_create(dnnl_primitive_desc_t* reorder_primitive_desc,
                                                 const dnnl_memory_desc_t* src,
                                                 dnnl_engine_t src_engine,
                                                 const dnnl_memory_desc_t* dst,
                                                 dnnl_engine_t dst_engine,
                                                 const_dnnl_primitive_attr_t attr) {
  static constinit Call<decltype(dnnl_reorder_primitive_desc_create)> call(
      library, "dnnl_reorder_primitive_desc_create");
  return call(reorder_primitive_desc, src, src_engine, dst, dst_engine, attr);
}

dnnl_status_t dnnl_set_max_cpu_isa(dnnl_cpu_isa_t isa) {
  static constinit Call<decltype(dnnl_set_max_cpu_isa)> call(library, "dnnl_set_max_cpu_isa");
  return call(isa);
}

dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                         float alpha, const float* a, dnnl_dim_t lda, const float* b,
                         dnnl_dim_t ldb, float beta, float* c, dnnl_dim_t ldc) {
  static constinit Call<decltype(dnnl_sgemm)> call(library, "dnnl_sgemm");
  return call(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

dnnl_status_t dnnl_stream_create(dnnl_stream_t* stream, dnnl_engine_t engine, unsigned flags) {
  static constinit Call<decltype(dnnl_stream_create)> call(library, "dnnl_stream_create");
  return call(stream, engine, flags);
}

dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream) {
  static constinit Call<decltype(dnnl_stream_destroy)> call(library, "dnnl_stream_destroy");
  return call(stream);
}

const dnnl_memory_desc_t* dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t desc,
                                                       dnnl_query_t what, int index) {
  static constinit Call<decltype(dnnl_primitive_desc_query_md)> call(
      library, "dnnl_primitive_desc_query_md");
  return call(desc, what, index);
}

}  // extern "C"
