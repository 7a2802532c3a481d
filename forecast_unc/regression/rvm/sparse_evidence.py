"""Sparse Bayesian learning on a design: y = Phi w + noise, w_i ~ N(0, 1 / alpha_i), noise s^2."""

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrsm
from scipy.linalg.lapack import dgeqrf, dpotrf, dpotri, dpotrs, dtrtri

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.regression.kernels import exponent_factors

# A candidate this close to the span of the model (share of its squared norm that is left, weighted
# for classes) is not a candidate: its s and q are roundoff.
SPAN_TOLERANCE = 1e-9


# Rows an input from which the plain prior is honest: below, it takes noise for a function. Of pure
# noise the learned std is .92, .51 and .16 of it with 3, 10 and 20 inputs and 60 rows, .94 with 5
# inputs and 200; with 4 inputs and 200 rows 95 % bands of a smooth function of two hold .86.
# examples/benchmarks/rvm_coverage.py.
ROWS_AN_INPUT = 60


def chosen_prior(asked: str, n: int, d: int, least: int) -> str:
    """Prior of the precisions: "auto" is smooth below so many rows an input, not with one input."""
    if asked != "auto":
        return asked
    return "smooth" if d > 1 and n < least * d else "individual"


class NoisePrior(NamedTuple):
    """Weak log-normal prior on the noise's std, and a prior on the precisions given the noise.

    The first is against optima of the evidence without noise, and so is the second: theory/rvm.md.
    """

    median: float  # of the standard deviation, in units of y
    log_std: float
    floor: float  # lowest standard deviation, which keeps factorizations possible
    ceiling: float  # equal to the floor: the noise is fixed
    charge: float = 0.0  # nats a degree of freedom

    def terms(self, log_var: float) -> tuple[float, float, float]:
        """Log density in log s^2 up to a constant, and its first and second derivative."""
        z = (0.5 * log_var - np.log(self.median)) / self.log_std
        return -0.5 * z * z, -0.5 * z / self.log_std, -0.25 / self.log_std**2

    def charges(self, alpha: Array, log_var: float, squares: Array) -> tuple[float, Array, Array]:
        """-c sum_i p_i, its derivatives c p (1 - p) and -c p (1 - p) (1 - 2 p) in log alpha_i s^2.

        p_i = 1 / (1 + s^2 alpha_i / |phi_i|^2), the degrees of freedom of a basis alone; squares
        are |phi_i|^2.
        """
        p = squares / (squares + np.exp(log_var) * alpha)
        first = self.charge * p * (1.0 - p)
        return -self.charge * float(p.sum()), first, -first * (1.0 - 2.0 * p)

    def bounds(self) -> tuple[float, float]:
        """Lowest and highest log s^2."""
        return 2.0 * np.log(self.floor), 2.0 * np.log(self.ceiling)

    def within(self, log_var: float) -> float:
        """Log s^2 moved into its bounds."""
        low, high = self.bounds()
        return min(max(log_var, low), high)

    def update(self, squares: float, dof: float) -> float:
        """Log s^2 that maximizes -dof/2 log s^2 - squares / (2 s^2) + the log prior (Newton)."""
        low, high = self.bounds()
        if low == high:
            return low
        t = self.within(np.log(squares / dof) if squares > 0 and dof > 0 else low)
        for _ in range(50):
            _, slope, curvature = self.terms(t)
            pull = 0.5 * squares * np.exp(-t)
            step = (pull - 0.5 * dof + slope) / (pull - curvature)
            t = self.within(t + min(max(step, -1.0), 1.0))
            if abs(step) < 1e-12:
                break
        return float(t)


