"""The example notebooks run from top to bottom, in a fresh kernel each."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["bank_telco_shop", "why_plug_in_values_mislead"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    """Every cell runs, no cell warns, and a result shows itself as HTML.

    Warnings of the notebook client's own event loop are not ours; those of the cells reach stderr and count.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, startup_timeout=600, kernel_name="python3")
    client.execute(cwd=str(EXAMPLES))
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("text/html" in out.get("data", {}) for out in outputs)
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert [out.text for out in outputs if out.get("name") == "stderr"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_without_outputs(path):
    """Outputs would change with every run and hide what changed."""
    import nbformat

    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
