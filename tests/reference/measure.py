"""Errors of the package beside reference.json, and the table of them in docs/numbers.md.

Run ``python -m tests.reference.measure`` to write the table.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.regression.augmented import KernelAtInput
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.posterior import check_positive_variance
from forecast_unc.regression.reduced_rank.reduced_rank_evidence import ReducedRankEvidence
from forecast_unc.regression.rvm import sparse_evidence as sparse

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "numbers.md"
START, END = "<!-- table -->\n", "<!-- end of table -->\n"
REFUSED = np.inf  # an error with a remedy
SUPPORTED = 1e-6
# Of reduced rank, 30 times what five processors gave: 3e-7 with long length-scales, and 2e-6 at the
# floor of the noise, where eps n (a / s)^2 is 3e-7. A GP and an RVM stay below 2e-8.
REDUCED_RANK, AT_THE_FLOOR = 1e-5, 1e-4


def limit(regime, quantity):
    """Largest error of a quantity that is right in a regime, from the floor of the noise up."""
    if not quantity.startswith("reduced-rank"):
        return SUPPORTED
    return AT_THE_FLOOR if regime.startswith("noise at its floor") else REDUCED_RANK


def reference():
    """Inputs and answers."""
    return json.loads((HERE / "reference.json").read_text())


def off(got, want, unit=0.0):
    """Largest error, relative to the value or, where that is smaller, a unit of the problem."""
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    return float(np.max(np.abs(got - want) / np.maximum(np.abs(want), unit)))


def evidence_error(answer, value, gradient):
    """Of a value in nats and its gradient, whose unit is the largest of its components."""
    if not np.isfinite(value):
        return REFUSED
    largest = np.abs(answer["gradient"]).max()
    return max(off(value, answer["value"], 1.0), off(gradient, answer["gradient"], largest))


def prediction_error(answer, posterior, at):
    """Of means in predictive stds, variances and, where it is known, a covariance."""
    mean, var = posterior.predict(at)
    check_positive_variance(var, posterior)
    std = np.sqrt(answer["var"])
    errors = [off(mean, answer["mean"], std), off(var, answer["var"])]
    if "covariance" in answer:
        unit = np.sqrt(np.prod(np.subtract(answer["var"], posterior.noise_var)))
        errors.append(off(posterior.covariance(at)[0, 1], answer["covariance"], unit))
    return max(errors)


def moments_error(answer, posterior, mean, cov):
    """Of the mean, the variance and Cov[x, y], in stds."""
    got = posterior.moments(mean, cov)
    check_positive_variance(np.array([got.var]), posterior)
    std = np.sqrt(answer["var"])
    errors = [off(got.mean, answer["mean"], std), off(got.var, answer["var"])]
    unit = np.sqrt(cov.diagonal()) * std
    return max(*errors, off(cov @ got.slope, answer["cov"], unit))


def of_regressors(case):
    """Errors of one case, by quantity; a function each, as each may refuse."""
    answers = case["answers"]
    X, y, l, at = (np.array(case[key]) for key in ("X", "y", "l", "at"))
    mean, cov, alpha = (np.array(case[key]) for key in ("mean", "cov", "alpha"))
    a, tau, s, bias = (case[key] for key in ("a", "tau", "s", "bias"))
    d, active, centers = len(l), case["active"], np.array(case["centers"])
    nothing = np.zeros(d)
    process = GaussianProcess(l, a, np.append(np.full(d, tau), bias), s, nothing, 0.0, nothing)

    def gp_evidence():
        value, gradient = GaussianProcessEvidence(X, y, True, bias_scale=bias)(l, a, tau, s)
        return evidence_error(answers["GP evidence"], value, gradient)

    def rvm():
        Phi = np.column_stack([np.exp(-0.5 * (((X - X[i]) / l) ** 2).sum(axis=1)) for i in active])
        found = sparse.weight_posterior(np.column_stack([Phi, np.ones(len(y))]), y, alpha, s**2)
        m = len(active)
        bias_alone = np.zeros((m + 1, d + 1), order="F")
        bias_alone[-1, -1] = 1.0
        weights = np.concatenate([found.mean[:m], nothing, found.mean[m:]])
        factors = (Factor(1, found.chol, 1.0, bias_alone),)
        none = np.zeros(d + 1)
        plain = KernelPosterior(X[active], l, weights, factors, none, 0.0, s**2, nothing)
        return found, plain

    def reduced_rank(criterion):
        made = ReducedRankEvidence(X, y, centers, True, criterion)
        return evidence_error(
            answers[f"reduced-rank {criterion if criterion != 'fitc' else 'FITC'}"],
            *made(l, a, tau, s),
        )

    def prediction(of, posterior):
        return prediction_error(answers[f"{of} prediction"], posterior(), at)

    def moments(of, posterior):
        return moments_error(answers[f"{of} exact moments"], posterior(), mean, cov)

    def gp():
        return process.posterior(X, y)

    def plain():
        return rvm()[1]

    def with_basis():
        return KernelAtInput.of(plain(), X, y, a**2)

    return {
        "GP evidence": gp_evidence,
        "GP prediction": lambda: prediction("GP", gp),
        "GP exact moments": lambda: moments("GP", gp),
        "RVM evidence": lambda: off(rvm()[0].log_evidence, answers["RVM evidence"]["value"], 1.0),
        "RVM prediction": lambda: prediction("RVM", plain),
        "RVM exact moments": lambda: moments("RVM", plain),
        "RVM* prediction": lambda: prediction("RVM*", with_basis),
        "reduced-rank evidence": lambda: reduced_rank("evidence"),
        "reduced-rank bound": lambda: reduced_rank("bound"),
        "reduced-rank FITC": lambda: reduced_rank("fitc"),
    }


def of_one_step(joint, case):
    """Errors of the moments and the CRPS of one step."""
    unit = case["std"]
    return {
        "mean": off(joint.mean, [case["mean"]], unit),
        "std": off(joint.std, [unit]),
        "CRPS": off(joint.q.crps(np.array([case["y"]])), case["crps"]),
    }


def of_transform(case):
    """Errors of a forecast on the scale of a transform."""
    transform = PowerTransform(case["power"])
    joint = Joint.normal(np.array([case["m"]]), np.array([[case["s"] ** 2]]), transform)
    return of_one_step(joint, case)


def error(measure):
    """What is measured, or REFUSED if that is refused with a remedy."""
    try:
        return measure()
    except ValueError as refusal:
        if " must " not in str(refusal):
            raise
        return REFUSED


def table():
    """Errors of the regressors, the largest of each, a row for each regime."""
    cases = reference()["regressors"].items()
    rows = {name: {of: error(f) for of, f in of_regressors(case).items()} for name, case in cases}
    found = pd.DataFrame(rows)
    return found.groupby(found.index.str.partition(" ").get_level_values(0), sort=False).max().T


def written(frame):
    """A table of Markdown; powers of ten, rounded up."""
    lines = ["| | " + " | ".join(frame.columns) + " |", "|---" * (1 + len(frame.columns)) + "|"]
    for name, row in frame.iterrows():
        said = [
            f"1e{np.ceil(np.log10(max(v, 1e-15))):.0f}" if v < np.inf else "refused" for v in row
        ]
        lines.append(f"| {name} | " + " | ".join(said) + " |")
    return "\n".join(lines) + "\n"


def main():
    """Write the tables between the marks of the page."""
    cases = reference()
    kinds = {name: of_transform(case) for name, case in cases["transforms"].items()}
    steps = pd.DataFrame({"log and Box-Cox": pd.DataFrame(kinds).max(axis=1)})
    parts = [table(), steps.T]
    before, rest = DOCS.read_text().split(START)
    text = before + START + "\n" + "\n".join(map(written, parts)) + "\n" + END + rest.split(END)[1]
    DOCS.write_text(text)


if __name__ == "__main__":
    main()
