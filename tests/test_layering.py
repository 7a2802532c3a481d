"""The structure of CONTRIBUTING.md: imports go down, arrays know no pandas, the import is light."""

import ast
import functools
import graphlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import forecast_unc

PACKAGE = Path(forecast_unc.__file__).parent

LAYERS = {
    "errors": 0,
    "series": 1,
    "regression": 1,
    "distributions": 2,
    "forecasting": 3,
    "plot": 4,
    "evaluation": 4,
    "panels": 5,
}
# Rooms of `forecasting`: each may import those of a lower rank, types too; modules beside the rooms
# are above them all.
ROOMS = {"choose": 0, "horizon": 0, "models": 1, "pool": 2}
# Functions of more than six parameters, self not counted; all but the last two are public.
OF_MANY_PARAMETERS = {
    "backtest",
    "backtest_panel",
    "fan",
    "Forecast.__init__",
    "Forecaster.forecast",
    "forecast_panel",
    "average",
    "GreedySupport.__init__",
}
WAYS_IN = 6  # cli, sktime, datasets, and the package itself

# Above `series` and below `evaluation`: what may import pandas; all else there is arrays only.
WITH_PANDAS = {
    "forecast_unc.distributions.diagnose",
    "forecast_unc.distributions.fitted",
    "forecast_unc.distributions.forecast",
    "forecast_unc.distributions.interactive",
    "forecast_unc.distributions.page",
    "forecast_unc.distributions.picture",
    "forecast_unc.distributions.export",
    "forecast_unc.distributions.scenarios",
    "forecast_unc.forecasting.combination",
    "forecast_unc.forecasting.forecaster",
    "forecast_unc.forecasting.past",
    "forecast_unc.forecasting.models.lagged",
    "forecast_unc.forecasting.saving",
}

PUBLIC = [
    "Combination",
    "Forecast",
    "Forecaster",
    "GPRegressor",
    "RVMClassifier",
    "RVMRegressor",
    "LinearRegressor",
    "ReducedRankGPRegressor",
    "backtest",
    "backtest_panel",
    "baselines",
    "datasets",
    "forecast_panel",
    "load_model",
    "plot",
    "scores",
]


class Import(NamedTuple):
    importer: str
    imported: str
    line: int
    at_module_level: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """What the modules say; not at import, which every worker of the tests does."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {module_name(p): ast.parse(p.read_text(encoding="utf-8")) for p in paths}


PACKAGES = {module_name(p) for p in PACKAGE.rglob("__init__.py")}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def runtime_nodes(node: ast.AST, at_module_level: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node below, with whether it runs on import; blocks for the type checker left out."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, at_module_level
        yield from runtime_nodes(child, at_module_level and not inner)


def targets(node: ast.AST, importer: str) -> list[str]:
    """Modules that an import loads: a submodule where the name is one, else its parent."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    parent = node.module or ""
    if node.level:
        anchor = importer.split(".")
        drop = node.level - (importer in PACKAGES)
        parent = ".".join(anchor[: len(anchor) - drop] + ([parent] if parent else []))
    names = [f"{parent}.{alias.name}" for alias in node.names]
    return [name if name in trees() else parent for name in names]


@functools.cache
def imports(*, typing_too: bool = False) -> list[Import]:
    found = []
    for importer, tree in trees().items():
        nodes = ((n, False) for n in ast.walk(tree)) if typing_too else runtime_nodes(tree, True)
        found += [
            Import(importer, imported, getattr(node, "lineno", 0), at_module_level)
            for node, at_module_level in nodes
            for imported in targets(node, importer)
        ]
    return found


def within(module: str, *roots: str) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in roots)


def layer(module: str) -> int:
    """Height of a module of the package: 0 for private helpers at the root, 6 for the ways in."""
    _, *rest = module.split(".")
    if rest and rest[0].startswith("_") and rest[0] != "__main__":
        return 0
    return LAYERS.get(rest[0], WAYS_IN) if rest else WAYS_IN


