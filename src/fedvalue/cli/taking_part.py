"""`fedvalue join`, `run` and `abort`: a party agrees if necessary, takes part, and sees the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from fedvalue.cli.column_owners import split_names
from fedvalue.cli.shared_options import (
    DEFAULT_HOME,
    HomeFolder,
    JsonFile,
    file_options,
    public_command,
    takes,
)
from fedvalue.cli.terminal import say, show_valuation, wrote_json
from fedvalue.errors import ConfigError, InputError, VerificationError

if TYPE_CHECKING:
    from fedvalue.deployment.config import PartyConfig, TableConfig
    from fedvalue.tables.file_options import FileOptions

TakePart: TypeAlias = "Callable[[str, str | None], PartyConfig]"
"""Takes part in a role (task or data), with the column of the label."""

AgreementId = Annotated[
    str | None,
    typer.Option("--agreement", help="First digits of the invitation's id; the newest by default."),
]


@takes("file", file_options)
def taking_part(
    *,
    file: Any,
    table: Annotated[
        str | None,
        typer.Option(help="Your rows: a file, a folder of files, or a database URI with #table or #query."),
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names a sample.")] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Columns to value, separated by commas; all but id and label by default."),
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Numeric columns whose numbers are names, separated by commas.")
    ] = None,
    fold_case: Annotated[
        bool, typer.Option("--fold-case", help="Ids that differ in case only are the same.")
    ] = False,
    words: Annotated[
        str | None,
        typer.Option(help="The six words as another participant read them to you; otherwise you are asked."),
    ] = None,
    skip_words: Annotated[
        bool,
        typer.Option("--skip-words", help="Sign without comparing the words. The certificate will say so."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Repeat a run that has failed, under the same agreement. All parties do so."
        ),
    ] = False,
    agreement: AgreementId = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the results; the agreement's folder by default.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file, for automation; replaces all options but --again, --psk and --json."),
    ] = None,
    psk: Annotated[
        Path | None,
        typer.Option(
            help="A file (0600) of 32 bytes that all parties share: a second lock beside the key agreement, "
            "which it does not replace."
        ),
    ] = None,
    json_file: JsonFile = None,
) -> TakePart:
    """How to take part, from the options of a command: agree if necessary, run, print the result."""

    def take(role: str, label: str | None) -> PartyConfig:
        from fedvalue.deployment import process
        from fedvalue.deployment.config import read_party_config
        from fedvalue.deployment.parties.party_process import take_part

        process.harden()
        process.reuse_memory()
        if config is not None:
            settings = read_party_config(config)
        else:
            rows = _table(table, id_column, label, features, categorical, file, fold_case)
            settings = _invited(home, agreement, rows, output, words, skip_words)
        command = public_command(sys.argv)
        valuation = take_part(settings, role, _report, psk, again=again, command=command)
        if valuation is None:
            say("The run is complete. Under policy 'counts' only the task party sees the result.")
        elif not wrote_json(valuation.to_dict(), json_file, "result"):
            for name, rate in valuation.details.get("match_rates", {}).items():
                typer.echo(f"{rate:.1%} of the samples of {name} are common to all parties")
            # A data party sees its own share alone; whom to invite is the task party's decision.
            show_valuation(valuation, own=valuation.parties[0].name if role == "data" else None)
        return settings

    return take


@takes("take_part", taking_part)
def join(take_part: TakePart) -> None:
    """Take part as a data party, after `fedvalue accept`; prints the value of your data.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, and takes part in the run. If it is interrupted, the same
    command continues.
    """
    take_part("data", None)


@takes("take_part", taking_part)
def run(
    take_part: TakePart, label: Annotated[str | None, typer.Option(help="Column with the label.")] = None
) -> None:
    """Take part as the task party, after `fedvalue invite`; prints the value of every data party.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, takes part in the run, and writes result, report and
    certificate. If it is interrupted, the same command continues.
    """
    output = take_part("task", label).output
    for path in (output.result, output.report, output.certificate):
        if path is not None:
            say(f"wrote {path}")


def abort(
    agreement: AgreementId = None,
    home: HomeFolder = DEFAULT_HOME,
    config: Annotated[Path | None, typer.Option(help="party.toml or task.toml, instead of --home.")] = None,
) -> None:
    """Cancel a run for everybody, even while the servers compute. Nothing is released."""
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.parties.abandon import abandon

    process.harden()
    if config is not None:
        party = read_party_config(config)
        answers = abandon(party.identity, party.manifest, party.state, party.addresses)
    else:
        own = Home(home.resolve())
        answers = abandon(own.identity, own.agreement(agreement).manifest, own.state)
    say("the run is over here, and its keys are erased")
    words = {"notified": "has ended the run", "over": "had ended the run already"}
    for server, answer in answers.items():
        say(f"{server}: {words.get(answer, answer)}")


def _table(
    source: str | None,
    id_column: str | None,
    label: str | None,
    features: str | None,
    categorical: str | None,
    file: FileOptions,
    fold_case: bool,
) -> TableConfig:
    """The table that the options describe.

    Raises:
        InputError: An option is missing, or there is no such file.
    """
    from fedvalue.deployment.config import TableConfig

    if source is None or id_column is None:
        raise InputError("name your table with --table and --id, or a configuration with --config")
    if "://" not in source:
        if not Path(source).exists():
            raise InputError(f"{source}: no such file or directory")
        source = str(Path(source).resolve())
    return TableConfig(
        source=source,
        id=id_column,
        label=label,
        features=tuple(split_names(features or "")) or None,
        categorical=tuple(split_names(categorical or "")),
        file=file,
        fold_case=fold_case,
    )


def _invited(
    home: Path,
    agreement_id: str | None,
    table: TableConfig,
    output: Path | None,
    words: str | None,
    skip_words: bool,
) -> PartyConfig:
    """The configuration of an invited party, once everybody has signed: waits for the others.

    Raises:
        FedValueError: No invitation was accepted here, or the exchange failed.
    """
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.parties.accepting import agree
    from fedvalue.deployment.sites import party_config
    from fedvalue.identity.identity_files import read_identity

    place = Home(home)
    agreement = place.agreement(agreement_id)
    if agreement.signed is None:
        identity = read_identity(place.identity)
        say(f"agreement {agreement.id}: exchanging cards and signatures")
        agree(
            place,
            agreement,
            identity,
            confirm=_confirm(agreement.invitation.card.name, identity.card.name, words, skip=skip_words),
            report=_report,
        )
        say("agreement: everybody has signed")
    return party_config(home, agreement, table, output)


def _confirm(task: str, own: str, heard: str | None, *, skip: bool) -> Callable[[tuple[str, ...]], bool]:
    """How the words are compared: typed in, asked for, or skipped."""
    if skip and heard is not None:
        raise InputError("--words and --skip-words cannot be used together")
    other = "each data party" if own == task else task

    def confirm(words: tuple[str, ...]) -> bool:
        say(f"words: {' '.join(words)}")
        if skip:
            say("The words are not compared: the certificate will say so.")
            return False
        if heard is not None:
            if heard.lower().replace("-", " ").split() != list(words):
                raise _differ()
            return True
        if not sys.stdin.isatty():
            raise ConfigError(
                f"compare the words with {other} over the phone, then run the same command with "
                '--words "..." as they were read to you, or with --skip-words',
                code="E_WORDS",
            )
        say(f"Compare them with {other} over the phone: this shows that nobody has swapped a card.")
        if not typer.confirm("Are all six words the same?"):
            raise _differ()
        return True

    return confirm


def _differ() -> VerificationError:
    return VerificationError(
        "the words differ: somebody in between has swapped cards or terms. Nothing was signed; talk to both "
        "operators and start with a new invitation",
        code="E_WORDS",
    )


def _report(stage: str, words: str) -> None:
    say(f"{stage}: {words}" if words else stage)
