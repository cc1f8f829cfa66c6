import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from training_runs import reachable
from training_runs.reachable import answers


class Refusal(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def log_message(self, *arguments):
        """Nothing for the terminal."""


def test_server_that_refuses_has_answered():
    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert answers(f"http://127.0.0.1:{server.server_port}", seconds=30)
        thread.join()


def test_closed_port_gives_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not answers(f"http://127.0.0.1:{port}", seconds=30)


def test_host_that_stays_silent_is_given_up():
    # The kernel takes the connection for a server that never does.
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not answers(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=0.1)


def test_name_resolution_that_hangs_is_given_up(monkeypatch):
    given_up = threading.Event()

    def hang(*arguments, **options):
        given_up.wait()
        raise OSError

    monkeypatch.setattr(reachable, "urlopen", hang)
    assert not answers("http://example.org", seconds=0.1)
    given_up.set()
