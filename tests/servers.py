"""The HTTP server of tests: it prints nothing when a client hangs up."""

from __future__ import annotations

import http.server


class QuietServer(http.server.ThreadingHTTPServer):
    """A server with a thread per request.

    `http.server` prints a traceback for each client that hangs up. Printed by a thread while
    pytest closes the file that captures output, it fails a test that has nothing to do with it.
    """

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client that is refused hangs up."""
