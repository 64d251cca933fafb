"""A valuation as an NVFlare job: `python job.py bank telco shop` runs it in the simulator.

For a real federation, export it (`--export FOLDER`) and submit it as any other job.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nvflare.recipe import FedTaskRecipe, SimEnv

HERE = Path(__file__).resolve().parent


def recipe(sites: int) -> FedTaskRecipe:
    """One task for every site; the server waits for all of them."""
    made = FedTaskRecipe(
        name="fedvalue",
        task_name="value",
        min_clients=sites,
        task_script=str(HERE / "client.py"),
    )
    made.add_client_file(str(HERE.parent / "fedvalue_site.py"))
    return made


def main() -> None:
    """Run or export the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", nargs="+", help="names of the sites, the task party's among them")
    parser.add_argument("--workspace", default="nvflare-workspace", help="folder of the simulator")
    parser.add_argument("--export", help="write the job into this folder instead of running it")
    options = parser.parse_args()
    job = recipe(len(options.sites))
    if options.export:
        job.export(options.export)
        return
    run = job.execute(SimEnv(clients=options.sites, workspace_root=options.workspace))
    print(f"result: {run.get_result()}")


if __name__ == "__main__":
    main()