def best_precisions(s: Array, q: Array, unit: Array | float, charge: float) -> tuple[Array, Array]:
    """The alpha of highest 1/2 [q^2/(alpha + s) - log(1 + s/alpha)] - charge p, and that height.

    p = 1 / (1 + unit alpha), unit = s^2 / |phi|^2. Infinity and 0 where no alpha is above 0, and in
    the span of the model.
    """
    square, ratio = q * q, np.ones_like(s)
    np.divide(square, s, out=ratio, where=s * unit > SPAN_TOLERANCE)
    np.maximum(ratio, 1.0, out=ratio)
    gain = 0.5 * (ratio - 1.0 - np.log(ratio))
    alpha, some = np.full_like(s, np.inf), gain > 0.0
    np.divide(s, ratio - 1.0, out=alpha, where=some)
    if charge and some.any():
        units = np.broadcast_to(unit, s.shape)[some]
        a, b = s[some] * units, square[some] * units
        # at z = 1 / (unit alpha) stationary where a^2 z^3 + ... = 0; the real part of a complex
        # root is a number like any other, of which the best one is taken
        roots = _cubic_roots(
            (a - b) / a**2 + 2.0 * (1.0 + charge),
            (2.0 * (a - b) + a**2 + 4.0 * charge * a) / a**2,
            (a - b + 2.0 * charge) / a**2,
        )
        z = np.fmax(roots.real, 1e-300)
        reached = 0.5 * (b * z / (1.0 + a * z) - np.log1p(a * z)) - charge * z / (1.0 + z)
        best = reached.argmax(axis=0)[None]
        z, reached = (np.take_along_axis(of, best, 0)[0] for of in (z, reached))
        gain[some] = np.maximum(reached, 0.0)
        alpha[some] = np.where(reached > 0.0, 1.0 / (units * z), np.inf)
    return alpha, gain


def _cubic_roots(b: Array, c: Array, d: Array) -> Array:
    """The roots (3, k) of z^3 + b z^2 + c z + d, complex."""
    p, q = (c - b * b / 3.0) / 3.0, b**3 / 27.0 - b * c / 6.0 + 0.5 * d
    root = np.sqrt(np.where(p == 0.0, -1e-300, -p) + 0j)
    angle = np.arccos(-q / root**3) + 2.0 * np.pi * np.arange(3)[:, None]
    return np.asarray(2.0 * root * np.cos(angle / 3.0) - b / 3.0)


def design(Z: Array, centers: Array, lengthscales: Array, linear: bool, bias: bool) -> Array:
    """Design [kernels at centers (m, d), inputs Z (n, d), 1] in Fortran order."""
    (n, d), m = Z.shape, len(centers)
    out = np.empty((n, m + d * linear + bias), order="F")
    if m:  # written in place: at 3000 rows a copy costs as much as the kernel itself
        left, _ = exponent_factors((Z / lengthscales).T)
        _, right = exponent_factors((centers / lengthscales).T)
        kernel: Array = dgemm(1.0, left, right, trans_a=1, c=out[:, :m], overwrite_c=1)
        np.exp(kernel, out=out[:, :m])
    if linear:
        out[:, m : m + d] = Z
    if bias:
        out[:, -1] = 1.0
    return out


class Bases(NamedTuple):
    """The active columns of a design, by themselves."""

    centers: Array  # (k, d), standardized
    columns: Positions  # (m,), among [kernels at the centers, inputs, 1]
    linear: bool
    bias: bool

    @classmethod
    def of(cls, Z: Array, active: Positions, linear: bool, bias: bool) -> "Bases":
        """Statistics of the design whose centers are the rows of Z."""
        centers = Z[active[active < len(Z)]]
        rest = active[active >= len(Z)] - len(Z) + len(centers)
        return cls(centers, np.concatenate([np.arange(len(centers)), rest]), linear, bias)

    def at(self, Z: Array, lengthscales: Array) -> Array:
        """Values of the columns at the rows of Z, (n, m), in Fortran order."""
        full = design(Z, self.centers, lengthscales, self.linear, self.bias)
        return np.asfortranarray(full[:, self.columns])


class SparseModel(NamedTuple):
    """A trained model: the active columns and their precisions."""

    active: Positions  # (m,), columns of the design, ascending
    alpha: Array  # (m,)
    noise_var: float  # 1 for classes
    converged: bool
    n_iter: int

    def sorted(self) -> Self:
        """The same, by the numbers of the columns."""
        order = np.argsort(self.active)
        return self._replace(active=self.active[order], alpha=self.alpha[order])


