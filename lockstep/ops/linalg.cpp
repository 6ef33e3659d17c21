// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/linalg.h"

#include <algorithm>
#include <limits>

#include "lockstep/ops/cpu/lapack.h"
#include "lockstep/ops/cpu/linalg.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/linalg_attrs.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/matrix_parts.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

using Tensors = std::vector<Tensor>;

// Inference

void check_matrices(const InferArgs& args, const char* name, const TensorInfo& x) {
  if (!is_floating(x.dtype))
    throw InvalidArgument("{}: {} is {}, expected a floating dtype", args.op, name,
                          name_of(x.dtype));
  const int rank = x.shape.rank();
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  if (rank < 2 || x.shape[rank - 2] > kLargest || x.shape[rank - 1] > kLargest)
    throw InvalidArgument("{}: {} has shape {}, expected matrices in its last two axes", args.op,
                          name, x.shape.str());
}

// LAPACK counts its room with an int.
void check_work(const InferArgs& args, std::int64_t elements) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (elements > kMost)
    throw InvalidArgument(
        "{}: a has shape {}: LAPACK would need room for {} elements, and can have {}", args.op,
        args.inputs[0].shape.str(), elements, kMost);
}

void check_square(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  check_matrices(args, "a", a);
  const int rank = a.shape.rank();
  if (a.shape[rank - 2] != a.shape[rank - 1])
    throw InvalidArgument("{}: a has shape {}, expected square matrices", args.op, a.shape.str());
}

Shape batch_of(const Shape& shape) {
  return Shape(shape.span().first(static_cast<std::size_t>(shape.rank() - 2)));
}

TensorInfo with_axes(const TensorInfo& a, std::initializer_list<std::int64_t> sizes) {
  Shape shape = batch_of(a.shape);
  for (std::int64_t size : sizes) shape.push_back(size);
  return {shape, a.dtype, a.device};
}

Infos infer_square(const InferArgs& args) {
  check_square(args);
  return {args.inputs[0]};
}

Infos infer_solve(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  const TensorInfo& b = args.inputs[1];
  check_square(args);
  check_matrices(args, "b", b);
  const int rank = b.shape.rank();
  if (a.dtype != b.dtype)
    throw InvalidArgument("{}: a is {}, b is {}", args.op, name_of(a.dtype), name_of(b.dtype));
  if (a.shape.back() != b.shape[rank - 2])
    throw InvalidArgument("{}: a has shape {}, b has shape {}: {} and {} rows", args.op,
                          a.shape.str(), b.shape.str(), a.shape.back(), b.shape[rank - 2]);
  Shape shape = broadcast_shapes(args.op, batch_of(a.shape), batch_of(b.shape));
  shape.push_back(b.shape[rank - 2]);
  shape.push_back(b.shape[rank - 1]);
  return {{shape, a.dtype, a.device}};
}

Infos infer_det(const InferArgs& args) {
  check_square(args);
  return {with_axes(args.inputs[0], {})};
}

Infos infer_cofactors(const InferArgs& args) {
  check_square(args);
  const std::int64_t n = args.inputs[0].shape.back();
  check_work(args, kernels::lapack::gesdd_work(n, n));
  return {args.inputs[0]};
}

Infos infer_slogdet(const InferArgs& args) {
  const TensorInfo each = infer_det(args)[0];
  return {each, each};
}

Infos infer_svd(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  check_matrices(args, "a", a);
  const std::int64_t m = a.shape[a.shape.rank() - 2], n = a.shape.back(), k = std::min(m, n);
  check_work(args, kernels::lapack::gesdd_work(m, n));
  return {with_axes(a, {m, k}), with_axes(a, {k}), with_axes(a, {k, n})};
}

Infos infer_qr(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  check_matrices(args, "a", a);
  const std::int64_t m = a.shape[a.shape.rank() - 2], n = a.shape.back(), k = std::min(m, n);
  check_work(args, kernels::lapack::geqrf_work(n));
  return {with_axes(a, {m, k}), with_axes(a, {k, n})};
}

Infos infer_eigh(const InferArgs& args) {
  check_square(args);
  const TensorInfo& a = args.inputs[0];
  check_work(args, kernels::lapack::syevd_work(a.shape.back()));
  return {with_axes(a, {a.shape.back()}), a};
}

// Gradients (M. Giles: "Collected matrix derivative results for forward and reverse mode
// algorithmic differentiation", 2008; for svd and qr: M. Seeger et al.: "Auto-differentiating
// linear algebra", 2017)

Tensor transposed(const Tensor& x) { return swap_axes(x, -2, -1); }
Tensor as_row(const Tensor& x) { return expand_dims(x, x.rank() - 1); }
Tensor as_column(const Tensor& x) { return expand_dims(x, x.rank()); }
Tensor symmetric_part(const Tensor& x) { return (x + transposed(x)) * 0.5; }

