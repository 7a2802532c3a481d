"""Exact moments of a Gaussian process under a Gaussian input, with 80 digits.

Run with ``python tests/reference/make_moments.py``; needs mpmath. Writes moments.json: the
textbook form, which cancels at small noise, in arithmetic that can afford it.
"""

import json
from pathlib import Path

import numpy as np
from mpmath import cholesky_solve, det, eye, inverse, matrix, mp, mpf
from mpmath import exp as mp_exp
from mpmath import sqrt as mp_sqrt

mp.dps = 80


def moments(case):
    """Mean, variance and Cov[x, y] of y = f(x) + noise, f a GP conditioned on (X, y)."""
    X, y = matrix(case["X"]), matrix(case["y"])
    n, d = X.rows, X.cols
    m, S = matrix(case["mean"]), matrix(case["cov"])
    a2, s2 = mpf(case["amplitude"]) ** 2, mpf(case["noise_std"]) ** 2
    lin = [mpf(v) ** 2 for v in case["linear_scale"]]
    bias = mpf(case["bias_scale"]) ** 2
    l2 = [mpf(v) ** 2 for v in case["lengthscales"]]

    def kernel(i, j):
        far = sum((X[i, k] - X[j, k]) ** 2 / l2[k] for k in range(d))
        return a2 * mp_exp(-far / 2) + sum(lin[k] * X[i, k] * X[j, k] for k in range(d)) + bias

    K = matrix(n, n)
    for i in range(n):
        for j in range(n):
            K[i, j] = kernel(i, j) + (s2 if i == j else 0)
    b, K_inverse = cholesky_solve(K, y), inverse(K)

    L = matrix(d, d)
    for k in range(d):
        L[k, k] = l2[k]
    to_L = inverse(S + L)
    to_half = inverse(S + L / 2)
    B, R = det(eye(d) + S * inverse(L)), det(eye(d) + 2 * S * inverse(L))
    row = [matrix([X[i, k] for k in range(d)]) for i in range(n)]
    moved = [m + S * (to_L * (row[i] - m)) for i in range(n)]
    q = [mp_exp(-((row[i] - m).T * to_L * (row[i] - m))[0] / 2) / mp_sqrt(B) for i in range(n)]
    # what the linear part of k(x_i, .) multiplies: k_lin(x_i, x) = v_i . x + bias
    v = [matrix([lin[k] * X[i, k] for k in range(d)]) for i in range(n)]
    xx = S + m * m.T

    def dot(u, w):
        return (u.T * w)[0]

    first = [a2 * q[i] + dot(v[i], m) + bias for i in range(n)]
    with_x = [a2 * q[i] * moved[i] + xx * v[i] + bias * m for i in range(n)]
    second = matrix(n, n)
    for i in range(n):
        for j in range(n):
            mid = (row[i] + row[j]) / 2 - m
            apart = sum((X[i, k] - X[j, k]) ** 2 / l2[k] for k in range(d))
            kk = mp_exp(-apart / 4 - dot(mid, to_half * mid) / 2) / mp_sqrt(R)
            kernel_linear = q[i] * (dot(v[j], moved[i]) + bias)
            linear_kernel = q[j] * (dot(v[i], moved[j]) + bias)
            linear_linear = dot(v[i], xx * v[j]) + bias * (dot(v[i], m) + dot(v[j], m)) + bias**2
            second[i, j] = a2**2 * kk + a2 * (kernel_linear + linear_kernel) + linear_linear
    mean = sum(b[i] * first[i] for i in range(n))
    prior = a2 + sum(lin[k] * xx[k, k] for k in range(d)) + bias
    var = s2 + prior - mean**2
    for i in range(n):
        for j in range(n):
            var += (b[i] * b[j] - K_inverse[i, j]) * second[i, j]
    cov = matrix(d, 1)
    for i in range(n):
        cov += b[i] * (with_x[i] - m * first[i])
    return {"mean": float(mean), "var": float(var), "input_output_cov": [float(c) for c in cov]}


