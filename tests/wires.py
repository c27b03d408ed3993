"""Servers whose every byte a test gives, in clear and by TLS at one port, and what they were asked.

with Wire(lambda asked: Reply(200, [], b"{}").raw(), tls=certificate(tmp_path)) as evil:
    ...
    assert evil.secrets() == []
"""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from registries import Asked
from servers import QuietServer

_SCRIPT = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $0.key -out $0.crt "
    "-subj /CN=localhost -days 2 -addext subjectAltName=IP:127.0.0.1,DNS:localhost"
)


def certificate(folder: Path) -> Path:
    """Return the certificate of a server of this machine; its key lies beside it."""
    argv = ["sh", "-c", _SCRIPT, "own"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return folder / "own.crt"


class Wire:
    """A server on this machine; it speaks TLS with those who do, where it has a certificate."""

    def __init__(self, answer: Callable[[Asked], bytes], tls: Path | None = None) -> None:
        self.asked: list[Asked] = []
        wire = self
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls, tls.with_suffix(".key"))

        class Handler(http.server.BaseHTTPRequestHandler):
            def setup(self) -> None:
                if context is not None and self.request.recv(1, socket.MSG_PEEK) == b"\x16":
                    self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                super().finish()
                if isinstance(self.request, ssl.SSLSocket):
                    self.request.close()

            def _any(self) -> None:
                count = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(count).decode(errors="replace")
                secure = "https" if isinstance(self.request, ssl.SSLSocket) else "http"
                headers = {**dict(self.headers), "body": body, "by": secure}
                asked = Asked(self.command, self.path, headers)
                wire.asked.append(asked)
                with contextlib.suppress(OSError):
                    for piece in [raw] if isinstance(raw := answer(asked), bytes) else raw:
                        self.wfile.write(piece)
                self.close_connection = True

            do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def secrets(self, by: str = "") -> list[str]:
        """Return the credentials that came: headers, and tokens in bodies, also by `http` alone."""
        return [
            text
            for one in self.asked
            if by in {"", one.headers["by"]}
            for text in (one.headers.get("Authorization", ""), one.headers["body"])
            if text.startswith("Basic ") or "Bearer" in text or "refresh_token" in text
        ]
