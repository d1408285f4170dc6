"""Who may import whom, read from the source; and what is loaded by importing the laboratory."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAB = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.glob("lab/**/*.py"))}
MODULES = {name.removesuffix(".__init__"): path for name, path in LAB.items()}
APP = sorted(ROOT.glob("app/**/*.py"))


def only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def statements(node: ast.AST, inside_functions: bool):
    """Import statements below a node; those for type checkers never run and do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not only_for_types(child) and (
            inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        ):
            yield from statements(child, inside_functions)


def imported(statement: ast.stmt) -> set[str]:
    """`from lab import batches` means lab.batches where that is a module."""
    if isinstance(statement, ast.Import):
        return {alias.name for alias in statement.names}
    assert isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module, "relative import"
    names = {f"{statement.module}.{alias.name}" for alias in statement.names}
    return {name if name in MODULES else statement.module for name in names}


@cache
def imports(path: Path, inside_functions: bool = True) -> frozenset[str]:
    found = statements(ast.parse(path.read_text()), inside_functions)
    return frozenset(name for statement in found for name in imported(statement))


def siblings(module: str) -> set[str]:
    return {name for name in imports(MODULES[module]) if name.split(".")[0] in ("lab", "app")}


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def modules_loaded(program: str) -> set[str]:
    told = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_readers_of_imports_see_what_is_there():
    source = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    from c.d import e\nif x:\n    import g.h"
    tree = ast.parse(source)
    assert [sorted(imported(s)) for s in statements(tree, True)] == [["a"], ["c.d"], ["g.h"]]
    assert [sorted(imported(s)) for s in statements(tree, False)] == [["a"], ["g.h"]]
    assert "lab.batches" in siblings("lab.plan") and "lab.bar" in siblings("lab.run")


@pytest.mark.parametrize("module", MODULES)
def test_the_engine_knows_nothing_of_the_page(module):
    allowed = {"app.server"} if module == "lab.cli" else set()
    assert packages(MODULES[module]).isdisjoint({"streamlit", "plotly", "sklearn"})
    assert {name for name in siblings(module) if name.startswith("app")} == allowed


def test_the_command_line_imports_the_page_only_inside_a_function():
    assert not any(name.startswith("app") for name in imports(MODULES["lab.cli"], inside_functions=False))


@pytest.mark.parametrize("path", APP, ids=[str(path.relative_to(ROOT)) for path in APP])
def test_the_page_needs_no_scikit_learn(path):
    assert "sklearn" not in packages(path)


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("lab.key", set()),
        ("lab.record", set()),
        ("lab.task", set()),
        ("lab.reduction", set()),
        ("lab.clipping", set()),
        ("lab.optimizers", set()),
        ("lab.reference", set()),
        ("lab.exercise", set()),
        ("lab.settings", {"lab.key"}),
        ("lab.batches", {"lab.task"}),
        ("lab.schedules", {"lab.settings"}),
        ("lab.step", {"lab.optimizers", "lab.reduction", "lab.clipping", "lab.task"}),
        ("lab.program", {"lab.reduction", "lab.step"}),
    ],
)
def test_imports_point_one_way(module, allowed):
    assert siblings(module) == allowed


def test_only_the_command_line_stands_above_the_findings():
    assert {module for module in MODULES if "lab.findings" in siblings(module)} == {"lab.cli"}


def test_nothing_in_the_engine_imports_in_a_circle():
    graph = {
        module: {name for name in imports(path, inside_functions=False) if name in MODULES} - {module}
        for module, path in MODULES.items()
    }
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("lab.key") < order.index("lab.settings") < order.index("lab.step") < order.index("lab.run")


@pytest.mark.parametrize(
    "program",
    [
        "import lab",
        "import lab.settings; lab.settings.Settings()",
        "from lab import Settings; Settings.from_words(['task=hand'])",
        "import lab.cli; lab.cli.parser()",
        "import lab.record, lab.key",
    ],
)
def test_reading_settings_loads_neither_jax_nor_the_page(program):
    assert modules_loaded(program).isdisjoint({"jax", "jaxlib", "optax", "streamlit", "plotly", "sklearn", "app"})


def test_a_run_loads_nothing_of_the_page():
    loaded = modules_loaded("from lab import Settings, fit; fit(Settings(task='scalar', steps=1))")
    assert "jax" in loaded and loaded.isdisjoint({"streamlit", "plotly", "sklearn", "app"})


def test_every_public_name_is_there_and_no_other():
    import lab

    assert sorted(lab.__all__) == sorted(lab.HOMES)
    assert all(getattr(lab, name).__name__ == name for name in lab.__all__)
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        lab.train  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
