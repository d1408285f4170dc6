"""Imports point one way, and settings can be read without loading JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "lab").rglob("*.py"))
MODULES = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}
COMPOSED = {
    "lab.key": set(),
    "lab.choices": set(),
    "lab.user_file": {"lab.devices", "lab.key"},
    "lab.tables.parse": {"lab.key"},
    "lab.tables": {"lab.key", "lab.tables.parse"},
    "lab.tables.encode": {"lab.key", "lab.tables.parse"},
    "lab.consistency": {"lab.key", "lab.choices", "lab.tables", "lab.user_file"},
    "lab.keys": {"lab.key", "lab.choices", "lab.tables"},
    "lab.settings": {"lab.key", "lab.keys", "lab.choices", "lab.consistency", "lab.tables", "lab.user_file"},
    "lab.meeting": {"lab.key"},
    "lab.processes": {"lab.key", "lab.choices", "lab.settings", "lab.meeting", "lab.devices"},
    "lab.record": set(),
    "lab.task": set(),
    "lab.reduction": set(),
    "lab.cache": set(),
    "lab.flat": set(),
    "lab.clipping": {"lab.flat", "lab.precision"},
    "lab.precision": set(),
    "lab.scaling": set(),
    "lab.devices": {"lab.choices", "lab.key", "lab.precision"},
    "lab.optimizers": set(),
    "lab.reference": set(),
    "lab.exercise": set(),
    "lab.readings": set(),
    "lab.recipe": {"lab.devices", "lab.scaling", "lab.task"},
    "lab.step": {
        "lab.clipping", "lab.flat", "lab.optimizers", "lab.precision", "lab.readings", "lab.recipe", "lab.reduction",
        "lab.scaling", "lab.task",
    },
}  # fmt: skip


def names(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        whole = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else str(node.module) for name in whole]
    return []


def imports(module: str, everywhere: bool = True) -> set[str]:
    """What a module imports: everywhere in it, or only when it is loaded."""
    tree = ast.parse(MODULES[module].read_text())
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if not everywhere and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        found |= set(names(node))
        waiting += ast.iter_child_nodes(node)
    return found


def own(module: str, everywhere: bool = True) -> set[str]:
    return {name for name in imports(module, everywhere) if name.split(".")[0] == "lab"}


@pytest.mark.parametrize("module", MODULES)
def test_the_engine_knows_nothing_of_the_page(module):
    outside = {name.split(".")[0] for name in imports(module)}
    assert outside.isdisjoint({"streamlit", "plotly", "sklearn"})
    assert "app" not in outside or (module == "lab.cli" and imports(module) & {"app", "app.server"})
    assert "app" not in {name.split(".")[0] for name in imports(module, everywhere=False)}


@pytest.mark.parametrize("module", COMPOSED)
def test_parts_import_only_the_parts_below_them(module):
    assert own(module) <= COMPOSED[module]


def test_there_is_no_cycle_when_modules_are_loaded():
    finished, under_way = set(), []

    def visit(module: str):
        assert module not in under_way, " -> ".join([*under_way, module])
        if module not in finished:
            under_way.append(module)
            for name in sorted(own(module, everywhere=False)):
                visit(name)
            finished.add(under_way.pop())

    for module in MODULES:
        visit(module)
    assert finished == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_the_command_and_the_command_loads_only_settings(module):
    assert module == "lab.cli" or "lab.cli" not in own(module)
    if module == "lab.cli":
        assert own(module, everywhere=False) == {
            "lab.cache", "lab.files", "lab.grid", "lab.headline", "lab.key", "lab.meeting", "lab.processes",
            "lab.settings",
        }  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [
        "import lab",
        "from lab.settings import Settings; Settings(task='hand').address()",
        "import lab; lab.Settings(); lab.SettingsError",
        "from lab.cli import keys_help, parser; keys_help(); parser().format_help()",
        "from lab.cli import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass",
        "from lab.cli import main; main(['run', 'steps=0'])",
        "import lab.record; lab.record.to_json({})",
        "from app.explain import tooltip; from lab.settings import Settings; tooltip('microbatches', Settings())",
    ],
)
def test_jax_is_not_loaded_before_it_is_needed(program):
    check = "\nimport sys; assert not {'jax', 'optax', 'streamlit', 'plotly'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program + check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("view", ["lab", "loops"])
def test_controls_and_heading_are_drawn_before_jax_is_loaded(view):
    """A visitor sees the page at once: all that a view imports before it is called, and the server too, is light."""
    program = f"import app.server, app.visit, app.controls, app.views.{view}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"jax", "jaxlib", "optax", "pandas", "pyarrow", "scipy"})


def test_the_public_names_are_there():
    import lab

    for name in lab.__all__:
        assert getattr(lab, name).__name__ == name
    assert set(lab.__all__) == set(lab.HOMES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lab.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_only_reduction_divides_by_how_many_there_are():
    for module, file in MODULES.items():
        if module.startswith("lab.tasks.") or module in ("lab.step", "lab.task"):
            assert ".mean(" not in file.read_text() and "jnp.average" not in file.read_text()