class WeightPosterior(NamedTuple):
    """Posterior N(mean, (L L')^-1) of the active weights, and the log evidence."""

    mean: Array  # (m,)
    chol: Array  # (m, m), lower triangular L
    log_evidence: float


def weight_posterior(Phi: Array, y: Array, alpha: Array, noise_var: float) -> WeightPosterior:
    """Posterior of the weights of Phi (n, m), by [Phi / s; A^(1/2)] = Q R, Sigma^-1 = R' R."""
    n, m = Phi.shape
    stacked = np.zeros((n + m, m + 1), order="F")
    stacked[:n, :m] = Phi
    stacked[:n, m] = y
    stacked[:n] /= np.sqrt(noise_var)
    stacked[n + np.arange(m), np.arange(m)] = np.sqrt(alpha)
    # Not by Phi' Phi, whose condition number is the square. y rides along as the last column: R_mm
    # is then the norm of the residual.
    qr, _, _, _ = dgeqrf(stacked, overwrite_a=1)
    R = np.triu(qr[: m + 1])
    mean: Array = dtrsm(1.0, R[:m, :m], R[:m, m:])[:, 0] if m else np.zeros(0)
    log_det = 2.0 * np.log(np.abs(np.diagonal(R)[:m])).sum() - np.log(alpha).sum()
    log_evidence = -0.5 * (n * np.log(2.0 * np.pi * noise_var) + log_det + R[m, m] ** 2)
    return WeightPosterior(mean, np.asfortranarray(R[:m, :m].T), float(log_evidence))


def left_out_log_density(Phi: Array, y: Array, model: SparseModel) -> float:
    """Log density of the rows (nats), each without itself and the basis at it: theory/rvm.md."""
    beta = 1.0 / model.noise_var
    posterior = weight_posterior(Phi, y, model.alpha, model.noise_var)
    chol = posterior.chol
    inverse = dtrtri(chol, lower=1)[0] if len(chol) else chol  # Sigma = inverse' inverse
    whitened = Phi @ inverse.T  # (n, m)
    k = beta * (1.0 - beta * np.einsum("nm,nm->n", whitened, whitened))
    pull = beta * (y - Phi @ posterior.mean)  # C^-1 y
    at = np.flatnonzero(model.active < len(y))
    rows = model.active[at]
    inside = np.einsum("rm,mr->r", whitened[rows], inverse[:, at])  # [Phi Sigma]_{i i}
    var = np.einsum("mr,mr->r", inverse[:, at], inverse[:, at])
    pull[rows] += beta * inside * posterior.mean[at] / var
    k[rows] += (beta * inside) ** 2 / var
    if k.min() <= 0.0:  # lost to roundoff
        return -np.inf
    return float(0.5 * np.sum(np.log(k / (2.0 * np.pi)) - pull**2 / k))


class Statistics(NamedTuple):
    """Log evidence at (log alpha, log s^2), its gradient, and the posterior of the weights."""

    alpha: Array  # (m,)
    log_var: float
    value: float
    chol: Array  # (m, m), lower triangular, L L' = Sigma^-1
    mean: Array  # (m,), mu
    cov: Array  # (m, m), Sigma
    variances: Array  # (m,), its diagonal
    gamma: Array  # (m,), 1 - alpha_i Sigma_ii
    squares: float  # |y - Phi mu|^2
    by_log_alpha: Array  # (m,), (gamma_i - alpha_i mu_i^2) / 2
    by_log_var: float  # (|y - Phi mu|^2 / s^2 - n + sum gamma) / 2

    def hessian(self) -> Array:
        """Second derivatives in (log alpha, log s^2), of shape (m + 1, m + 1)."""
        alpha, m = self.alpha, len(self.alpha)
        out = np.empty((m + 1, m + 1), order="F")
        squares = -np.exp(-self.log_var) * self.squares
        if not m:  # BLAS refuses empty arrays
            out[0, 0] = 0.5 * squares
            return out
        am = alpha * self.mean
        block = self.cov * (self.cov + 2.0 * np.multiply.outer(self.mean, self.mean))
        block *= np.multiply.outer(0.5 * alpha, alpha)
        out[:m, :m] = block
        out[np.arange(m), np.arange(m)] -= 0.5 * alpha * (self.variances + self.mean**2)
        shrunk = dgemv(1.0, self.cov, am)  # Sigma A mu
        spread = self.variances - np.einsum("ij,ij,i->j", self.cov, self.cov, alpha)
        out[:m, m] = out[m, :m] = -0.5 * alpha * (spread - 2.0 * self.mean * shrunk)
        out[m, m] = 0.5 * (squares + 2.0 * am @ shrunk - alpha @ spread)
        return out


