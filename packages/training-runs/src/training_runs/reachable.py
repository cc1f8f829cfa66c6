"""Whether a server answers, told within seconds: a node of a cluster may have no network at all."""

from threading import Event, Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def answers(url: str, seconds: float) -> bool:
    """Tell within `seconds` whether a server answers for `url`; name resolution alone can hang for minutes."""
    reached = Event()

    def ask() -> None:
        try:
            urlopen(Request(url, method="HEAD"), timeout=seconds).close()
        except OSError as error:
            if not isinstance(error, HTTPError):  # a refusal is an answer too
                return
        reached.set()

    question = Thread(target=ask, daemon=True)
    question.start()
    question.join(seconds)
    return reached.is_set()