// With p the lower half of l^T g, its diagonal halved: l^-T p l^-1.
Tensors cholesky_gradient(const GradientArgs& args) {
  const Tensor& l = args.outputs[0];
  const Tensor product = matmul(l, args.grad(), true);
  const Tensor half = (tril(product) + tril(product, -1)) * 0.5;
  const Tensor left = solve_triangular(l, half, false, true);
  return {symmetric_part(solve_triangular(l, transposed(left), false, true))};
}

Tensors solve_gradient(const GradientArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor grad_b = solve(transposed(a), args.grad());
  Tensors grads(2);
  if (args.needs_grad(0))
    grads[0] = sum_to(negative(matmul(grad_b, args.outputs[0], false, true)), a.shape());
  if (args.needs_grad(1)) grads[1] = sum_to(grad_b, args.inputs[1].shape());
  return grads;
}

Tensors solve_triangular_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<TriangularAttrs>();
  const Tensor& a = args.inputs[0];
  const Tensor& x = args.outputs[0];
  const Tensor grad_b = solve_triangular(a, args.grad(), attrs.upper, !attrs.transpose);
  Tensors grads(2);
  if (args.needs_grad(0)) {
    const Tensor whole =
        negative(attrs.transpose ? matmul(x, grad_b, false, true) : matmul(grad_b, x, false, true));
    grads[0] = sum_to(attrs.upper ? triu(whole) : tril(whole), a.shape());
  }
  if (args.needs_grad(1)) grads[1] = sum_to(grad_b, args.inputs[1].shape());
  return grads;
}

Tensors inverse_gradient(const GradientArgs& args) {
  const Tensor& y = args.outputs[0];
  return {negative(matmul(matmul(y, args.grad(), true), y, false, true))};
}

Tensors det_gradient(const GradientArgs& args) {
  return {as_column(as_column(args.grad())) * cofactors(args.inputs[0])};
}

// Of c = det(a) a^-T: c sum(g * a^-T) - c g^T a^-T.
Tensors cofactors_gradient(const GradientArgs& args) {
  const Tensor &c = args.outputs[0], &g = args.grad();
  const Tensor inverted = transposed(inverse(args.inputs[0]));
  return {sum(g * inverted, {-2, -1}, true) * c - matmul(matmul(c, g, false, true), inverted)};
}

// The sign is constant.
Tensors slogdet_gradient(const GradientArgs& args) {
  const Tensor& g = args.output_grads[1];
  if (!g) return {{}};
  return {as_column(as_column(g)) * transposed(inverse(args.inputs[0]))};
}

void add_to(Tensor& total, const Tensor& part) { total = total ? total + part : part; }

// x over the distances from the value of its row to that of its column; its diagonal as it is.
Tensor over_distances(const Tensor& x, const Tensor& values) {
  const Tensor distance = as_row(values) - as_column(values);
  return x / (distance + eye(values.shape().back(), -1, 0, x.dtype(), x.device()));
}

// What flows inside of the spans of u and vh; what reaches out of them comes on top.
Tensor svd_inner(const Tensors& usv, std::span<const Tensor> grads) {
  const Tensor &u = usv[0], &s = usv[1], &vh = usv[2];
  Tensor middle;
  if (grads[1]) middle = diag_embed(grads[1]);
  if (grads[0]) {
    const Tensor turn = matmul(u, grads[0], true);
    add_to(middle, over_distances(turn - transposed(turn), square(s)) * as_row(s));
  }
  if (grads[2]) {
    const Tensor turn = matmul(vh, grads[2], false, true);
    add_to(middle, over_distances(turn - transposed(turn), square(s)) * as_column(s));
  }
  return matmul(matmul(u, middle), vh);
}

Tensors svd_gradient(const GradientArgs& args) {
  const Tensors usv(args.outputs.begin(), args.outputs.end());
  const Tensor &u = usv[0], &s = usv[1], &vh = usv[2];
  const Tensor &grad_u = args.output_grads[0], &grad_vh = args.output_grads[2];
  const std::int64_t k = s.shape().back();
  Tensor grad = svd_inner(usv, args.output_grads);
  if (grad_u && u.shape(-2) > k) {
    const Tensor outside = grad_u - matmul(u, matmul(u, grad_u, true));
    add_to(grad, matmul(outside / as_row(s), vh));
  }
  if (grad_vh && vh.shape(-1) > k) {
    const Tensor outside = grad_vh - matmul(matmul(grad_vh, vh, false, true), vh);
    add_to(grad, matmul(u, outside / as_column(s)));
  }
  return {grad};
}

