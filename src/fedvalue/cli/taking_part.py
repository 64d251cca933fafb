"""`fedvalue join`, `run` and `abort`: a party signs the agreement, takes part, and sees the result."""

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
    Label,
    file_options,
    public_command,
    takes,
)
from fedvalue.cli.terminal import say, show_valuation, wrote_json
from fedvalue.errors import ConfigError, InputError, VerificationError

if TYPE_CHECKING:
    from fedvalue.deployment.config import PartyConfig, TableConfig

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
        typer.Option(help="Columns to value, separated by commas; all except id and label by default."),
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Numeric columns whose numbers are names, separated by commas.")
    ] = None,
    fold_case: Annotated[
        bool, typer.Option("--fold-case", help="Treat ids that differ only in case as the same.")
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
        typer.Option("--again", help="Repeat a failed run under the same agreement. All parties must do so."),
    ] = False,
    agreement: AgreementId = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the results; the agreement's folder by default.")
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file for automation; replaces all options except --again, --psk and --json."),
    ] = None,
    psk: Annotated[
        Path | None,
        typer.Option(
            help="A file (0600) of 32 bytes that all parties share, mixed into the keys in addition to the "
            "key agreement."
        ),
    ] = None,
    json_file: JsonFile = None,
) -> TakePart:
    """A function that signs the agreement if necessary, runs, and prints the result, for `takes`."""

    def take(role: str, label: str | None) -> PartyConfig:
        from fedvalue.deployment import process
        from fedvalue.deployment.config import TableConfig, read_party_config
        from fedvalue.deployment.parties.party_process import take_part

        if words is not None and skip_words:
            raise InputError("--words and --skip-words cannot be used together")
        process.harden()
        process.reuse_memory()
        if config is not None:
            settings = read_party_config(config)
        elif table is None or id_column is None:
            raise InputError("name your table with --table and --id, or a configuration with --config")
        else:
            rows = TableConfig(
                source=_absolute(table),
                id=id_column,
                label=label,
                features=tuple(split_names(features or "")) or None,
                categorical=tuple(split_names(categorical or "")),
                file=file,
                fold_case=fold_case,
            )
            settings = _invited(home, agreement, role, rows, output, words, skip_words)
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

    It waits until everybody has accepted, shows six words to compare over the phone, signs, and takes part in
    the run. If it is interrupted, the same command continues.
    """
    take_part("data", None)


@takes("take_part", taking_part)
def run(take_part: TakePart, label: Label = None) -> None:
    """Take part as the task party, after `fedvalue invite`; prints the value of every data party.

    It waits until everybody has accepted, shows six words to compare over the phone, signs, takes part in the
    run, and writes result, report and certificate. If it is interrupted, the same command continues.
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
        place = Home(home.resolve())
        answers = abandon(place.identity, place.agreement(agreement).manifest, place.state)
    say("the run is over here, and its keys are erased")
    phrases = {"notified": "has ended the run", "over": "had ended the run already"}
    for server, answer in answers.items():
        say(f"{server}: {phrases.get(answer, answer)}")


def _absolute(source: str) -> str:
    """The path of a file or folder, which must exist; database URIs stay as they are."""
    if "://" in source:
        return source
    if not Path(source).exists():
        raise InputError(f"{source}: no such file or directory")
    return str(Path(source).resolve())


def _invited(
    home: Path,
    agreement_id: str | None,
    role: str,
    table: TableConfig,
    output: Path | None,
    words: str | None,
    skip_words: bool,
) -> PartyConfig:
    """The configuration of an invited party, once everybody has signed: waits for the others.

    A wrong column is refused before the wait, not when everybody has signed.
    """
    from fedvalue.deployment.home import Home
    from fedvalue.deployment.parties.accepting import agree
    from fedvalue.deployment.parties.party_input import feature_columns
    from fedvalue.deployment.sites import party_config
    from fedvalue.identity.identity_files import read_identity

    place = Home(home)
    agreement = place.agreement(agreement_id)
    if agreement.signed is None:
        identity = read_identity(place.identity)
        feature_columns(table, identity.card.name, role)
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
    """The comparison of the words: typed in, asked for, or skipped."""
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
        say(f"Compare them with {other} over the phone: equal words show that no card was swapped.")
        if not typer.confirm("Are all six words the same?"):
            raise _differ()
        return True

    return confirm


def _differ() -> VerificationError:
    return VerificationError(
        "the words differ, and nothing was signed. If a word was misheard or mistyped, start the command "
        "again; if they really differ, someone has swapped cards or terms on the way: talk to both operators "
        "and start with a new invitation",
        code="E_WORDS",
    )


def _report(stage: str, detail: str) -> None:
    say(f"{stage}: {detail}" if detail else stage)
