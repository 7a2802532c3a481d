"""The mathematics of the regressors and distributions with 60 digits, for tests/test_reference.py.

Run with ``python tests/reference/make_reference.py``; needs mpmath. Writes reference.json: inputs,
and answers by definitions (determinants, inverses, quadrature, differences of 1e-20), not by the
package's forms.
"""

import json
from pathlib import Path

import numpy as np
from mpmath import cholesky_solve, det, diag, erfc, eye, inverse, log, matrix, mp, mpf, pi, quad
from mpmath import exp as mp_exp
from mpmath import sqrt as mp_sqrt

mp.dps = 60
JITTER = mpf(1e-8)


def kernel(x, z, l):
    """exp(-|(x - z) / l|^2 / 2) of two columns."""
    return mp_exp(-sum(((x[k] - z[k]) / l[k]) ** 2 for k in range(len(l))) / 2)


def rows_of(X):
    return [matrix([mpf(v) for v in row]) for row in X]


def minus_log_normal(y, K):
    """-log N(y | 0, K)."""
    n = len(y)
    return ((y.T * cholesky_solve(K, y))[0] + log(det(K)) + n * log(2 * pi)) / 2


def gp_evidence(case, log_l, log_a, log_tau, log_s, centers=None, criterion="evidence"):
    """-log N(y | 0, K + s^2 I), with centers that of the reduced rank, or the bound."""
    x, y, n = rows_of(case["X"]), matrix(case["y"]), len(case["y"])
    l = [mp_exp(v) for v in log_l]
    a2, tau2, s2 = mp_exp(2 * log_a), mp_exp(2 * log_tau), mp_exp(2 * log_s)
    K, left = matrix(n, n), mpf(0)
    if centers is not None:
        u = rows_of(centers)
        uu = matrix(len(u), len(u))
        for i, one in enumerate(u):
            for j, other in enumerate(u):
                uu[i, j] = kernel(one, other, l) + (JITTER if i == j else 0)
        uf = matrix(len(u), n)
        for i, one in enumerate(u):
            for j, other in enumerate(x):
                uf[i, j] = kernel(one, other, l)
        Q = uf.T * inverse(uu) * uf
        left = sum(a2 * (1 - Q[i, i]) for i in range(n))
    for i in range(n):
        for j in range(n):
            smooth = Q[i, j] if centers is not None else kernel(x[i], x[j], l)
            K[i, j] = a2 * smooth + tau2 * (x[i].T * x[j])[0] + mpf(case["bias"]) ** 2
        K[i, i] += s2
        if criterion == "fitc":
            K[i, i] += a2 * (1 - Q[i, i])
    return minus_log_normal(y, K) + (left / (2 * s2) if criterion == "bound" else 0)


def value_and_gradient(case, **kind):
    """The value, and differences in log l, log a, log tau, log s."""
    at = [log(mpf(v)) for v in [*case["l"], case["a"], case["tau"], case["s"]]]
    d, step = len(case["l"]), mpf(10) ** -20

    def f(point):
        return gp_evidence(case, point[:d], *point[d:], **kind)

    gradient = []
    for k in range(len(at)):
        up, down = list(at), list(at)
        up[k] += step
        down[k] -= step
        gradient.append(float((f(up) - f(down)) / (2 * step)))
    return {"value": float(f(at)), "gradient": gradient}


