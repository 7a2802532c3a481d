"""Independent answers: slow, obvious, written from the definitions with numpy alone.

Nothing here calls the code it judges, except a model's public ``predict`` where the question
is what an uncertain input makes of it.
"""

import itertools

import numpy as np

# Gauss-Hermite nodes along each of `rank` directions.
NODES = {0: 1, 1: 90, 2: 60, 3: 36, 4: 22}


def quadrature(mean, cov, n_nodes=None):
    """Points (k, d) and weights (k,) that integrate over N(mean, cov), of any rank."""
    variances, axes = np.linalg.eigh(np.asarray(cov))
    used = variances > 1e-13 * variances.max(initial=1e-300)
    root = axes[:, used] * np.sqrt(variances[used])
    rank = root.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes or NODES[rank])
    grid, products = np.zeros((1, 0)), np.ones(1)
    for _ in range(rank):
        grid = np.column_stack([np.repeat(grid, len(nodes), axis=0), np.tile(nodes, len(grid))])
        products = np.multiply.outer(products, weights / weights.sum()).ravel()
    return mean + grid @ root.T, products


def in_blocks(predict, X, size=20_000):
    """Means and variances at the rows of X, not all at once."""
    parts = [predict(X[i : i + size]) for i in range(0, len(X), size)]
    mean, std = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, std**2


def quadrature_moments(predict, mean, cov, n_nodes=None):
    """Mean, variance and Cov[x, y] by the laws of total mean, variance and covariance.

    `predict` gives mean and std of y at the rows of X.
    """
    X, p = quadrature(mean, cov, n_nodes)
    mu, var = in_blocks(predict, X)
    first = p @ mu
    return first, p @ var + p @ (mu - first) ** 2, (X - mean).T @ (p * (mu - first))


def squared_exponential(X1, X2, lengthscales):
    """exp(-1/2 sum_j (x_j - x'_j)^2 / l_j^2), with the differences written out."""
    difference = (X1[:, None] - X2[None]) / lengthscales
    return np.exp(-0.5 * (difference**2).sum(axis=-1))


def explicit_G(posterior):
    """The matrix G of a KernelPosterior, from the definition, by a plain inverse."""
    m = len(posterior.centers)
    G = np.zeros((len(posterior.weights),) * 2)
    G[m:, m:] = np.diag(posterior.linear_var)
    for factor in posterior.factors:
        L = np.tril(factor.chol)
        P = np.zeros((len(L), len(G)))
        P[:m, :m] = factor.scale * np.eye(m)
        P[:, m:] = factor.linear
        G += factor.sign * P.T @ np.linalg.solve(L @ L.T, P)
    return G


def explicit_features(posterior, X):
    """phi(x) = [kernels; x; 1] at the rows of X, of shape (n, m + d + 1)."""
    X = np.asarray(X) - posterior.input_offset
    kernels = squared_exponential(X, posterior.centers, posterior.lengthscales)
    return np.column_stack([kernels, X, np.ones(len(X))])


def explicit_predict(posterior, X):
    """Mean and std of y with G written out."""
    phi = explicit_features(posterior, X)
    mean = posterior.output_offset + phi @ posterior.weights
    var = np.einsum("ia,ab,ib->i", phi, explicit_G(posterior), phi)
    return mean, np.sqrt(posterior.noise_var + posterior.kernel_var + var)


def textbook_moments(posterior, mean, cov):
    """Mean, variance and Cov[x, y] from kappa + tr[(G + w w') E(phi phi')] - mean^2.

    Every exponent is negative, so it never overflows; but it subtracts numbers as large as
    the signal's variance over the noise's, and loses that many digits.
    """
    m, d = posterior.centers.shape
    mean = mean - posterior.input_offset
    L = np.diag(posterior.lengthscales**2)
    inverse_L = np.diag(posterior.lengthscales**-2.0)
    B = np.linalg.det(np.eye(d) + cov @ inverse_L)
    R = np.linalg.det(np.eye(d) + 2 * cov @ inverse_L)
    c = posterior.centers

    away = c - mean
    q = np.exp(-0.5 * np.einsum("ia,ab,ib->i", away, np.linalg.inv(cov + L), away)) / np.sqrt(B)
    center_x = mean + away @ np.linalg.solve(cov + L, cov)  # E[k_i x] / q_i
    Q = np.zeros((m + d + 1, m + d + 1))
    apart = c[:, None] - c[None]
    between = (c[:, None] + c[None]) / 2 - mean
    Q[:m, :m] = np.exp(
        -0.25 * np.einsum("ija,ab,ijb->ij", apart, inverse_L, apart)
        - 0.5 * np.einsum("ija,ab,ijb->ij", between, np.linalg.inv(cov + L / 2), between)
    ) / np.sqrt(R)
    Q[:m, m:-1] = q[:, None] * center_x
    Q[m:-1, :m] = Q[:m, m:-1].T
    Q[:m, -1] = Q[-1, :m] = q
    Q[m:-1, m:-1] = cov + np.outer(mean, mean)
    Q[m:-1, -1] = Q[-1, m:-1] = mean
    Q[-1, -1] = 1.0

    w = posterior.weights
    first = w @ Q[-1]
    second = np.sum((explicit_G(posterior) + np.outer(w, w)) * Q)
    covariance = Q[m:-1] @ w - mean * first
    var = posterior.noise_var + posterior.kernel_var + second - first**2
    return posterior.output_offset + first, var, covariance


def gp_kernel(X1, X2, lengthscales, amplitude, linear_scale, bias_scale):
    """Prior covariance of the function: squared-exponential, linear and constant parts."""
    nonlinear = amplitude**2 * squared_exponential(X1, X2, lengthscales)
    return nonlinear + (X1 * linear_scale**2) @ X2.T + bias_scale**2