def test_the_walk_sees_relative_nested_and_typing_imports():
    tree = ast.parse(
        "import a\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import b\n"
        "try:\n    import c\nexcept ImportError:\n    pass\n"
        "class K:\n    import d\n    def f(self):\n        from ._typing import Array\n"
    )
    seen = [
        (name, level)
        for node, level in runtime_nodes(tree, True)
        for name in targets(node, "forecast_unc.demo")
    ]
    assert seen == [
        ("a", True),
        ("typing", True),
        ("c", True),
        ("d", True),
        ("forecast_unc._typing", False),
    ]


def test_imports_only_go_down():
    wrong = [
        str(found)
        for found in imports()
        if within(found.imported, "forecast_unc") and layer(found.imported) > layer(found.importer)
    ]
    assert wrong == []


def test_no_circular_imports_within_functions_and_for_types_too():
    graph: dict[str, set[str]] = {module: set() for module in trees()}
    for found in imports(typing_too=True):
        if found.imported in trees() and found.imported not in ("forecast_unc", found.importer):
            graph[found.importer].add(found.imported)
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(trees())


def room(module: str) -> str | None:
    """Room of `forecasting` that a module is in, or None."""
    parts = module.split(".")
    is_inside = parts[1:2] == ["forecasting"] and len(parts) > 2
    return parts[2] if is_inside and parts[2] in ROOMS else None


def test_rooms_import_lower_rooms_alone():
    wrong = [
        str(found)
        for found in imports(typing_too=True)
        if (importer := room(found.importer)) is not None
        and within(found.imported, "forecast_unc.forecasting")
        and (imported := room(found.imported)) != importer
        and (imported is None or ROOMS[imported] >= ROOMS[importer])
    ]
    assert wrong == []
    rooms = {room(module) for module in trees()} - {None}
    assert rooms == set(ROOMS)


def test_rooms_make_no_forecasts():
    """They return a Prediction, of which a Forecast is made once, at the end."""
    makers = "forecast_unc.distributions.forecast", "forecast_unc.distributions.fitted"
    wrong = [
        str(found)
        for found in imports(typing_too=True)
        if room(found.importer) is not None and found.imported in makers
    ]
    assert wrong == []