class Linear:
    """y = w.phi(x) + noise with w ~ N(mean, cov), phi = [k(c_i, x); x; 1], or what a GP leaves."""

    def __init__(self, centers, l, mean, cov, noise_var, kernel_var=0):
        self.c, self.l, self.mean, self.cov = centers, l, mean, cov
        self.noise_var, self.kernel_var = noise_var, kernel_var

    def phi(self, x):
        return matrix([*(kernel(c, x, self.l) for c in self.c), *x, 1])

    def predict(self, X):
        """Means and variances at rows, and the covariance of the function of the first two."""
        phi = [self.phi(x) for x in X]
        mean = [(self.mean.T * p)[0] for p in phi]
        var = [(p.T * self.cov * p)[0] + self.kernel_var + self.noise_var for p in phi]
        shared = (phi[0].T * self.cov * phi[1])[0] + self.kernel_var * kernel(*X[:2], self.l)
        return {"mean": floats(mean), "var": floats(var), "covariance": float(shared)}

    def moments(self, m, S):
        """Mean, variance and Cov[x, y] for x ~ N(m, S)."""
        n, d = len(self.c), len(self.l)
        L = diag([v**2 for v in self.l])
        to_L, to_half = inverse(S + L), inverse(S + L / 2)
        B, R = det(eye(d) + S * inverse(L)), det(eye(d) + 2 * S * inverse(L))
        xx = S + m * m.T
        q, moved = [], []
        for c in self.c:
            away = c - m
            q.append(mp_exp(-(away.T * to_L * away)[0] / 2) / mp_sqrt(B))
            moved.append(m + S * (to_L * away))
        first = matrix([*q, *m, 1])
        second = matrix(n + d + 1, n + d + 1)
        for i in range(n):
            for j in range(i + 1):
                mid = (self.c[i] + self.c[j]) / 2 - m
                apart = sum(((self.c[i][k] - self.c[j][k]) / self.l[k]) ** 2 for k in range(d))
                value = mp_exp(-apart / 4 - (mid.T * to_half * mid)[0] / 2) / mp_sqrt(R)
                second[i, j] = second[j, i] = value
            for k in range(d):
                second[i, n + k] = second[n + k, i] = q[i] * moved[i][k]
            second[i, n + d] = second[n + d, i] = q[i]
        for k in range(d):
            for other in range(d):
                second[n + k, n + other] = xx[k, other]
            second[n + k, n + d] = second[n + d, n + k] = m[k]
        second[n + d, n + d] = 1
        mean = (self.mean.T * first)[0]
        G = self.cov + self.mean * self.mean.T
        var = self.kernel_var + self.noise_var - mean**2
        for i in range(n + d + 1):
            for j in range(n + d + 1):
                var += G[i, j] * second[i, j]
        cov = matrix(d, 1)
        for i in range(n):
            cov += self.mean[i] * q[i] * (moved[i] - m)
        for k in range(d):
            cov += self.mean[n + k] * S[:, k]
        return {"mean": float(mean), "var": float(var), "cov": floats(cov)}


def floats(values):
    return [float(v) for v in values]


def gp_posterior(case):
    """Of a GP: phi has k at the rows; the covariance is diag(0, A) - P' K^-1 P."""
    x, y, n, d = rows_of(case["X"]), matrix(case["y"]), len(case["y"]), len(case["l"])
    l, a2, s2 = [mpf(v) for v in case["l"]], mpf(case["a"]) ** 2, mpf(case["s"]) ** 2
    A = [mpf(case["tau"]) ** 2] * d + [mpf(case["bias"]) ** 2]
    K, P = matrix(n, n), matrix(n, n + d + 1)
    for i in range(n):
        for j in range(n):
            K[i, j] = a2 * kernel(x[i], x[j], l) + sum(A[k] * x[i][k] * x[j][k] for k in range(d))
            K[i, j] += A[d] + (s2 if i == j else 0)
        P[i, i] = a2
        for k in range(d):
            P[i, n + k] = x[i][k] * A[k]
        P[i, n + d] = A[d]
    K_inverse = inverse(K)
    cov = -P.T * K_inverse * P
    for k in range(d + 1):
        cov[n + k, n + k] += A[k]
    return Linear(x, l, P.T * (K_inverse * y), cov, s2, a2)


