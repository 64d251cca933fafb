"""The journal version's protocol: verifiable private set intersection cardinality with one server.

Han, Wang, Wu, Fang, MIS Quarterly 50(1), 2026, Algorithm 1. Roles without I/O, for runs in one process:
`fedvalue.value(..., protocol="vpsic")`. It is here for comparison, not for deployment: docs/security.md
shows a server that passes its checks.
"""
