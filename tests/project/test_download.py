import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


@pytest.fixture
def mnist(root):
    from digit_classifier.data import mnist

    return mnist


class Refusal(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def log_message(self, *arguments):
        """Nothing for the terminal."""


def test_server_that_refuses_has_answered(mnist):
    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert mnist.answers(f"http://127.0.0.1:{server.server_port}", seconds=30)
        thread.join()


def test_closed_port_gives_no_answer(mnist):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not mnist.answers(f"http://127.0.0.1:{port}", seconds=30)


def test_host_that_stays_silent_is_given_up(mnist):
    # The kernel takes the connection for a server that never does.
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not mnist.answers(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=0.1)


def test_name_resolution_that_hangs_is_given_up(mnist, monkeypatch):
    given_up = threading.Event()

    def hang(*arguments, **options):
        given_up.wait()
        raise OSError

    monkeypatch.setattr(mnist, "urlopen", hang)
    assert not mnist.answers("http://example.org", seconds=0.1)
    given_up.set()