def functions(node: ast.AST, above: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions with their names, those of classes after the class and a dot."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield above + child.name, child
        name = f"{child.name}." if isinstance(child, ast.ClassDef) else above
        yield from functions(child, name)


def test_functions_have_six_parameters_at_most():
    def n_parameters(node: ast.FunctionDef) -> int:
        every = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        return sum(one.arg not in ("self", "cls") for one in every)

    found = [pair for tree in trees().values() for pair in functions(tree)]
    assert len(found) > 1000
    assert {name for name, node in found if n_parameters(node) > 6} == OF_MANY_PARAMETERS


def defined_in_classes(tree: ast.Module) -> set[str]:
    """Names that the classes of a module define: methods, fields, and what they set of self."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    nodes = [node for one in classes for node in ast.walk(one)]
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    stores = {ast.unparse(node) for node in nodes if isinstance(getattr(node, "ctx", 0), ast.Store)}
    return names | {name.removeprefix("self.") for name in stores}


def of_another(node: ast.Attribute) -> bool:
    """Whether an attribute is private, and of another object than self, cls or super()."""
    public = not node.attr.startswith("_") or node.attr.endswith("__")
    return not (public or ast.unparse(node.value) in ("self", "cls", "super()"))


def test_private_members_are_used_in_their_own_module_alone():
    """Of self and cls by subclasses, too; of another object where a class of the module has it."""
    wrong = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and of_another(node)
        and node.attr not in defined_in_classes(tree) | {"_replace", "_asdict", "_fields"}
    ]
    assert wrong == []


def test_array_modules_know_neither_pandas_nor_plots():
    wrong = [
        str(found)
        for found in imports(typing_too=True)
        if layer(found.importer) in (1, 2, 3)
        and not within(found.importer, "forecast_unc.series")
        and found.importer not in WITH_PANDAS
        and within(found.imported, "pandas", "matplotlib", "statsmodels")
    ]
    assert wrong == []


def test_heavy_libraries_are_imported_where_used():
    wrong = [
        str(found)
        for found in imports()
        if found.at_module_level and within(found.imported, "matplotlib", "statsmodels")
    ]
    assert wrong == []


def test_import_is_light():
    """Nor does it warn in a notebook without widgets, which tqdm would."""
    code = (
        "import sys, types; kernel = types.ModuleType('IPython')\n"
        "kernel.get_ipython = lambda: types.SimpleNamespace(config={'IPKernelApp': {}})\n"
        "seen = {'IPython': kernel, 'ipykernel.zmqshell': kernel, 'ipywidgets': None}\n"
        "sys.modules.update(seen)\n"
        "import forecast_unc; print(*sys.modules)\n"
        "from forecast_unc import *; print(*sys.modules)\n"
    )
    # not by -W error: tqdm catches what its import raises
    command = [sys.executable, "-W", "always", "-c", code]
    run = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    bare, loaded = (set(line.split()) for line in run.stdout.splitlines())
    assert bare.isdisjoint({"numpy", "pandas", "scipy", "sklearn"})
    assert loaded >= {"forecast_unc.panels.panel_forecast", "pandas"}
    assert loaded.isdisjoint({"click", "jinja2", "matplotlib", "statsmodels"})
    assert loaded.isdisjoint({"scipy.signal", "sklearn.cluster", "sklearn.model_selection"})


def written() -> set[str]:
    """Names of DESIGN that some module defines, or that are modules themselves."""
    names = {module.rpartition(".")[2] for module in trees()}
    for tree in trees().values():
        names |= {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    return names & set(PUBLIC)


def test_public_names_are_exported():
    exported = set(getattr(forecast_unc, "__all__", []))
    assert exported - {"__version__"} == written()
    assert exported <= set(dir(forecast_unc))
    assert [name for name in exported if not hasattr(forecast_unc, name)] == []
    with pytest.raises(AttributeError, match="module 'forecast_unc' has no attribute 'forecaster'"):
        _ = forecast_unc.forecaster


def test_type_checkers_see_the_same_names():
    """From the same modules: the interface file says again what `__getattr__` imports."""
    stub = ast.parse(PACKAGE.joinpath("__init__.pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes.pop("__version__") == "forecast_unc._version"
    assert homes == forecast_unc._HOMES
    assert set(ast.literal_eval(stub.body[-1].value)) == set(forecast_unc.__all__)


def own(obj: object) -> bool:
    return (getattr(obj, "__module__", None) or "").startswith("forecast_unc")


def callables(name: str, obj: object, above: str = "") -> Iterator[tuple[str, object, str]]:
    """(name, function or class, docstrings that may describe it) at and below a public name."""
    doc = f"{above}\n{inspect.getdoc(obj) or ''}"
    if isinstance(obj, ModuleType):
        for key, value in vars(obj).items():
            home = getattr(value, "__module__", None) or ""
            if not key.startswith("_") and within(home, obj.__name__):
                yield from callables(f"{name}.{key}", value, doc)
    elif inspect.isclass(obj):
        yield name, obj, doc
        for key, value in inspect.getmembers(obj):
            function = value.fget if isinstance(value, property) else value
            if not key.startswith("_") and inspect.isroutine(function) and own(function):
                yield from callables(f"{name}.{key}", function, doc)
    elif inspect.isfunction(obj):
        yield name, obj, doc


def test_public_names_and_their_parameters_are_documented():
    undocumented = []
    for name in set(forecast_unc.__all__) - {"__version__"}:
        obj = getattr(forecast_unc, name)
        if not inspect.getdoc(obj):
            undocumented.append(name)
        for path, item, doc in callables(name, obj):
            parameters = [p for p in inspect.signature(item).parameters if p not in ("self", "cls")]
            if not (inspect.getdoc(item) or "").strip():
                undocumented.append(path)
            undocumented += [f"{path}({p})" for p in parameters if not re.search(rf"\b{p}\b", doc)]
    assert undocumented == []


def test_public_definitions_have_docstrings():
    bare = []
    for module, node in ((m, n) for m, tree in trees().items() for n in ast.walk(tree)):
        if isinstance(node, ast.Module | ast.ClassDef):
            bare += [
                f"{module}.{child.name}"
                for child in node.body
                if isinstance(child, ast.ClassDef | ast.FunctionDef)
                and not child.name.startswith("_")
                and not ast.get_docstring(child)
                and "overload" not in map(ast.unparse, child.decorator_list)
            ]
    assert bare == []
