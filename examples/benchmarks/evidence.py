"""Log evidence of a Gaussian process and its gradient: forecast_unc, its floor, other libraries.

The floor is LAPACK's potrf and potri on the same covariance: one factorization and one inverse from
it, with nothing else. All contenders have the same kernel, a^2 times an ARD squared exponential,
and noise, in double precision, and return the gradient in log [l, a, s]; their answers are compared
before anything is timed. They take turns in one process, in random order and at new
hyper-parameters each time.

    python examples/benchmarks/evidence.py
    python examples/benchmarks/evidence.py --quick   # a small version

GPy, GPyTorch and PyTorch come with the extra `benchmarks`; what is missing is skipped.
"""

import argparse
import importlib.util
import sys
import time

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits

from forecast_unc.regression.gp_evidence import GaussianProcessEvidence, covariance_matrix

D = 16
THREADS = 2
FLOOR, OURS = "LAPACK potrf + potri", "forecast_unc"


def problem(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def start():
    """log [l, a, s]"""
    return np.log(np.r_[np.linspace(3.0, 12.0, D), 0.8, 0.2])


class Floor:
    def __init__(self, X, y):
        n = len(y)
        self.covariance, self.work = np.empty((n, n), order="F"), np.empty((n, n), order="F")
        l, a, s = np.split(np.exp(start()), [D, D + 1])
        covariance_matrix((X / l).T, a[0], s[0] ** 2, np.empty((0, n)), self.covariance)

    def prepare(self, theta):
        np.copyto(self.work, self.covariance)  # not timed: LAPACK overwrites it

    def run(self, theta):
        chol, _ = dpotrf(self.work, lower=1, clean=0, overwrite_a=1)
        dpotri(chol, lower=1, overwrite_c=1)


class Ours:
    def __init__(self, X, y):
        self.evidence = GaussianProcessEvidence(X, y, linear=False)

    def prepare(self, theta):
        pass

    def run(self, theta):
        l, a, s = np.split(np.exp(theta), [D, D + 1])
        value, gradient = self.evidence(l, a[0], 1.0, s[0])
        return -value, -np.delete(gradient, D + 1)  # without the linear scale


class ScikitLearn:
    def __init__(self, X, y):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel() * RBF(np.ones(D)) + WhiteKernel()
        # fit is needed for X_train_ only; jitter is off, for the same evidence
        self.model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)

    def prepare(self, theta):
        pass

    def run(self, theta):
        # its parameters are log [a^2, l, s^2]
        own = np.r_[2.0 * theta[D], theta[:D], 2.0 * theta[D + 1]]
        value, g = self.model.log_marginal_likelihood(own, eval_gradient=True, clone_kernel=False)
        return value, np.r_[g[1:-1], 2.0 * g[0], 2.0 * g[-1]]


class GPyTorch:
    def __init__(self, X, y):
        import gpytorch
        import torch

        torch.set_num_threads(THREADS)

        class Model(gpytorch.models.ExactGP):
            def __init__(self, X, y, likelihood):
                super().__init__(X, y, likelihood)
                self.mean_module = gpytorch.means.ZeroMean()
                rbf = gpytorch.kernels.RBFKernel(ard_num_dims=D)
                self.covar_module = gpytorch.kernels.ScaleKernel(rbf)

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        self.torch = torch
        self.X, self.y = torch.from_numpy(X), torch.from_numpy(y)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-8)
        )
        self.model = Model(self.X, self.y, self.likelihood).double()
        self.model.train()
        self.likelihood.train()
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        # Cholesky and not conjugate gradients, which it takes above 800 rows
        self.cholesky = gpytorch.settings.fast_computations(False, False, False)

    def prepare(self, theta):
        l, a, s = (self.torch.from_numpy(v) for v in np.split(np.exp(theta), [D, D + 1]))
        scale = self.model.covar_module
        scale.base_kernel.lengthscale, scale.outputscale, self.likelihood.noise = l, a**2, s**2
        self.mll.zero_grad()

    def run(self, theta):
        with self.cholesky:
            value = self.mll(self.model(self.X), self.y) * len(self.y)
            value.backward()
        scale = self.model.covar_module
        raw = [scale.base_kernel.raw_lengthscale, scale.raw_outputscale]
        raw.append(self.likelihood.noise_covar.raw_noise)
        gradient = np.concatenate([r.grad.numpy().ravel() for r in raw])
        # from softplus to [l, a^2, s^2], then to log [l, a, s]
        gradient /= np.concatenate([r.detach().sigmoid().numpy().ravel() for r in raw])
        power = np.r_[np.ones(D), 2, 2]
        return value.item(), gradient * power * np.exp(power * theta)


