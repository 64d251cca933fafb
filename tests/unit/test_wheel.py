"""The wheel holds the package, what it needs at run time, and nothing else."""

from __future__ import annotations

import ast
import email.message
import email.parser
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "fedvalue"

# Distributions whose import name is another one.
IMPORT_NAMES = {"grpcio": "grpc", "scikit-learn": "sklearn"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as hatchling builds it from this checkout: no network, no isolated environment."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (path,) = folder.iterdir()
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.parser.Parser().parsestr(wheel.read(name).decode())


def test_wheel_is_pure_python_and_named_after_the_version(wheel: zipfile.ZipFile) -> None:
    from fedvalue import __version__

    assert wheel.filename is not None
    assert Path(wheel.filename).name == f"fedvalue-{__version__}-py3-none-any.whl"


def test_wheel_holds_every_file_of_the_package_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    """Templates, style sheets, example tables and py.typed among them; caches are left out."""
    expected = {
        f"fedvalue/{path.relative_to(SOURCE).as_posix()}": path.read_bytes()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("fedvalue/")}
    assert packed == expected
    assert {PurePosixPath(name).suffix for name in packed} >= {
        ".py",
        ".typed",
        ".html",
        ".css",
        ".j2",
        ".csv",
    }


def test_wheel_installs_nothing_beside_the_package(wheel: zipfile.ZipFile) -> None:
    """No tests, docs, benchmarks or data sets of the checkout."""
    from fedvalue import __version__

    folders = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert folders == {"fedvalue", f"fedvalue-{__version__}.dist-info"}
    assert sum(entry.file_size for entry in wheel.infolist()) < 5_000_000


def test_metadata_says_what_the_project_says(metadata: email.message.Message) -> None:
    from fedvalue import __version__

    assert metadata["Name"] == "fedvalue"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Development Status :: 3 - Alpha" in metadata.get_all("Classifier", [])
    links = [link.partition(", ")[0] for link in metadata.get_all("Project-URL", [])]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(links)


def test_licence_and_command_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    (licence,) = (name for name in wheel.namelist() if name.endswith("/licenses/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    (scripts,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert wheel.read(scripts).decode().split() == ["[console_scripts]", "fedvalue", "=", "fedvalue.cli:main"]


def test_every_library_that_the_package_imports_is_declared(metadata: email.message.Message) -> None:
    """As a dependency or in an extra. No library comes along by chance with another one."""
    required = {Requirement(text).name for text in metadata.get_all("Requires-Dist", [])}
    declared = {IMPORT_NAMES.get(name, canonicalize_name(name).replace("-", "_")) for name in required}
    imported = {
        top
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imports(node)
        if (top := name.partition(".")[0]) != "fedvalue" and top not in sys.stdlib_module_names
    }
    assert imported >= {"numpy", "sklearn"}
    # Used only where it is already there: the kernel of a notebook, and a frame to return.
    assert imported - {"IPython", "polars"} <= declared


def test_the_command_runs_from_an_unpacked_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """With no checkout on the path."""
    from fedvalue import __version__

    wheel.extractall(tmp_path)
    probe = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['fedvalue', '--version']\n"
        "import fedvalue.cli; print(fedvalue.__file__, flush=True); fedvalue.cli.main()"
    )
    command = [sys.executable, "-P", "-c", probe]
    shown = subprocess.run(command, cwd=tmp_path, env={}, check=True, capture_output=True, text=True).stdout
    assert shown.splitlines() == [str(tmp_path / "fedvalue" / "__init__.py"), f"fedvalue {__version__}"]


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        return [node.module]
    return []
