"""Ports of consortia on one machine: nobody else may get one between its choice and its use."""

import itertools
import socket
import sys

import pytest

from fedvalue.simulation.local_consortium import reserve_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a port be reserved")


def listener(port, *, restartable):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, restartable)
    try:
        server.bind(("127.0.0.1", port))
        server.listen()
    except OSError:
        server.close()
        raise
    return server


def test_a_server_may_listen_on_the_reserved_port_again_and_again():
    port, reservation = reserve_port()
    with reservation:
        for _ in range(3):
            with listener(port, restartable=True), socket.create_connection(("127.0.0.1", port)):
                pass


def test_nobody_else_gets_a_reserved_port(monkeypatch):
    port, reservation = reserve_port()
    with reservation:
        with pytest.raises(OSError, match="in use"):
            listener(port, restartable=False)
        offset = port - 20_000
        draws = itertools.chain([offset, offset], itertools.count(offset + 1))
        monkeypatch.setattr("secrets.randbelow", lambda n: next(draws) % n)
        other, second = reserve_port()
        second.close()
        assert other != port