// With m = r gr^T - gq^T q, mirrored at its diagonal: (gq + q m) r^-T.
Tensors qr_gradient(const GradientArgs& args) {
  const Tensor &q = args.outputs[0], &r = args.outputs[1];
  const Tensor &grad_q = args.output_grads[0], &grad_r = args.output_grads[1];
  if (q.shape(-2) < r.shape(-1))
    throw Unsupported("qr: the gradient needs as many rows as columns at least, a has shape {}",
                      args.inputs[0].shape().str());
  Tensor m;
  if (grad_r) m = matmul(r, grad_r, false, true);
  if (grad_q) add_to(m, negative(matmul(grad_q, q, true)));
  Tensor whole = matmul(q, tril(m) + transposed(tril(m, -1)));
  if (grad_q) add_to(whole, grad_q);
  return {transposed(solve_triangular(r, transposed(whole), true))};
}

Tensors eigh_gradient(const GradientArgs& args) {
  const Tensor &values = args.outputs[0], &vectors = args.outputs[1];
  Tensor middle;
  if (args.output_grads[0]) middle = diag_embed(args.output_grads[0]);
  if (args.output_grads[1]) {
    // A vector keeps its length: what would flow to its own value does not.
    const Tensor turn = matmul(vectors, args.output_grads[1], true);
    add_to(middle, over_distances(tril(turn, -1) + triu(turn, 1), values));
  }
  return {symmetric_part(matmul(matmul(vectors, middle), vectors, false, true))};
}

// The ops

constexpr ArgumentDoc kSquare[] = {{"a", "floating, [..., n, n]"}};
constexpr ArgumentDoc kMatrix[] = {{"a", "floating, [..., m, n]; k is the smaller of m and n"}};
constexpr ArgumentDoc kSymmetric[] = {{"a", "floating, [..., n, n]; its symmetric part counts"}};
constexpr ArgumentDoc kSystem[] = {{"a", "floating, [..., n, n]"},
                                   {"b", "[..., n, k]; batches broadcast"}};
constexpr ArgumentDoc kLower[] = {{"l", "[..., n, n], lower triangular"}};
constexpr ArgumentDoc kSolution[] = {{"x", "[..., n, k]"}};
constexpr ArgumentDoc kInverse[] = {{"y", "[..., n, n]"}};
constexpr ArgumentDoc kDet[] = {{"y", "[...]"}};
constexpr ArgumentDoc kCofactors[] = {{"y", "[..., n, n]"}};
constexpr ArgumentDoc kSignedLog[] = {{"sign", "[...]: -1, 0 or 1"},
                                      {"logabs", "[...]; -inf where the determinant is 0"}};
constexpr ArgumentDoc kSvd[] = {{"u", "[..., m, k]: columns of length 1, at right angles"},
                                {"s", "[..., k]: singular values, descending"},
                                {"vh", "[..., k, n]: rows of length 1, at right angles"}};
constexpr ArgumentDoc kQr[] = {{"q", "[..., m, k]: columns of length 1, at right angles"},
                               {"r", "[..., k, n], upper triangular, its diagonal 0 or more"}};
constexpr ArgumentDoc kEigh[] = {{"values", "[..., n], ascending"},
                                 {"vectors", "[..., n, n]: columns of length 1"}};
constexpr OpDocs kCholeskyDocs{"The lower triangle l with l l^T = a, of positive definite a.",
                               kSymmetric, kLower};
constexpr OpDocs kSolveDocs{"x with a x = b, of regular a.", kSystem, kSolution};
constexpr OpDocs kSolveTriangularDocs{"x with a x = b, where one triangle of a counts.", kSystem,
                                      kSolution};
constexpr OpDocs kInverseDocs{"The inverse of regular matrices.", kSquare, kInverse};
constexpr OpDocs kDetDocs{"The determinant; its second derivatives need regular matrices.", kSquare,
                          kDet};
constexpr OpDocs kCofactorsDocs{
    "Of each element, the determinant without its row and column, with the sign of its place: the "
    "gradient of det. Its own gradient needs regular matrices.",
    kSquare, kCofactors};
constexpr OpDocs kSlogdetDocs{
    "The determinant as its sign and the logarithm of its magnitude; the gradient needs regular "
    "matrices.",
    kSquare, kSignedLog};
constexpr OpDocs kSvdDocs{
    "The singular value decomposition a = u diag(s) vh; the gradient of u and vh needs singular "
    "values that differ.",
    kMatrix, kSvd};
constexpr OpDocs kQrDocs{
    "a = q r, orthonormal times triangular; the gradient needs m >= n and full rank.", kMatrix,
    kQr};
