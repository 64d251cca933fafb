"""Draw `docs/images/report.png`, the top of the report that the README's example writes.

`python benchmarks/report_image.py`, with Chromium, Chrome or Edge installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fedvalue.reports.html import SECONDS, find_browser

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images" / "report.png"
SCALE = 1.2
WIDTH, HEIGHT = 980, 1062
"""Of the window: down to the last row of the table of values."""


def main() -> None:
    """Run the README's example in an empty folder and photograph its report."""
    browser = find_browser()
    if browser is None:
        sys.exit("Chromium, Chrome or Edge is needed, and none was found")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        subprocess.run([sys.executable, "-c", blocks[0]], cwd=folder, check=True)
        command = [
            browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
            f"--user-data-dir={folder}/profile", f"--force-device-scale-factor={SCALE}",
            f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={folder}/report.png",
        ]  # fmt: skip
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root; the page has no script
        page = Path(folder, "report.html").as_uri()
        subprocess.run([*command, page], capture_output=True, timeout=SECONDS, check=True)
        TARGET.write_bytes(Path(folder, "report.png").read_bytes())


if __name__ == "__main__":
    main()