class GPy:
    def __init__(self, X, y):
        import GPy

        kernel = GPy.kern.RBF(D, ARD=True)
        self.model = GPy.models.GPRegression(X, y[:, None], kernel)

    def prepare(self, theta):
        pass

    def run(self, theta):
        l, a, s = np.split(np.exp(theta), [D, D + 1])
        model = self.model
        model[:] = np.r_[a**2, l, s**2]  # computes the evidence and the gradient
        gradient = np.r_[
            model.kern.lengthscale.gradient * l,
            model.kern.variance.gradient * 2 * a**2,
            model.likelihood.variance.gradient * 2 * s**2,
        ]
        return float(np.squeeze(model.log_likelihood())), gradient


NEEDS = {GPy: ("GPy",), GPyTorch: ("torch", "gpytorch"), ScikitLearn: ()}


def installed():
    chosen = []
    for kind, needs in NEEDS.items():
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        if missing:
            print(f"{kind.__name__} is skipped: {' and '.join(missing)} not installed")
        else:
            chosen.append(kind)
    return chosen


def check(made):
    """All return the same evidence and gradient."""
    theta = start()
    made[OURS].prepare(theta)
    value, gradient = made[OURS].run(theta)
    for name, contender in made.items():
        if isinstance(contender, Floor):
            continue
        contender.prepare(theta)
        other, other_gradient = contender.run(theta)
        np.testing.assert_allclose(other, value, rtol=1e-6, err_msg=name)
        apart = np.abs(other_gradient - gradient).max() / np.abs(gradient).max()
        assert apart < 1e-6, f"gradient of {name}: {apart:.2g}"


def timed(made, repeats):
    """Seconds of every repeat, by name; the contenders take turns."""
    seconds = {name: [] for name in made}
    rng = np.random.default_rng(0)
    for repeat in range(repeats):
        theta = start() + 1e-3 * repeat  # new, so that nothing comes out of a cache
        for name in rng.permutation(list(made)):
            contender = made[name]
            contender.prepare(theta)
            time.sleep(0.05)  # until idle BLAS threads of the one before have stopped spinning
            began = time.perf_counter()
            contender.run(theta)
            seconds[name].append(time.perf_counter() - began)
    return seconds


def table(seconds):
    ours = np.array(seconds[OURS])
    lines = [
        "| | median, ms | min, ms | median over ours | min over ours |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, values in seconds.items():
        median, least = np.median(values), np.min(values)
        lines.append(
            f"| {name} | {1e3 * median:.1f} | {1e3 * least:.1f} | "
            f"{median / np.median(ours):.2f} | {least / ours.min():.2f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 300 only, three repeats")
    parser.add_argument("--repeats", type=int, default=15, help="turns of each contender")
    arguments = parser.parse_args()
    sizes, repeats = ((300,), 3) if arguments.quick else ((1000, 2000), arguments.repeats)
    print(f"evidence and gradient, d = {D}, {THREADS} threads, {repeats} repeats")
    others = installed()
    for n in sizes:
        X, y = problem(n)
        with threadpool_limits(THREADS):
            made = {FLOOR: Floor(X, y), OURS: Ours(X, y)}
            made.update({kind.__name__: kind(X, y) for kind in others})
            check(made)
            seconds = timed(made, repeats)
        floor, ours = (np.array(seconds[name]) for name in (FLOOR, OURS))
        print(f"\nn = {n}: the same evidence and gradient to 1e-6\n\n{table(seconds)}\n")
        print(
            f"forecast_unc over the floor: {np.median(ours) / np.median(floor):.2f} (medians), "
            f"{ours.min() / floor.min():.2f} (minima)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