constexpr OpDocs kEighDocs{
    "Eigenvalues and eigenvectors of symmetric matrices; the gradient of vectors needs values that "
    "differ.",
    kSymmetric, kEigh};

OpDef of_matrices(std::string_view name, const OpDocs& docs, InferFn infer, GradientFn gradient,
                  std::span<const KernelCandidate> kernels) {
  const int inputs = static_cast<int>(docs.inputs.size());
  return {.name = name,
          .docs = docs,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .promotion = Promotion::floating,
          .infer = infer,
          .gradient = gradient,
          .cpu = kernels};
}

struct LinalgOps {
  OpDef cholesky = of_matrices("cholesky", kCholeskyDocs, infer_square, cholesky_gradient,
                               kernels::cholesky_kernels());
  OpDef solve =
      of_matrices("solve", kSolveDocs, infer_solve, solve_gradient, kernels::solve_kernels());
  OpDef solve_triangular = [] {
    OpDef op = of_matrices("solve_triangular", kSolveTriangularDocs, infer_solve,
                           solve_triangular_gradient, kernels::solve_triangular_kernels());
    op.schema = attr_schema<TriangularAttrs>();
    return op;
  }();
  OpDef inverse = of_matrices("inverse", kInverseDocs, infer_square, inverse_gradient,
                              kernels::inverse_kernels());
  OpDef det = of_matrices("det", kDetDocs, infer_det, det_gradient, kernels::det_kernels());
  OpDef cofactors = of_matrices("cofactors", kCofactorsDocs, infer_cofactors, cofactors_gradient,
                                kernels::cofactors_kernels());
  OpDef slogdet = of_matrices("slogdet", kSlogdetDocs, infer_slogdet, slogdet_gradient,
                              kernels::slogdet_kernels());
  OpDef svd = of_matrices("svd", kSvdDocs, infer_svd, svd_gradient, kernels::svd_kernels());
  OpDef qr = of_matrices("qr", kQrDocs, infer_qr, qr_gradient, kernels::qr_kernels());
  OpDef eigh = of_matrices("eigh", kEighDocs, infer_eigh, eigh_gradient, kernels::eigh_kernels());
};

const LinalgOps& ops() {
  static const LinalgOps all;
  return all;
}

Tensors call(const OpDef& op, const Tensor& a) { return apply_promoted(op, {&a, 1}); }

// b as matrices: vectors, of one axis less than a, as single columns.
bool are_vectors(const Tensor& a, const Tensor& b) {
  if (b.rank() == 1) return true;
  Shape rows = a.shape();
  if (rows.rank() > 0) rows.erase(rows.rank() - 1);
  return b.shape() == rows;
}

template <class F>
Tensor solve_with(const char* op, const Tensor& a, const Tensor& b, F&& run) {
  detail::check_defined(op, a, 0);
  detail::check_defined(op, b, 1);
  if (!are_vectors(a, b)) return run(a, b);
  const Tensor x = run(a, as_column(b));
  return squeeze(x, {x.rank() - 1});
}

}  // namespace

Tensor cholesky(const Tensor& a) { return call(ops().cholesky, a)[0]; }
Tensor inverse(const Tensor& a) { return call(ops().inverse, a)[0]; }
Tensor det(const Tensor& a) { return call(ops().det, a)[0]; }
Tensor cofactors(const Tensor& a) { return call(ops().cofactors, a)[0]; }

Tensor solve(const Tensor& a, const Tensor& b) {
  return solve_with("solve", a, b, [](const Tensor& left, const Tensor& right) {
    return apply_one_promoted(ops().solve, {left, right});
  });
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool transpose) {
  return solve_with("solve_triangular", a, b, [&](const Tensor& left, const Tensor& right) {
    return apply_one_promoted(ops().solve_triangular, {left, right},
                              Attrs::of(TriangularAttrs{upper, transpose}));
  });
}

SignedLog slogdet(const Tensor& a) {
  const Tensors results = call(ops().slogdet, a);
  return {results[0], results[1]};
}

Svd svd(const Tensor& a) {
  const Tensors results = call(ops().svd, a);
  return {results[0], results[1], results[2]};
}

Qr qr(const Tensor& a) {
  const Tensors results = call(ops().qr, a);
  return {results[0], results[1]};
}

Eigen eigh(const Tensor& a) {
  const Tensors results = call(ops().eigh, a);
  return {results[0], results[1]};
}

namespace families {

Family linalg() {
  const LinalgOps& o = ops();
  return {&o.cholesky, &o.solve,     &o.solve_triangular, &o.inverse,
          &o.det,      &o.cofactors, &o.slogdet,          &o.svd,
          &o.qr,       &o.eigh};
}

}  // namespace families
}  // namespace lockstep
