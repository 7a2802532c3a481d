"""Fitting a Gaussian process to the same log evidence: forecast_unc and other libraries.

Data are pairs of 16 lags of the Mackey-Glass series (tau 17, normalized, noise variance 0.001),
inputs and targets standardized once more. All contenders have the same kernel, a^2 times an ARD
squared exponential, and noise, no prior, no restarts, the same start, and their own L-BFGS: the one
of SciPy in forecast_unc, scikit-learn and GPy, PyTorch's with strong Wolfe conditions in GPyTorch.

Every evaluation is recorded, so that two times can be compared: that of the whole fit, and that at
which the log evidence first comes within 0.5 nat of the worst final one. The first evaluations are
checked to agree. The contenders take turns in one process; threads round differently each time, so
the number of evaluations on the flat last stretch varies.

    python examples/benchmarks/fit.py
    python examples/benchmarks/fit.py --rows 200 500 1000 --threads 1
    python examples/benchmarks/fit.py --quick   # a small version

GPy, GPyTorch and PyTorch come with the extra `benchmarks`; what is missing is skipped.
"""

import argparse
import importlib.util
import sys
import time
import warnings
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from forecast_unc import GPRegressor
from forecast_unc.datasets import make_mackey_glass
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.series.rows import lag_embedding

D = 16
THREADS = 2
WITHIN = 0.5  # nat
# The start of GPRegressor on standardized data: [l, a, s]
LENGTHSCALE, AMPLITUDE, NOISE_STD = 0.5 * np.sqrt(D), 1.0, 0.3


def problem(n):
    series = make_mackey_glass(n + D).to_numpy()
    series = (series - series.mean()) / series.std()
    series += np.sqrt(0.001) * np.random.default_rng(0).standard_normal(len(series))
    X, y = lag_embedding(series, tuple(range(1, D + 1)), np.empty((len(series), 0)))
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def forecast_unc(X, y, record):
    evaluate = GaussianProcessEvidence.__call__

    def recorded(self, *hyperparameters):
        value, gradient = evaluate(self, *hyperparameters)
        record(-value)
        return value, gradient

    with mock.patch.object(GaussianProcessEvidence, "__call__", recorded):
        GPRegressor(linear=False, prior=None).fit(X, y)


def scikit_learn(X, y, record):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    class Recorded(GaussianProcessRegressor):
        def log_marginal_likelihood(self, *arguments, **options):
            result = super().log_marginal_likelihood(*arguments, **options)
            if options.get("eval_gradient"):  # not the call after the search
                record(result[0])
            return result

    kernel = ConstantKernel(AMPLITUDE**2, (1e-6, 1e4)) * RBF(
        np.full(D, LENGTHSCALE), (1e-2, 1e4)
    ) + WhiteKernel(NOISE_STD**2, (1e-8, 1e2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length-scale at its bound is no news here
        Recorded(kernel, alpha=0.0).fit(X, y)


def gpytorch(X, y, record):
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

    inputs, targets = torch.from_numpy(X), torch.from_numpy(y)
    positive = gpytorch.constraints.GreaterThan(1e-8)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=positive)
    model = Model(inputs, targets, likelihood).double()
    model.covar_module.base_kernel.lengthscale = LENGTHSCALE
    model.covar_module.outputscale = AMPLITUDE**2
    likelihood.noise = NOISE_STD**2
    model.train()
    likelihood.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    search = torch.optim.LBFGS(
        model.parameters(),
        max_iter=500,
        max_eval=1000,
        tolerance_grad=1e-6,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def closure():
        search.zero_grad()
        loss = -mll(model(inputs), targets)  # a row
        loss.backward()
        record(-loss.item() * len(y))
        return loss

    # Cholesky and not conjugate gradients, which it takes above 800 rows
    with gpytorch.settings.fast_computations(False, False, False):
        search.step(closure)


def gpy(X, y, record):
    import GPy

    model = GPy.models.GPRegression(X, y[:, None], GPy.kern.RBF(D, ARD=True))
    model[:] = np.r_[AMPLITUDE**2, np.full(D, LENGTHSCALE), NOISE_STD**2]
    evaluate = model._objective_grads

    def recorded(x):
        value, gradient = evaluate(x)
        record(-float(np.squeeze(value)))
        return value, gradient

    model._objective_grads = recorded
    model.optimize("lbfgsb", max_iters=1000)


NEEDS = {forecast_unc: (), gpytorch: ("torch", "gpytorch"), gpy: ("GPy",), scikit_learn: ()}


def contenders():
    chosen = []
    for fit, needs in NEEDS.items():
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        if missing:
            print(f"{fit.__name__} is skipped: {' and '.join(missing)} not installed")
        else:
            chosen.append(fit)
    return chosen


def trace(fit, X, y):
    """Seconds and log evidence (m,) of each evaluation, and the seconds of the whole fit."""
    points = []

    def record(value):
        points.append((time.perf_counter() - began, value))

    time.sleep(0.05)  # until idle BLAS threads of the one before have stopped spinning
    began = time.perf_counter()
    fit(X, y, record)
    total = time.perf_counter() - began
    seconds, values = np.array(points).T
    return seconds, values, total


def table(traces, target):
    """One line a contender: all of it for the median and the least over the repeats."""
    times = {}
    for name, runs in traces.items():
        reached = [seconds[np.argmax(values >= target)] for seconds, values, _ in runs]
        times[name] = np.array(reached), np.array([total for _, _, total in runs])
    ours = times["forecast_unc"]
    lines = [
        "| | log evidence | evaluations | to target, s | fit, s "
        "| to target over ours | fit over ours |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, columns in times.items():
        best = np.median([values.max() for _, values, _ in traces[name]])
        evaluations = np.median([len(values) for _, values, _ in traces[name]])
        median = [f"{np.median(c):.2f} ({c.min():.2f})" for c in columns]
        over = [
            f"{np.median(c) / np.median(o):.1f} ({c.min() / o.min():.1f})"
            for c, o in zip(columns, ours, strict=True)
        ]
        cells = [name, f"{best:.2f}", f"{evaluations:.0f}", *median, *over]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compare(n, repeats, chosen):
    X, y = problem(n)
    traces = {fit.__name__: [] for fit in chosen}
    for fit in chosen:  # imports and first calls are not timed
        fit(X[:20], y[:20], lambda value: None)
    for _ in range(repeats):
        for fit in chosen:
            traces[fit.__name__].append(trace(fit, X, y))
    starts = [run[1][0] for runs in traces.values() for run in runs]
    np.testing.assert_allclose(starts, starts[0], rtol=1e-5, err_msg="not the same start")
    target = min(run[1].max() for runs in traces.values() for run in runs) - WITHIN
    print(f"\nn = {n}: target log evidence {target:.2f}; medians, minima in brackets\n")
    print(table(traces, target))


def main():
    global THREADS
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 100, one repeat")
    parser.add_argument("--repeats", type=int, default=5, help="fits of each contender")
    parser.add_argument("--rows", type=int, nargs="+", default=[500], metavar="N")
    parser.add_argument("--threads", type=int, default=THREADS)
    arguments = parser.parse_args()
    THREADS = arguments.threads
    rows, repeats = ([100], 1) if arguments.quick else (arguments.rows, arguments.repeats)
    chosen = contenders()
    print(f"fit, Mackey-Glass, d = {D}, {THREADS} threads, {repeats} repeats")
    with threadpool_limits(THREADS):
        for n in rows:
            compare(n, repeats, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
