"""The verdicts of several processes of one job, which become one."""

import json
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

from training_checklist.finding import Place, Verdict

OWNER = "DEBUG_REPORT_OWNER"  # variable that tells processes started by a job that somebody else reports for it
SECONDS = 10  # how long rank 0 waits for the verdicts of the others


def this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def rank_file(folder: Path, rank: int) -> Path:
    return folder / "debug" / f".rank{rank}.json"


def write_rank(path: Path, verdicts: list[Verdict]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([verdict.as_dict() for verdict in verdicts], default=str), encoding="utf-8")
    draft.replace(path)


def read_ranks(folder: Path, expected: int) -> dict[int, list[Verdict]]:
    """Return and remove the verdicts that other processes of this job have written, by their rank."""
    pattern = rank_file(folder, 0).name.replace("0", "*")
    deadline = time.monotonic() + SECONDS
    while len(list((folder / "debug").glob(pattern))) < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    ranks = {}
    for path in sorted((folder / "debug").glob(pattern)):
        content = json.loads(path.read_text(encoding="utf-8"))
        ranks[int(path.stem.removeprefix(".rank"))] = [Verdict.from_dict(verdict) for verdict in content]
        path.unlink()
    return ranks


def inherits(folder: Path) -> bool:
    """Whether this process is the first to find that the one which was to report has been killed."""
    from training_checklist.experiments.distributed.presence import has_ended

    host, _, process = os.environ.get(OWNER, "").partition(":")
    if host != socket.gethostname() or not has_ended(int(process)):
        return False
    try:
        (folder / ".heir").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def merge(own: Verdict, ranks: dict[int, list[Verdict]], is_rank: bool) -> Verdict:
    """Return one verdict of what the ranks found; `is_rank` is whether this process was one of them."""
    others = {rank: next(v for v in verdicts if v.item == own.item) for rank, verdicts in ranks.items()}
    first = own if is_rank else others[min(others)]
    findings = list(first.findings) if is_rank else []
    for rank, verdict in others.items():
        known = {(seen.what, without_rank(seen.place)) for seen in findings}
        for finding in verdict.findings:
            if finding in findings or (finding.what, without_rank(finding.place)) in known:
                continue
            place = finding.place if finding.place.rank else finding.place.beside(rank=str(rank))
            findings.append(replace(finding, place=place))
    # A crash that no rank lived to tell is known to the process that waited for them.
    first.findings = findings or own.findings
    first.error = first.error or next((verdict.error for verdict in others.values() if verdict.error), None)
    return first


def without_rank(place: Place) -> Place:
    return place.beside(rank="")