def rvm_posterior(case, extra=None):
    """-log evidence and posterior of weights with precisions, on kernels at rows and the bias."""
    x, y, n, d = rows_of(case["X"]), matrix(case["y"]), len(case["y"]), len(case["l"])
    l, s2 = [mpf(v) for v in case["l"]], mpf(case["s"]) ** 2
    centers = [x[i] for i in case["active"]] + ([] if extra is None else [extra])
    alpha = [mpf(v) for v in case["alpha"]]
    if extra is not None:
        alpha.insert(len(centers) - 1, 1 / mpf(case["a"]) ** 2)
    Phi = matrix(n, len(alpha))
    for i in range(n):
        for j, c in enumerate(centers):
            Phi[i, j] = kernel(x[i], c, l)
        Phi[i, len(centers)] = 1
    C = Phi * inverse(diag(alpha)) * Phi.T + s2 * eye(n)
    cov = inverse(Phi.T * Phi / s2 + diag(alpha))
    mean = cov * (Phi.T * y) / s2
    m = len(centers)
    wide_mean, wide = matrix(m + d + 1, 1), matrix(m + d + 1, m + d + 1)
    places = [*range(m), m + d]
    for i, p in enumerate(places):
        wide_mean[p] = mean[i]
        for j, q in enumerate(places):
            wide[p, q] = cov[i, j]
    return -minus_log_normal(y, C), Linear(centers, l, wide_mean, wide, s2)


def answers(case):
    """All of one case."""
    at = rows_of(case["at"])
    m, S = matrix(case["mean"]), matrix(case["cov"])
    gp = gp_posterior(case)
    log_evidence, rvm = rvm_posterior(case)
    out = {
        "GP evidence": value_and_gradient(case),
        "GP prediction": gp.predict(at),
        "GP exact moments": gp.moments(m, S),
        "RVM evidence": {"value": float(log_evidence)},
        "RVM prediction": rvm.predict(at),
        "RVM exact moments": rvm.moments(m, S),
    }
    wider = [rvm_posterior(case, x)[1].predict([x, x]) for x in at]
    out["RVM* prediction"] = {key: [one[key][0] for one in wider] for key in ("mean", "var")}
    for name, criterion in (("evidence", "evidence"), ("bound", "bound"), ("FITC", "fitc")):
        kind = {"centers": case["centers"], "criterion": criterion}
        out[f"reduced-rank {name}"] = value_and_gradient(case, **kind)
    return out


