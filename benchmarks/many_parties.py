"""One participant in many runs at once: `python -m benchmarks.many_parties FOLDER RUNS`."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.identity.identity_files import read_identity
from fedvalue.identity.tls_certificates import ROLES


def main() -> None:
    folder, runs = Path(sys.argv[1]), int(sys.argv[2])
    role = read_identity(folder / "identity").card.role
    assert role in ROLES

    def take_part_in(number: int) -> None:
        take_part(read_party_config(folder / f"party-{number}.toml"), role, lambda stage, words: None)

    with ThreadPoolExecutor(runs) as pool:
        list(pool.map(take_part_in, range(runs)))


if __name__ == "__main__":
    main()
