"""The terms of an agreement as options, for the commands that draft one."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from fedvalue.cli import shared_options as options


def _term(help: str, *names: str, shown: bool = True, panel: str = "Terms") -> Any:
    return typer.Option(*names, help=help, show_default=shown, rich_help_panel=panel)


_protocol = partial(_term, panel="Protocol and release")
_coding = partial(_term, panel=options.CODING)
_method = partial(_term, panel="Computation and deadlines")


def agreed_terms(
    *,
    purpose: Annotated[str, _term("Why the values are computed, in words.")],
    samples: Annotated[int, _term("Number of samples that every party brings.")],
    compute: Annotated[str, _term("host:port of the computation server.")],
    validate: Annotated[str, _term("host:port of the validation server.")],
    assist: Annotated[
        str | None, _term("host:port of the assisting server, if a third operator runs one.", shown=False)
    ] = None,
    protocol: Annotated[
        str | None,
        _protocol(
            "mirror, gram, paper or single. By default mirror, or gram with --assist and enough samples.",
            shown=False,
        ),
    ] = None,
    policy: Annotated[
        str,
        _protocol(
            "What is released: valuation (values only) or counts, which paper, single and --exact-tables "
            "need."
        ),
    ] = "valuation",
    q: Annotated[int, _protocol("Encryption ids per sample (paper).")] = 3,
    n_r: Annotated[
        str, _protocol("Adversarial samples per cell (paper): a number, or random:K.", "--n-r")
    ] = "1",
    harden: Annotated[bool, _protocol("Protocol paper with its additional checks.")] = True,
    by_coalition: Annotated[
        bool,
        _protocol(
            "With --harden: ask every coalition's cells and compare them. Without it a data party can "
            "take another's value; with it the run costs up to 2^parties times the tokens."
        ),
    ] = True,
    bins: Annotated[
        int | None,
        _coding(
            "Bins of a numeric column. By default 5; with noise or gram, 10 from 10,000 samples on.",
            shown=False,
        ),
    ] = None,
    binning: Annotated[
        str, _coding("quantile (bins of about equal size) or width (of equal width).")
    ] = "quantile",
    label_bins: Annotated[
        int | None, _coding("Bins of a label that is an amount; as many as --bins, or 5, by default.")
    ] = None,
    pca: Annotated[
        int | None,
        _coding("Principal components per data party, in place of its numbers if it has more of them."),
    ] = None,
    columns: Annotated[
        str,
        _coding(
            "features (learnable values use columns one by one) or joint (one code per party; the servers "
            "learn less)."
        ),
    ] = "features",
    method: Annotated[str, _method("auto, exact or sampled.")] = "auto",
    permutations: Annotated[int, _method("Permutations of the sampled method.")] = 5000,
    seed: Annotated[int, _method("Public seed of the sampling.")] = 0,
    research: Annotated[bool, _protocol("Lift the gates; every participant must accept it.")] = False,
    align: Annotated[
        str, _protocol("equal (all parties hold the same ids) or intersect (reduce to the common ids first).")
    ] = "equal",
    epsilon: Annotated[
        str | None,
        _protocol("Release values with noise, such as 0.5 (mirror and gram). Smaller protects more."),
    ] = None,
    exact_tables: Annotated[
        bool,
        _protocol(
            "gram without noise: every party gets exact counts of pairs; every participant must accept.",
            "--exact-tables",
        ),
    ] = False,
    grid: Annotated[
        str,
        _protocol(
            "Step in nats of the numbers that are released without noise, a power of ten. A finer one "
            "than 0.0001 needs --research."
        ),
    ] = "0.0001",
    shares: Annotated[
        str,
        _protocol(
            "What a data party gets: small (its learnable value, the total and their errors) or full "
            "(every number about itself; every participant must accept it)."
        ),
    ] = "small",
    accept: options.Accept = None,
    keying_seconds: Annotated[int, _method("Deadline of the key agreement.")] = 3600,
    upload_seconds: Annotated[int, _method("Deadline of the uploads.")] = 3600,
    compute_seconds: Annotated[int, _method("Deadline of the computation.")] = 3600,
    work_limit: Annotated[
        int,
        _method(
            "Most samples times coalitions for which method auto computes exact values; above it, "
            "permutations are sampled."
        ),
    ] = 2**32,
    days: Annotated[int, _term("How long the agreement is valid.")] = 7,
) -> dict[str, Any]:
    """Arguments of `agreement.manifest_files.draft`, from the options of a command."""
    from fedvalue.agreement.manifest import Deadlines
    from fedvalue.agreement.term_choices import BINS, chosen_bins, chosen_protocol
    from fedvalue.cli.terminal import say
    from fedvalue.protocol.privacy import spell_epsilon
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.valuation.acceptance_test import AcceptanceTest
    from fedvalue.valuation.settings import ValuationSettings

    if protocol is None:
        needs_counts = accept is not None or policy != "valuation"
        choice = chosen_protocol(samples, third_operator=assist is not None, needs_counts=needs_counts)
        say(choice.why)
        protocol, epsilon = choice.protocol, epsilon or choice.epsilon
        assist = assist if protocol == "gram" else None
    if bins is None:
        pair_tables = epsilon is not None or protocol == "gram"
        bins = chosen_bins(samples, pair_tables=pair_tables)
        label_bins = label_bins or (None if bins == BINS else BINS)
    coding = CodingSettings(bins=bins, binning=binning, label_bins=label_bins, pca=pca)  # type: ignore[arg-type]
    settings = ValuationSettings(
        method=method,  # type: ignore[arg-type]  # checked there
        n_permutations=permutations,
        seed=seed,
        columns=columns,  # type: ignore[arg-type]
        coding=coding,
        acceptance=None if accept is None else AcceptanceTest.parse(accept),
    )
    third = {} if assist is None else {"assist": assist}
    return {
        "endpoints": {"compute": compute, "validate": validate, **third},
        "days": days,
        "purpose": purpose,
        "n_samples": samples,
        "protocol": protocol,
        "policy": policy,
        "q": q,
        "n_r": int(n_r) if n_r.isdecimal() else n_r,
        "harden": harden,
        "by_coalition": by_coalition,
        "settings": settings,
        "research": research,
        "min_samples": 1 if research else 100,
        "min_rows_per_code": 1 if research else 5,
        "min_cell": 1 if research else 10,
        "align": align,
        "epsilon": None if epsilon is None else spell_epsilon(epsilon),
        "exact_tables": exact_tables,
        "grid": grid,
        "shares": shares,
        "work_limit": work_limit,
        "deadlines": Deadlines(keying=keying_seconds, upload=upload_seconds, compute=compute_seconds),
    }