def contradicting():
    """Cases whose rows contradict their noise: large weights that cancel, conditions to 7e11."""
    logistic, cycle = [0.3], [1.0, 2.0, 3.0, 2.0] * 9
    for _ in range(40):
        logistic.append(3.9 * logistic[-1] * (1 - logistic[-1]))
    common = {"linear_scale": [0.2, 0.2], "bias_scale": 0.3}
    small = {"cov": [[2e-7, 1e-8], [1e-8, 1e-9]]}
    wide = {"cov": [[4e-2, -1e-2], [-1e-2, 2e-2]]}
    for name, series, parameters in (
        ("logistic map", logistic, {"lengthscales": [0.6, 4.0], "amplitude": 1.3}),
        ("cycle", cycle, {"lengthscales": [2.0, 2.0], "amplitude": 1.5}),
    ):
        y = np.append(series, [0.5] * 3)  # what no model of the rest expects
        X = np.column_stack([y[1:-1], y[:-2]])
        case = parameters | common | {"X": (X - X.mean(axis=0)).tolist()}
        case["y"] = (y[2:] - y[2:].mean()).tolist()
        case["mean"] = (X[-1] - X.mean(axis=0)).tolist()
        yield f"{name}, small cov", case | small | {"noise_std": 1.5e-4}
        yield f"{name}, wide cov", case | wide | {"noise_std": 1.5e-4}
    rng = np.random.default_rng(6)
    for d, noise_std, spread in ((1, 1e-4, 0.01), (2, 1e-5, 0.01), (2, 1e-5, 0.3), (4, 1e-5, 0.1)):
        X, F = rng.uniform(-2, 2, size=(36, d)), spread * rng.normal(size=(d, d))
        X[30:] = X[:6]
        X -= X.mean(axis=0)
        y = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, -1] + 0.3 * rng.standard_normal(36) * (X[:, 0] > 0)
        yield (
            f"twins, {d} inputs, noise of {noise_std:g}, spread of {spread:g}",
            {
                "X": X.tolist(),
                "y": y.tolist(),
                "lengthscales": [1.3] * d,
                "amplitude": 1.5,
                "linear_scale": [0.5] * d,
                "bias_scale": 1.0,
                "mean": (X[3] + 0.1).tolist(),
                "cov": (F @ F.T).tolist(),
                "noise_std": noise_std,
            },
        )


def main():
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, size=(40, 2))
    X -= X.mean(axis=0)
    y = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 1]
    F = rng.normal(size=(2, 2))
    base = {
        "X": X.tolist(),
        "lengthscales": [1.3, 2.1],
        "amplitude": 1.5,
        "linear_scale": [0.4, 0.7],
        "bias_scale": 1.0,
        "mean": [0.4, -0.3],
        "cov": (0.04 * F @ F.T).tolist(),
    }
    far = {"mean": [60.0, -45.0], "cov": [[900.0, 30.0], [30.0, 400.0]]}
    wide = {"cov": [[1e4, 0.0], [0.0, 1e4]]}
    flat = {"linear_scale": [0.0, 0.0], "bias_scale": 0.0}
    cases = {
        "noise of a tenth": base | {"noise_std": 0.15},
        "noise of 1e-3": base | {"noise_std": 1.5e-3},
        "noise of 1e-4": base | {"noise_std": 1.5e-4},
        "noise of 1e-4, tiny cov": base | {"noise_std": 1.5e-4, "cov": (1e-10 * F @ F.T).tolist()},
        "far from the data": base | far | {"noise_std": 0.15},
        "far from the data, no linear part": base | far | flat | {"noise_std": 0.15},
        "wide, no linear part": base | wide | flat | {"noise_std": 0.15},
    }
    for case in cases.values():
        noise = case["noise_std"] * np.random.default_rng(5).standard_normal(len(y))
        case["y"] = (y + noise).tolist()
    cases |= dict(contradicting())
    for case in cases.values():
        case["answer"] = moments(case)
    path = Path(__file__).with_suffix("").with_name("moments.json")
    path.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
