"""Reduced-rank Gaussian processes: KIN40K beside GPyTorch's SGPR, growth with the rows, and rate.

1. KIN40K (`--data uci_kin40k.npz`: X, y and test_mask, the first split; left out without it): RMSE
   in stds of y, NLPD and time by objective, support and variance; and SGPR of GPyTorch on the same
   k-means centers, kept where they are, from the same start, by the same bound (no linear part, no
   prior, the same jitter), with SciPy's L-BFGS-B for both. The evaluations of both are timed, too.
2. Growth: fit and 100-step forecast of a simulated series (a bent autoregression, 8 lags, m = 200),
   each length in a process of its own: processor times, and the peak of its memory.
3. Rate of one evidence gradient against dgemm of the same shape, for 2 n m^2 multiply-adds.

    python examples/benchmarks/reduced_rank.py --data uci_kin40k.npz
    python examples/benchmarks/reduced_rank.py --quick   # a small version

GPyTorch comes with the extra `benchmarks`; it is skipped where it is not installed.
"""

import argparse
import importlib.util
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.linalg.blas import dgemm
from scipy.optimize import minimize

from forecast_unc import Forecaster, ReducedRankGPRegressor
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import (
    BLOCK,
    JITTER,
    ReducedRankEvidence,
)
from forecast_unc.regression.reduced_rank.support import cluster_means

SUPPORTS, OBJECTIVES = ("greedy", "kmeans", "random"), ("evidence", "bound")
# The start that both have: [l, a, s] of standardized data.
LENGTHSCALE, AMPLITUDE, NOISE_STD = 2.0, 1.0, 0.5


def nlpd(y, mean, std):
    return float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((y - mean) / std) ** 2))


def kin40k(path, n_rows):
    """Standardized rows and targets of training and test part."""
    stored = np.load(path)
    X, y, test = stored["X"].astype(float), stored["y"], stored["test_mask"][:, 0]
    train = np.random.default_rng(0).permutation(np.flatnonzero(~test))[:n_rows]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def scores(X, y, X_test, y_test, m):
    print(f"\n## KIN40K, {len(y)} rows, m = {m}\n")
    each = "value | seconds | RMSE | NLPD"
    print(f"| objective | support | corrected: {each} | standard: {each} | RRGP*: RMSE | NLPD |")
    print("|---|---|" + 10 * "---:|")
    for objective in OBJECTIVES:
        for support in SUPPORTS:
            settings = {"n_support": m, "support": support, "objective": objective}
            cells = []
            for variance in ("corrected", "standard"):
                model = ReducedRankGPRegressor(variance=variance, **settings)
                start = time.perf_counter()
                model.fit(X, y)
                took = time.perf_counter() - start
                mean, std = model.predict(X_test, return_std=True)
                rmse = np.sqrt(np.mean((y_test - mean) ** 2))
                value = f"{model.log_evidence_:.0f} | {took:.0f}"
                cells.append(f"{value} | {rmse:.4f} | {nlpd(y_test, mean, std):.3f}")
            # the same hyper-parameters, and a center more at each test input
            model = model.set_params(variance="augmented").condition(X[::-1], y[::-1])
            mean, std = model.predict(X_test, return_std=True)
            rmse = np.sqrt(np.mean((y_test - mean) ** 2))
            cells.append(f"{rmse:.4f} | {nlpd(y_test, mean, std):.3f}")
            print(f"| {objective} | {support} | {' | '.join(cells)} |", flush=True)


def ours_at_bound(X, y, centers, objective):
    """Time of an evaluation, L-BFGS-B from the start, and what it predicts."""
    d = X.shape[1]
    model = ReducedRankEvidence(X, y, centers, False, objective=objective)
    calls = []

    def value(log_theta):
        start = time.perf_counter()
        theta = np.exp(log_theta)
        f, g = model(theta[:d], theta[d], 1.0, theta[-1])
        calls.append(time.perf_counter() - start)
        return f, np.delete(g, d + 1)  # no linear part

    return value, calls