class Evidence(NamedTuple):
    """Log evidence of active columns: O(m^3) a call, whatever the number of rows."""

    gram: Array  # (m, m), Phi' Phi
    projection: Array  # (m,), Phi' y
    y_squared: float
    n: int  # rows
    own_squares: Array | None = None  # of the charge, where they are not |phi_i|^2

    @classmethod
    def of(cls, Phi: Array, y: Array) -> Self:
        """Evidence of the columns of Phi (n, m)."""
        Phi = np.asfortranarray(Phi)
        gram: Array = dgemm(1.0, Phi, Phi, trans_a=1)
        projection = dgemv(1.0, Phi, y, trans=1) if len(gram) else np.zeros(0)
        return cls(gram, projection, float(y @ y), len(y))

    def select(self, kept: Positions | Flags) -> Self:
        """Statistics of some of the columns, by index or by mask."""
        gram = np.asfortranarray(self.gram[kept][:, kept])
        own = None if self.own_squares is None else self.own_squares[kept]
        return self._replace(gram=gram, projection=self.projection[kept], own_squares=own)

    @property
    def squares(self) -> Array:
        """|phi_i|^2, (m,)."""
        return np.diagonal(self.gram) if self.own_squares is None else self.own_squares

    def objective(self, at: Statistics, noise: NoisePrior) -> float:
        """Log evidence plus the log priors of noise and precisions."""
        of_noise, of_alpha = noise.terms(at.log_var)[0], 0.0
        if noise.charge:
            of_alpha = noise.charges(at.alpha, at.log_var, self.squares)[0]
        return at.value + of_noise + of_alpha

    def at(self, alpha: Array, log_var: float) -> Statistics | None:
        """The statistics; None where Sigma^-1 is not numerically positive definite."""
        beta, m, n = np.exp(-log_var), len(alpha), self.n
        if m:
            precision = beta * self.gram
            precision.ravel(order="K")[:: m + 1] += alpha
            chol, info = dpotrf(precision, lower=1, clean=1, overwrite_a=1)
            if info:
                return None
            half = dtrsm(beta, chol, self.projection[:, None], lower=1)
            mean: Array = dtrsm(1.0, chol, half, lower=1, trans_a=1)[:, 0]
            inverse = dpotri(chol, lower=1)[0]
            # |y - Phi mu|^2 from the Gram matrix
            fitted = mean @ dgemv(1.0, self.gram, mean)
            squares = float(self.y_squared - 2.0 * mean @ self.projection + fitted)
            squares = max(squares, 1e-14 * self.y_squared)
        else:  # BLAS refuses empty arrays
            chol = inverse = np.empty((0, 0), order="F")
            mean, squares = alpha, self.y_squared
        log_det = 2.0 * np.log(np.diagonal(chol)).sum() - np.log(alpha).sum()
        fit = n * (np.log(2.0 * np.pi) + log_var) + log_det + beta * squares
        value = float(-0.5 * (fit + alpha @ (mean * mean)))
        # the upper triangle of the inverse is zero, since the factor's is
        cov = np.add(inverse, inverse.T, order="F")
        cov.ravel(order="K")[:: m + 1] = variances = np.diagonal(inverse).copy()
        gamma = 1.0 - alpha * variances
        by_log_alpha = 0.5 * (gamma - alpha * mean**2)
        by_log_var = 0.5 * (beta * squares - n + gamma.sum())
        posterior = chol, mean, cov, variances, gamma, squares
        return Statistics(alpha, log_var, value, *posterior, by_log_alpha, by_log_var)