def regimes():
    """Inputs by name."""
    rng = np.random.default_rng(12)

    def case(n=12, d=2, l=1.3, s=0.15, X=None, **more):
        X = rng.uniform(-2, 2, size=(n, d)) if X is None else X
        n, d = X.shape
        y = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, -1] + s * rng.standard_normal(n)
        root = 0.2 * rng.normal(size=(d, d)) / np.sqrt(d)
        active = [*range(0, n, 3)]
        made = {
            "X": X,
            "y": y,
            "l": np.linspace(l, 1.5 * l, d) * np.sqrt(d),
            "a": 1.5,
            "tau": 0.4,
            "bias": 1.0,
            "s": s,
            "at": rng.uniform(-2, 2, size=(2, d)),
            "mean": rng.uniform(-1, 1, size=d),
            "cov": root @ root.T,
            "active": active,
            "alpha": [*rng.uniform(0.2, 5.0, size=len(active)), 2.0],
            "centers": np.unique(X, axis=0)[:: max(n // 5, 1)] + 0.1,
        } | more
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in made.items()}

    yield "twelve rows of two inputs", case()
    for digits in (2, 4, 6, 8):
        noise = float(1.5 * np.sqrt(12 / 10.0**digits))
        yield f"condition 1e{digits}", case(l=4.0, s=noise)
    yield "noise at its floor, 1e-4 amplitudes", case(l=4.0, s=1.5e-4)
    for digits in (10, 12, 14):
        noise = float(1.5 * np.sqrt(12 / 10.0**digits))
        yield f"condition 1e{digits}, below the floor", case(l=4.0, s=noise)
    yield "input 1e6 length-scales wide", case(cov=1e12 * np.eye(2))
    yield "input 1e-8 length-scales wide", case(cov=1e-16 * np.eye(2))
    far = {"at": np.array([[90.0, 90.0], [-95.0, 80.0]]), "mean": np.array([100.0, -90.0])}
    yield "inputs 50 length-scales outside", case(**far)
    yield "one row", case(n=1)
    yield "one input", case(d=1)
    yield "sixty inputs", case(n=10, d=60)
    X = rng.uniform(-2, 2, size=(6, 2))
    yield "each row twice, targets agree", case(X=np.vstack([X, X]), s=1e-3)
    twice = case(X=np.vstack([X, X]), s=0.01)
    twice["y"][6:] = [v + 1.0 for v in twice["y"][:6]]
    yield "each row twice, targets contradict each other", twice
    lag = rng.uniform(-2, 2, size=(12, 1))
    yield "collinear inputs", case(X=np.hstack([lag, 2.0 * lag, lag + 1e-9]))
    yield "a constant input", case(X=np.hstack([lag, np.full((12, 1), 0.7)]))
    yield "long length-scales", case(l=200.0)
    yield "short length-scales", case(l=0.01)


def ncdf(z):
    return erfc(-z / mp_sqrt(2)) / 2


def density(z):
    return mp_exp(-z * z / 2) / mp_sqrt(2 * pi)


def distributions():
    """Moments and CRPS of y = g(m + s z), z a normal score, by quadrature."""
    pieces = [mpf(-12), -8, -4, -2, -1, 0, 1, 2, 4, 8, 12]

    def expect(g, kinks):
        points = sorted({*pieces, *(k for k in kinks if abs(k) < 12)})
        return quad(lambda z: g(z) * density(z), points)

    def of(g, score, y, kinks):
        """From g and its inverse: CRPS = int (F - 1)^2."""
        mean = expect(g, kinks)
        var = expect(lambda z: (g(z) - mean) ** 2, kinks)
        at = score(y)
        points = sorted({*pieces, at, *(k for k in kinks if abs(k) < 12)})
        slopes = mpf(10) ** -25

        def integrand(z):
            slope = (g(z + slopes) - g(z - slopes)) / (2 * slopes)
            return (ncdf(z) - (1 if z >= at else 0)) ** 2 * slope

        crps = quad(integrand, points)
        return {"mean": float(mean), "std": float(mp_sqrt(var)), "crps": float(crps)}

    out = {}
    for m, s, y in ((1.0, 0.3, 2.0), (0.0, 1.5, 0.7), (3.0, 0.01, 20.0)):
        m, s, y = mpf(m), mpf(s), mpf(y)
        common = {"m": float(m), "s": float(s), "y": float(y)}
        out[f"log, m = {float(m)}, s = {float(s)}"] = (
            common
            | {"power": 0.0}
            | of(lambda z, m=m, s=s: mp_exp(m + s * z), lambda v, m=m, s=s: (log(v) - m) / s, y, [])
        )
        for power in (mpf(0.5), mpf(0.25), mpf(1)):
            kink = (-1 / power - m) / s

            def g(z, power=power, m=m, s=s):
                x = 1 + power * (m + s * z)
                return x ** (1 / power) if x > 0 else mpf(0)

            def score(v, power=power, m=m, s=s):
                return ((v**power - 1) / power - m) / s

            name = f"Box-Cox {float(power)}, m = {float(m)}, s = {float(s)}"
            out[name] = common | {"power": float(power)} | of(g, score, y, [kink])
    return out


def main():
    table = {name: case | {"answers": answers(case)} for name, case in regimes()}
    out = {"regressors": table, "transforms": distributions()}
    lines = [f"{json.dumps(part)}: {{\n{each(cases)}\n}}" for part, cases in out.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("reference.json").write_text(text)


def each(cases):
    """A line for each case."""
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())


if __name__ == "__main__":
    main()