def gpytorch_at_bound(X, y, centers):
    """The same of GPyTorch's SGPR, double precision, its inducing points fixed."""
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    inputs, targets = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(y)

    class SGPR(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(inputs, targets, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.base = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            )
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                self.base, inducing_points=torch.from_numpy(centers.copy()), likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    noise = gpytorch.constraints.GreaterThan(1e-8)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise)
    model = SGPR(likelihood)
    model.covar_module.inducing_points.requires_grad_(False)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    calls = []

    def set_to(log_theta):
        theta = np.exp(log_theta)
        model.base.base_kernel.lengthscale = torch.from_numpy(theta[None, :-2])
        model.base.outputscale = float(theta[-2] ** 2)
        likelihood.noise = float(theta[-1] ** 2)

    def value(log_theta):
        start = time.perf_counter()
        set_to(log_theta)
        model.train()
        likelihood.train()
        model.zero_grad()
        with gpytorch.settings.cholesky_jitter(double_value=JITTER):
            loss = -objective(model(inputs), targets) * len(y)
            loss.backward()
        # from raw parameters to logarithms: d softplus(r) = (1 - exp(-softplus)) dr
        theta = np.exp(log_theta)
        parts = [
            (model.base.base_kernel.raw_lengthscale, theta[:-2], 1.0, 0.0),
            (model.base.raw_outputscale, theta[-2] ** 2, 2.0, 0.0),
            (likelihood.noise_covar.raw_noise, theta[-1] ** 2, 2.0, 1e-8),
        ]
        gradient = [
            np.ravel(raw.grad.numpy()) * power * at / -np.expm1(-(at - low))
            for raw, at, power, low in parts
        ]
        calls.append(time.perf_counter() - start)
        return loss.item(), np.concatenate(gradient)

    def predict(log_theta, X_test):
        set_to(log_theta)
        model.eval()
        likelihood.eval()
        with torch.no_grad(), gpytorch.settings.cholesky_jitter(double_value=JITTER):
            with gpytorch.settings.sgpr_diagonal_correction(True):
                out = likelihood(model(torch.from_numpy(np.ascontiguousarray(X_test))))
            return out.mean.numpy(), out.variance.numpy() ** 0.5

    return value, calls, predict


def beside_gpytorch(X, y, X_test, y_test, m, max_iter):
    if importlib.util.find_spec("gpytorch") is None:
        print("\nGPyTorch is not installed: skipped.")
        return
    d = X.shape[1]
    some = np.random.default_rng(0)
    centers = cluster_means(X[:10_000] / LENGTHSCALE, m, some) * LENGTHSCALE
    start = np.log([LENGTHSCALE] * d + [AMPLITUDE, NOISE_STD])
    ours, our_calls = ours_at_bound(X, y, centers, "bound")
    theirs, their_calls, predict = gpytorch_at_bound(X, y, centers)
    for call in (ours, theirs):
        call(start)  # warm
    print(f"\n## The bound at the start: {ours(start)[0]:.2f}, GPyTorch's {theirs(start)[0]:.2f}")
    away = np.abs(ours(start)[1] - theirs(start)[1]).max() / np.abs(ours(start)[1]).max()
    print(f"largest difference of the gradients: {away:.1e} of the largest entry\n")
    print("| | bound | evaluations | seconds each | seconds | RMSE | NLPD |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    search = partial(minimize, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    for name, call, calls in (
        ("forecast_unc", ours, our_calls),
        ("GPyTorch", theirs, their_calls),
    ):
        calls.clear()
        found = search(call, start)
        if name == "GPyTorch":
            mean, std = predict(found.x, X_test)
        else:
            theta = np.exp(found.x)
            mean, std = predict_ours(X, y, centers, theta, X_test)
        rmse = np.sqrt(np.mean((y_test - mean) ** 2))
        each = f"{len(calls)} | {np.median(calls):.2f} | {sum(calls):.0f}"
        line = (
            f"| {name} | {-found.fun:.1f} | {each} | {rmse:.4f} | {nlpd(y_test, mean, std):.4f} |"
        )
        print(line, flush=True)


