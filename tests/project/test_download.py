import hashlib
import logging
import threading
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from hydra.utils import instantiate


@pytest.fixture
def download(root):
    from digit_classifier.data import download

    return download


class Sample(SimpleHTTPRequestHandler):
    """Serves the bundled sample as the server of MNIST does; slowly, so that others come meanwhile."""

    asked: ClassVar[Counter] = Counter()
    waiting: ClassVar[threading.Event] = threading.Event()

    def do_GET(self):
        Sample.asked[self.path] += 1
        Sample.waiting.wait(60)
        super().do_GET()

    def log_message(self, *arguments):
        """Nothing for the terminal."""


def test_starts_at_once_download_once_and_the_others_wait_and_say_so(download, compose, tmp_path, monkeypatch, caplog):
    from torchvision import datasets

    sample = Path(download.__file__).parent / "sample"
    files = sorted(path.name for path in sample.glob("*.gz"))
    checksums = [hashlib.md5((sample / name).read_bytes()).hexdigest() for name in files]
    monkeypatch.setattr(datasets.MNIST, "resources", list(zip(files, checksums, strict=True)))
    cfg = compose("data=mnist", "data.fallback=null", "data.val_size=500").data
    caplog.set_level(logging.INFO)
    Sample.waiting.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Sample, directory=str(sample))) as server:
        monkeypatch.setattr(datasets.MNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        instantiate(cfg, data_dir=str(tmp_path / "alone")).prepare_data()
        alone = Sample.asked.copy()
        Sample.asked.clear()
        Sample.waiting.clear()
        modules = [instantiate(cfg) for _ in range(4)]
        starts = [threading.Thread(target=module.prepare_data) for module in modules]
        for start in starts:
            start.start()
        while len(caplog.records) < 1 + len(starts):  # the one above has told too
            starts[0].join(0.01)
        Sample.waiting.set()
        for start in starts:
            start.join()
        server.shutdown()
    assert Sample.asked == alone
    assert alone.keys() == {f"/{name}" for name in files}
    assert all("or waiting for another process that does" in record.message for record in caplog.records)
    for module in modules:
        module.setup("fit")
        assert module.source == "MNIST"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [".MNIST.lock", "MNIST"]
