"""Options that several commands share, with one help text each."""

from __future__ import annotations

from typing import Annotated

import typer

Party = Annotated[
    list[str] | None,
    typer.Option(help="A data party and its columns. Repeat for each party.", metavar="NAME=COL,COL,…"),
]
Each = Annotated[bool, typer.Option("--each", help="Every remaining column is a party of its own.")]
Task = Annotated[str, typer.Option(help="The task party's own feature columns.", metavar="COL,COL,…")]
Bins = Annotated[int, typer.Option(help="Bins of a numeric column.")]
Binning = Annotated[
    str, typer.Option(help="quantile (about equally filled bins) or width (equal width, as in the paper).")
]
LabelBins = Annotated[
    int | None, typer.Option(help="Bins of a label that is an amount; as many as --bins by default.")
]
Categorical = Annotated[
    str,
    typer.Option(help="Columns whose numbers are names, such as zip codes.", metavar="COL,COL,…"),
]
ColumnsOption = Annotated[
    str,
    typer.Option(
        "--columns",
        help="Learnable values see each column of a party (features) or one joint code per party (joint).",
    ),
]
By = Annotated[
    str,
    typer.Option(
        help="Decide by the learnable value, or by shapley-cmi, which also counts what is memorised."
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option("--json", help="Write the result as JSON; - prints it alone.", metavar="FILE|-"),
]
