"""The ServerApp: tells every SuperNode to start, and collects how FedValue ended there."""

from __future__ import annotations

import time

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One round without a model."""
    sites = str(context.run_config.get("sites", "bank,telco,shop")).split(",")
    while len(nodes := sorted(grid.get_node_ids())) < len(sites):
        time.sleep(1.0)  # SuperNodes connect one by one
    start = [
        Message(
            content=RecordDict({"start": ConfigRecord({"sites": sites})}),
            message_type=MessageType.QUERY,
            dst_node_id=node,
        )
        for node in nodes
    ]
    failed = []
    for reply in grid.send_and_receive(start, timeout=float(context.run_config.get("timeout", 86_400))):
        if reply.has_error():
            failed.append(f"node {reply.metadata.src_node_id}: {reply.error.reason}")
            continue
        ended = reply.content["ended"]
        print(f"fedvalue at {ended['site']}: {ended['role']} ended with {ended['exit_code']}", flush=True)
        if ended["exit_code"] != 0:
            failed.append(f"{ended['site']}: exit code {ended['exit_code']}")
    if failed:
        raise RuntimeError("FedValue did not end well everywhere: " + "; ".join(failed))