def predict_ours(X, y, centers, theta, X_test):
    from forecast_unc.regression.gp_base import GaussianProcess
    from forecast_unc.regression.reduced_rank.reduced_rank_posterior import Support

    d = X.shape[1]
    zero = np.zeros(d)
    process = GaussianProcess(theta[:d], theta[d], np.zeros(d + 1), theta[-1], zero, 0.0, zero)
    model = Support.of(centers, process, independent_rest=False).with_rows(X, y)
    mean, var = model.posterior(corrected=True).predict(X_test)
    return mean, np.sqrt(var)


def bent_autoregression(n):
    noise = 0.3 * np.random.default_rng(0).standard_normal(n + 200)
    y = np.zeros(n + 200)
    for t in range(2, n + 200):
        y[t] = 1.2 * np.tanh(1.5 * y[t - 1]) - 0.5 * y[t - 2] + noise[t]
    return pd.Series(y[200:])


def one_length(n, m):
    """Processor seconds of fit and forecast, and the peak of memory in MB, printed."""
    y = bent_autoregression(n)
    start = time.process_time()
    model = Forecaster(ReducedRankGPRegressor(n_support=m), lags=range(1, 9)).fit(y)
    fitted = time.process_time()
    model.forecast(100)
    end = time.process_time()
    regressor = model.models_[0].regressor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(fitted - start, end - fitted, regressor.n_iter_, peak)


def growth(lengths, m):
    print(f"\n## Growth, m = {m}\n")
    print("| n | fit, s | 100-step forecast, s | iterations on all rows | peak MB |")
    print("|---:|---:|---:|---:|---:|")
    for n in lengths:
        command = [sys.executable, __file__, "--one-length", str(n), "--centers", str(m)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        fit, ahead, n_iter, peak = map(float, out)
        print(f"| {n} | {fit:.1f} | {ahead:.2f} | {n_iter:.0f} | {peak:.0f} |", flush=True)


def rate(n, m, d=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    model = ReducedRankEvidence(X, y, X[:m].copy(), True)
    A, B = (np.asfortranarray(rng.standard_normal(shape)) for shape in ((m, m), (m, BLOCK)))
    out = np.empty((m, BLOCK), order="F")
    shares, rates = [], []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(50):
            dgemm(1.0, A, B, c=out, overwrite_c=1)
        one = (time.perf_counter() - start) / (50 * m * m * BLOCK)  # seconds a multiply-add
        start = time.perf_counter()
        model(np.full(d, 3.0), 1.0, 0.3, 0.1)
        took = time.perf_counter() - start
        rates.append(2.0 * n * m * m / took)
        shares.append(2.0 * n * m * m * one / took)
    print(f"\n## One gradient, n = {n}, m = {m}, d = {d}\n")
    print(f"{np.median(rates) / 1e9:.1f} billion multiply-adds a second of 2 n m^2, ", end="")
    print(f"{np.median(shares):.2f} of the rate of dgemm (median of 5)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="uci_kin40k.npz; left out without it")
    parser.add_argument("--quick", action="store_true", help="a small version")
    parser.add_argument("--centers", type=int, nargs="+", default=[500], metavar="M")
    parser.add_argument("--rows", type=int, default=36_000, help="of KIN40K, at most 36000")
    parser.add_argument("--only", choices=("scores", "gpytorch", "growth", "rate"))
    parser.add_argument("--one-length", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_length:
        one_length(args.one_length, args.centers[0])
        return
    parts = [args.only] if args.only else ["scores", "gpytorch", "growth", "rate"]
    for m in [50] if args.quick else args.centers:
        if args.data is not None:
            rows = kin40k(args.data, 2000 if args.quick else args.rows)
            if "scores" in parts:
                scores(*rows, m)
            if "gpytorch" in parts:
                beside_gpytorch(*rows, m, 10 if args.quick else 100)
    if "growth" in parts:
        growth((1000, 3000) if args.quick else (10_000, 100_000, 1_000_000), 200)
    if "rate" in parts:
        rate(*((5000, 100) if args.quick else (100_000, 500)))


if __name__ == "__main__":
    main()
