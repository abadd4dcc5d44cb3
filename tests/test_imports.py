"""The house rule: data flows top to bottom, and a package imports only from those above it. Also: who may
import which library, what `import stillframe` must not load, and that documents name files that exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

PACKAGES = (
    "algebra",
    "sql",
    "change",
    "protocol",
    "records",
    "sources",
    "engine",
    "lake",
    "runtime",
    "consistency",
    "simulator",
    "cli",
    "ui",
)
COMMON = ("stillframe.errors", "stillframe.memory", "stillframe.postgres_url")  # any package may import these
EXCEPTIONS = {"sql": ("stillframe.sources.base",)}  # the types of a catalog
LIBRARIES = {"pyspark": ("engine", "lake"), "pysail": ("engine",), "sqlglot": ("sql",)}


@dataclass(frozen=True)
class Import:
    importer: str
    line: int
    imported: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"

    @property
    def package(self) -> str:
        return _package(self.importer)


def _package(module: str) -> str:
    """The package a module of ours belongs to; `stillframe` and its single modules belong to none."""
    _, _, rest = module.partition(".")
    return rest.partition(".")[0] if rest.partition(".")[0] in PACKAGES else ""


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(text: str, importer: str, modules: frozenset[str], is_package: bool = False) -> Iterator[Import]:
    """Every import of a module, wherever it stands, lazy ones and those for type checkers included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = importer.split(".")
            above = above[: len(above) - node.level + is_package] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(importer, node.lineno, full if full in modules else base)


def breaks_order(found: Import) -> bool:
    if not found.imported.startswith("stillframe") or not found.package:
        return False
    if found.imported in (*COMMON, *EXCEPTIONS.get(found.package, ())):
        return False
    target = _package(found.imported)
    return not target or PACKAGES.index(target) > PACKAGES.index(found.package)


def breaks_library_rule(found: Import) -> bool:
    allowed = LIBRARIES.get(found.imported.partition(".")[0])
    return allowed is not None and found.package not in allowed


def type_checking_lines(text: str) -> frozenset[int]:
    """The lines that only a type checker reads."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            lines.update(range(node.lineno, node.body[-1].end_lineno or node.lineno))
            lines.add(node.body[-1].end_lineno or node.lineno)
    return frozenset(lines)


FILES = sorted((SOURCE / "stillframe").rglob("*.py"))
MODULES = frozenset(map(module_name, FILES))


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_imports_of(file: Path) -> None:
    text = file.read_text()
    found = list(imports(text, module_name(file), MODULES, file.name == "__init__.py"))
    assert not [str(each) for each in found if breaks_order(each)]
    for_types = type_checking_lines(text)
    loaded = [each for each in found if each.line not in for_types]
    assert not [str(each) for each in loaded if breaks_library_rule(each)]


def test_every_package_has_its_place_in_the_order() -> None:
    there = {path.parent.name for path in (SOURCE / "stillframe").glob("*/__init__.py")}
    assert there <= set(PACKAGES)


@pytest.mark.parametrize(
    ("importer", "text", "breaks"),
    [
        ("stillframe.algebra.bag", "import stillframe.sql.query", True),
        ("stillframe.algebra.bag", "from stillframe.algebra import types", False),
        ("stillframe.algebra.bag", "from ..sql import query", True),
        ("stillframe.algebra.bag", "from . import types", False),
        ("stillframe.algebra.bag", "def f():\n    from stillframe.cli import main", True),
        ("stillframe.algebra.bag", "import stillframe", True),
        ("stillframe.lake.frame", "from stillframe.errors import LakeError", False),
        ("stillframe.lake.frame", "from stillframe.algebra import Schema", False),
        ("stillframe.sql.query", "from stillframe.sources.base import Catalog", False),
        ("stillframe.sql.query", "from stillframe.sources import base", False),
        ("stillframe.sql.query", "from stillframe.sources.sqlite.source import Sqlite", True),
        ("stillframe.change.derive", "from stillframe.sources.base import Catalog", True),
        ("stillframe.engine.session", "import pyspark.sql", False),
        ("stillframe.runtime.session", "from pyspark.sql import DataFrame", True),
        ("stillframe.runtime.session", "import sqlglot", True),
        ("stillframe", "import pyspark", True),
    ],
)
def test_the_rule_itself(importer: str, text: str, breaks: bool) -> None:
    modules = frozenset({"stillframe.sql.query", "stillframe.algebra.types", "stillframe.sources.base"})
    found = list(imports(text, importer, modules))
    assert any(breaks_order(each) or breaks_library_rule(each) for each in found) is breaks


@pytest.mark.parametrize("module", ["stillframe", "stillframe.cli.main"])
def test_no_engine_is_loaded_by(module: str) -> None:
    if module not in MODULES:
        pytest.skip(f"there is no {module}")
    code = f"import sys, {module}; print(*(name for name in ('pyspark', 'pysail') if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ""


# Documents.

OURS = ("src", "tests", "docs", "benchmarks", "tools", *PACKAGES)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w.*/-]+(\.(py|md|toml|sh|spec|sql|yml|json|svg)|/)|Makefile")


def documents() -> list[Path]:
    skipped = {"build", "dist", "node_modules"}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(p for p in found if not any(part in skipped or part.startswith(".") for part in p.parts))


def missing_files(text: str, folder: Path) -> list[str]:
    """Names in backquotes that look like files of this project and are not there. A name is ours if its
    first folder is, or if it is a bare name of Python code or of a document."""
    missing = []
    for name in _QUOTED.findall(_FENCE.sub("", text)):
        if not _FILE.fullmatch(name):
            continue
        first, slash, _ = name.partition("/")
        if slash and first in OURS:
            there = any(_exists(base, name) for base in (folder, ROOT, SOURCE / "stillframe"))
        elif not slash and name.endswith((".py", ".md", "Makefile")):
            there = (folder / name).exists() or any(_named(name))
        else:
            continue
        if not there:
            missing.append(name)
    return missing


def _exists(base: Path, name: str) -> bool:
    return any(base.glob(name)) if "*" in name else (base / name).exists()


def _named(name: str) -> Iterator[Path]:
    for folder in (ROOT / part for part in ("", "src", "tests", "docs", "benchmarks", "tools")):
        yield from folder.glob(name) if folder == ROOT else folder.rglob(name)


@pytest.mark.parametrize("document", documents(), ids=str)
def test_files_named_in(document: Path) -> None:
    text = (ROOT / document).read_text()
    assert not missing_files(text, (ROOT / document).parent)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see `tests/test_imports.py` and `algebra/bag.py`", []),
        ("see `tests/test_nothing.py`", ["tests/test_nothing.py"]),
        ("see `lake/nothing.py` or `nothing.md`", ["lake/nothing.py", "nothing.md"]),
        ("see `algebra/` and `docs/nothing/`", ["docs/nothing/"]),
        ("see `test_imports.py`, `Makefile` and `tests/*.py`", []),
        ("your own `views/orders.sql` and `stillframe.yml`", []),
        ("```\n`tests/in_a_block.py`\n```", []),
    ],
)
def test_the_check_of_documents_itself(text: str, missing: list[str]) -> None:
    assert missing_files(text, ROOT) == missing