def gp_log_evidence(y, K):
    """log N(y | 0, K)."""
    _, log_det = np.linalg.slogdet(K)
    return -0.5 * y @ np.linalg.solve(K, y) - 0.5 * log_det - 0.5 * len(y) * np.log(2 * np.pi)


def fitted_gp_joint(gp, X, y, X_new, bias_scale):
    """Joint mean and covariance of new observations of a fitted GPRegressor, from Bayes' rule.

    X and y are the data it was fitted to; only its hyper-parameters are taken from it.
    """
    center = X.mean(axis=0)
    A, B = X - center, X_new - center
    scales = gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias_scale
    K = gp_kernel(A, A, *scales) + gp.noise_std_**2 * np.eye(len(A))
    cross = gp_kernel(B, A, *scales)
    mean = y.mean() + cross @ np.linalg.solve(K, y - y.mean())
    cov = gp_kernel(B, B, *scales) - cross @ np.linalg.solve(K, cross.T)
    return mean, cov + gp.noise_std_**2 * np.eye(len(B))


def propagate(moments, lags, history, steps):
    """Mean (h,) and joint covariance (h, h) of the next ``steps`` values.

    The classic recursion as it stands in the style guide; moments(mean, cov) gives mean,
    variance and slope.
    """
    p = max(lags)
    mean = np.concatenate([history[-p:], np.zeros(steps)])
    cov = np.zeros((p + steps, p + steps))
    for t in range(p, p + steps):
        x = t - np.asarray(lags)
        mean[t], cov[t, t], slope = moments(mean[x], cov[np.ix_(x, x)])
        cov[t, :t] = cov[:t, t] = cov[:t, x] @ slope
    return mean[p:], cov[p:, p:]


def quadrature_recursion(predict, lags, history, steps, exog=None):
    """The classic recursion without Stein's lemma: each step integrates over all steps before.

    Every covariance with an earlier step is an integral of its own. exog (steps, k) holds known
    regressors.
    """
    exog = np.zeros((steps, 0)) if exog is None else exog
    p = max(lags)
    mean, cov = np.zeros(steps), np.zeros((steps, steps))
    for t in range(steps):
        Z, weights = quadrature(mean[:t], cov[:t, :t])
        series = np.column_stack([np.tile(history[-p:], (len(Z), 1)), Z])
        inputs = series[:, p + t - np.asarray(lags)]
        mu, var = in_blocks(predict, np.column_stack([inputs, np.tile(exog[t], (len(Z), 1))]))
        mean[t] = weights @ mu
        cov[t, t] = weights @ var + weights @ (mu - mean[t]) ** 2
        cov[t, :t] = cov[:t, t] = (Z - mean[:t]).T @ (weights * (mu - mean[t]))
    return mean, cov


def second_step_of_one_function(predict, latent_cov, noise_var, lags, history):
    """Mean, variance and Cov[y1, y2] of the second step, given that f is one function.

    y2 | y1 is Gaussian: conditioned on y1 = f(x1) + noise as on a further observation.
    latent_cov(X) is the posterior covariance of f between the rows of X.
    """
    history = np.asarray(history)
    back = np.asarray(lags)
    x1 = history[len(history) - back][None]
    (m1,), (std1,) = predict(x1)
    y1, weights = quadrature(np.array([m1]), np.array([[std1**2]]))
    mean, var = np.zeros(len(y1)), np.zeros(len(y1))
    for i, value in enumerate(y1[:, 0]):
        x2 = np.append(history, value)[len(history) + 1 - back][None]
        joint = latent_cov(np.vstack([x1, x2])) + noise_var * np.eye(2)
        gain = joint[1, 0] / joint[0, 0]
        mean[i] = predict(x2)[0][0] + gain * (value - m1)
        var[i] = joint[1, 1] - gain * joint[0, 1]
    m2 = weights @ mean
    return m2, weights @ var + weights @ (mean - m2) ** 2, weights @ (mean * (y1[:, 0] - m1))


def arma_psi_weights(ar, steps):
    """psi_0 = 1, psi_k = sum_j ar_j psi_(k-j): what a shock still weighs k steps later."""
    psi = np.zeros(steps)
    psi[0] = 1.0
    for k, j in itertools.product(range(1, steps), range(len(ar))):
        if j < k:
            psi[k] += ar[j] * psi[k - j - 1]
    return psi


def undo_differences(history, changes, lags):
    """The path whose differences at `lags`, one after the other, are `changes`."""
    if not lags:
        return np.asarray(changes)
    first, rest = lags[0], lags[1:]
    once = np.asarray(history)[first:] - np.asarray(history)[:-first]
    path = list(history)
    for change in undo_differences(once, changes, rest):
        path.append(path[-first] + change)
    return np.array(path[len(history) :])


def finite_difference(function, x, step=1e-5):
    """Central differences of a scalar function of a vector."""
    x = np.asarray(x, dtype=float)
    gradient = np.zeros(len(x))
    for i in range(len(x)):
        move = np.zeros(len(x))
        move[i] = step
        gradient[i] = (function(x + move) - function(x - move)) / (2 * step)
    return gradient


def autoregression(coefficients, n, rng, noise_std=1.0, burn_in=200):
    """A simulated AR series of length n."""
    p = len(coefficients)
    y = np.zeros(p + burn_in + n)
    for t in range(p, len(y)):
        y[t] = np.dot(coefficients, y[t - p : t][::-1]) + noise_std * rng.standard_normal()
    return y[-n:]
