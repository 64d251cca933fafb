"""NVFlare's task at one site: start FedValue, report how it ended."""

from __future__ import annotations

import nvflare.client as flare
from fedvalue_site import take_part
from nvflare.app_common.abstract.fl_model import FLModel


def main() -> None:
    """Answer one task."""
    flare.init()
    flare.receive()
    ended = take_part(flare.get_site_name())
    print(f"fedvalue at {ended['site']}: {ended['role']} ended with {ended['exit_code']}", flush=True)
    flare.send(FLModel(params={"exit_code": ended["exit_code"]}, meta=dict(ended)))


if __name__ == "__main__":
    main()