class Maximum(NamedTuple):
    """A model at a local maximum of the evidence."""

    active: Positions  # (m,), the columns that were not deleted
    at: Statistics
    objective: float  # log evidence plus the log priors of noise and precisions


def maximize(
    evidence: Evidence, alpha: Array, log_var: float, noise: NoisePrior, tolerance: float
) -> Maximum | None:
    """Maximum by Newton's method in (log alpha, log s^2), damped as by Marquardt."""
    at = evidence.at(alpha, noise.within(log_var))
    kept, damping, low_high = np.arange(len(alpha)), 1e-3, noise.bounds()
    for _ in range(100 + len(alpha)):
        if at is None:
            return None
        stay = _stay(at, evidence.squares, noise.charge)
        if not stay.all():
            kept, evidence = kept[stay], evidence.select(stay)
            at = evidence.at(at.alpha[stay], at.log_var)
            continue
        _, by_log_var, curvature = noise.terms(at.log_var)
        _, slopes, bends = noise.charges(at.alpha, at.log_var, evidence.squares)
        gradient = np.append(at.by_log_alpha + slopes, at.by_log_var + by_log_var + slopes.sum())
        if at.log_var == low_high[int(gradient[-1] > 0)]:  # always where the noise is fixed
            gradient[-1] = 0.0
        if np.abs(gradient).max() < tolerance:
            break
        hessian = at.hessian()
        hessian[-1, -1] += curvature + bends.sum()
        if noise.charge:
            hessian[:-1, -1] += bends
            hessian[-1, :-1] += bends
            hessian[np.arange(len(bends)), np.arange(len(bends))] += bends
        if gradient[-1] == 0.0:
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        objective, reached = evidence.objective(at, noise), None
        while reached is None and damping < 1e8:
            step = _damped_step(hessian, gradient, damping)
            if step is not None:
                moved = noise.within(at.log_var + float(step[-1]))
                tried = evidence.at(at.alpha * np.exp(step[:-1]), moved)
                if tried is not None and evidence.objective(tried, noise) >= objective:
                    reached = tried
            damping = max(10.0 * damping, 1e-4) if reached is None else 0.1 * damping
        if reached is None:
            break
        at = reached
        if evidence.objective(at, noise) - objective < 1e-13 * abs(objective):
            break
    return None if at is None else Maximum(kept, at, evidence.objective(at, noise))


def _stay(at: Statistics, squares: Array, charge: float) -> Flags:
    """False for the columns to delete: the worst that brings nothing, and all nearly out."""
    gamma, variances = at.gamma, at.variances
    excess = at.mean**2 - variances * gamma  # (q^2 - s) Sigma_ii^2
    # Of weights that the data hardly determine several leave at once, for speed: those still of use
    # are added again.
    stay: Flags = (excess > 0) | (gamma > 1e-3)
    if not len(gamma):
        return stay
    worth = excess / (variances * np.maximum(gamma, 1e-15))  # q^2 / s - 1
    if charge:
        unit = np.exp(at.log_var) / squares
        _, gain = best_precisions(gamma / variances, at.mean / variances, unit, charge)
        worth = np.where(gain > 0.0, worth, worth - worth.max())
    worst = int(np.argmin(worth))
    stay[worst] &= worth[worst] > 0
    return stay


def _damped_step(hessian: Array, gradient: Array, damping: float) -> Array | None:
    """Newton step of at most 3 in any logarithm; None where the damped matrix is not definite."""
    matrix = -hessian
    diagonal = np.diagonal(matrix)
    matrix.ravel(order="K")[:: len(gradient) + 1] += damping * np.maximum(np.abs(diagonal), 1e-6)
    chol, info = dpotrf(matrix, lower=1, overwrite_a=1)
    if info:
        return None
    step: Array = dpotrs(chol, gradient, lower=1)[0]
    step *= min(1.0, 3.0 / float(np.abs(step).max()))
    return step
