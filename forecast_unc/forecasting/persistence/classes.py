"""The classes that a fitted forecaster is made of: what a file may hold, and no more."""

from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.averaging import Averaging
from forecast_unc.forecasting.ensemble import Ensemble, Refusal
from forecast_unc.forecasting.model import LaggedModel
from forecast_unc.forecasting.persistence.schema import Classes, Shapes
from forecast_unc.forecasting.recursion import OneStepModel, Past
from forecast_unc.forecasting.rolling import Rolling
from forecast_unc.forecasting.rows import Differencing, NoiseChoice
from forecast_unc.forecasting.smoothing import Nodes, Smoothing
from forecast_unc.forecasting.smoothing_model import SmoothingModel, SmoothingSpecification
from forecast_unc.forecasting.specification import Specification
from forecast_unc.regression.augmented import AugmentedPosterior, CenterAtInput, KernelAtInput
from forecast_unc.regression.errors_in_variables import ErrorsInVariablesGP
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.mixture import PosteriorMixture
from forecast_unc.regression.noisy_inputs.evidence import Round
from forecast_unc.regression.noisy_inputs.rows import BlurredRows, LinearizedRows
from forecast_unc.regression.process import GaussianProcess
from forecast_unc.regression.reduced_rank.posterior import Support
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.regression.rvm import RVMRegressor
from forecast_unc.regression.search import SearchEnd
from forecast_unc.series.history import History

_INPUTS = {"d": "d"}
_GP_SHAPES: Shapes = {
    "lengthscales_": "d",
    "linear_scale_": "d",
    "_input_offset": "d",
    "_mean_weights": "d",
    "input_cov_": "... d d",
    "posterior_": _INPUTS,
    "node_weights_": "k",
    "nodes_": {"": "k", "d": "d"},
    "_rows": _INPUTS,
}
_REGRESSORS: Classes = {
    GPRegressor: _GP_SHAPES,
    ErrorsInVariablesGP: {**_GP_SHAPES, "_slopes_of": _INPUTS, "_error_means": "e"},
    RVMRegressor: {
        "lengthscales_": "d",
        "_input_offset": "d",
        "_input_scale": "d",
        "_centers": "m d",
        "relevance_": "m",
        "alpha_": "r",
        "active_": "r",
        "_columns": "r",
        "posterior_": _INPUTS,
    },
    ReducedRankGPRegressor: {
        "lengthscales_": "d",
        "linear_scale_": "d",
        "support_": "m d",
        "_model": {"m": "m", "d": "d"},
        "_triangle": "t t",
        "posterior_": _INPUTS,
    },
    Support: {"centers": "m d", "root": "m m", "hyper": _INPUTS, "mean_weights": "d"},
    GaussianProcess: {
        "lengthscales": "d",
        "linear_std": "d+1",
        "input_offset": "d",
        "mean_weights": "d",
    },
    BlurredRows: {"process": _INPUTS, "blur": "d"},
    LinearizedRows: {"process": _INPUTS, "curve": _INPUTS, "input_cov": "... d d"},
    Round: {"input_std": "d"},
    SearchEnd: {"free": "q", "theta": "q"},
}
_POSTERIORS: Classes = {
    Factor: {"chol": "r r", "linear": "r p", "error_var": "r"},
    KernelPosterior: {
        "lengthscales": "d",
        "centers": "m d",
        "weights": "m+d+1",
        "factors": {"p": "d+1"},
        "linear_var": "d+1",
        "input_offset": "d",
        "prior_lengthscales": "d",
    },
    PosteriorMixture: {"p": "k", "posteriors": {"": "k", "d": "d"}},
    AugmentedPosterior: {"plain": _INPUTS, "added": _INPUTS},
    KernelAtInput: {
        "plain": _INPUTS,
        "inputs": "n d",
        "whitened": "r n",
        "scaled_residual": "n",
    },
    CenterAtInput: {
        "plain": _INPUTS,
        "model": _INPUTS,
        "inputs": "n d",
        "scaled_residual": "n",
    },
}
_MODELS: Classes = {
    History: {
        "y": "n",
        "stds": "n",
        "index": "n",
        "exog": "n x",
        "columns": "x",
        "outliers": "n",
    },
    Past: {"levels": "n", "stds": "n", "exog": "n k", "learned": "n"},
    Specification: {"lags": "l"},
    OneStepModel: {"lags": "l", "posterior": _INPUTS},
    PowerTransform: {},
    Differencing: {},
    NoiseChoice: {},
    LaggedModel: {
        "history": {"n": "n"},
        "past": {"n": "n", "k": "k"},
        "specification": {"l": "l"},
        "one_step": {"l": "l", "d": "l+k"},
        "regressor": {"d": "l+k"},
    },
    SmoothingSpecification: {},
    Nodes: {"alpha": "k", "beta": "k", "phi": "k", "gamma": "k"},
    Smoothing: {
        "nodes": {"k": "k"},
        "drift_var": "k",
        "season_var": "k",
        "weights": "k",
        "variance": "k",
    },
    SmoothingModel: {"history": {"n": "n"}, "levels": "r"},
    Averaging: {},
    Refusal: {},
    Ensemble: {
        "history": {"n": "n"},
        "models": {"": "k", "n": "n"},
        "rolling": {"": "k"},
    },
    Rolling: {"models": {"": ""}},
}
MODEL_CLASSES: Classes = {**_REGRESSORS, **_POSTERIORS, **_MODELS}
