"""Go through the parts that are not done yet, in bounded time, and write RESULTS.md. Called by run.sh.

benchmarks/gpu/run.sh                                every part that is not done yet
benchmarks/gpu/run.sh --parts memory,"preset amp"    some parts, again
benchmarks/gpu/run.sh --device cpu                   a rehearsal; its rows say so
benchmarks/gpu/run.sh --report                       the table alone, of what is done

A part that fails, or takes longer than it may, is a row with its log; the others go on. What a part found lies in
evidence/<part>.json: a later call, also with that folder brought to another machine, does only what lacks. Where the
variable OUT names a folder, table and evidence are put there after every part, the evidence as one file.
"""

import argparse
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import HERE, Bench, Broken, Row, TimeUp
from parts import PARTS, PATIENCE, Part, generate

FEWEST = 15  # seconds that must be left to begin a part


def main(arguments: argparse.Namespace) -> int:
    evidence: Path = arguments.evidence
    evidence.mkdir(parents=True, exist_ok=True)
    chosen = [part for part in PARTS if arguments.parts is None or part.name in arguments.parts]
    if not arguments.report:
        go_through(arguments, chosen, evidence)
    text = report(evidence)
    arguments.results.write_text(text, encoding="utf-8")
    hand_over(evidence, text)
    print(text)
    left = [part.name for part in PARTS if not state(evidence, part).is_file()]
    print(f"not done yet: {', '.join(left)}; the same command again goes on" if left else "every part is done")
    return 0


def go_through(arguments: argparse.Namespace, chosen: list[Part], evidence: Path) -> None:
    """Settle the parts that are not done, those that time nothing side by side and before the others."""
    end = time.monotonic() + arguments.seconds
    left = [part for part in chosen if arguments.parts is not None or not state(evidence, part).is_file()]
    with tempfile.TemporaryDirectory(prefix="gpu-") as scratch:
        project = generate(Path(scratch) / "generated")
        bench = Bench(arguments.device, project, Path(scratch), evidence, end, arguments.jobs)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(partial(settle, bench=bench), [part for part in left if not part.is_timed]))
        for part in left:
            if part.is_timed:
                settle(part, bench)


def settle(part: Part, bench: Bench) -> None:
    """Run a part and write down what it found; nothing where this call has no time for it."""
    started = time.monotonic()
    if bench.end - started < FEWEST:
        return
    part_end = started + part.seconds * (1 if bench.on_gpu else PATIENCE)
    bench = replace(bench, part=part.name, part_end=part_end)
    (bench.evidence / "logs" / f"{part.name.replace(' ', '-')}.txt").unlink(missing_ok=True)
    try:
        rows = part.run(bench)
    except TimeUp:
        return
    except Broken as error:
        rows = [Row(part.name, "", verdict="failed", remark=str(error))]
    except Exception:
        last = traceback.format_exc()
        log = bench.evidence / "logs" / f"{part.name.replace(' ', '-')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(last)
        rows = [Row(part.name, "", verdict="failed", remark=last.splitlines()[-1])]
    for row in rows:
        row.stand_in = "" if bench.on_gpu or part.name == "machine" else "no GPU"
        print(row.text(), flush=True)
    found = {
        "device": bench.device,
        "seconds": round(time.monotonic() - started, 1),
        "rows": [asdict(row) for row in rows],
    }
    with bench.lock:
        state(bench.evidence, part).write_text(json.dumps(found, indent=1), encoding="utf-8")
        hand_over(bench.evidence, report(bench.evidence))


def state(evidence: Path, part: Part) -> Path:
    return evidence / f"{part.name.replace(' ', '-')}.json"


def report(evidence: Path) -> str:
    """Return the table of all parts that are done, whichever call did them."""
    done = {
        part: json.loads(state(evidence, part).read_text(encoding="utf-8"))
        for part in PARTS
        if state(evidence, part).is_file()
    }
    rows = [row for part, found in done.items() for row in rows_of(part, found)]
    on_gpu = [part for part, found in done.items() if found["device"] == "cuda"]
    lines = ["# On a GPU", "", "Written by `benchmarks/gpu/run.sh`.", ""]
    if not on_gpu:
        lines += [
            "**Nothing here was verified on a GPU.** This is a rehearsal on a CPU: a verdict that says `cpu stand-in`",
            "is about the command, not about a GPU. What needs CUDA is open: GradScaler, cuDNN's determinism, CUDA",
            "graphs, the allocator's peak, waits for the device, FSDP, every ratio of times.",
        ]
    elif len(on_gpu) < len(done):
        lines.append(f"On a GPU: {', '.join(part.name for part in on_gpu)}. The others were rehearsed on a CPU.")
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("met", "missed", "failed")}
    told = ", ".join(f"{number} {verdict}" for verdict, number in count.items())
    seconds = sum(found["seconds"] for found in done.values())
    lines += ["", f"{len(done)} of {len(PARTS)} parts are done, in {seconds:.0f} s: {told}.", ""]
    left = [part.name for part in PARTS if part not in done]
    lines += [f"Not done: {', '.join(left)}.", ""] if left else []
    lines += ["| what | value | target | | |", "| --- | --- | --- | --- | --- |", *(row.text() for row in rows), ""]
    return "\n".join(lines)


def rows_of(part: Part, found: dict[str, Any]) -> list[Row]:
    """Return the rows of a part; times that a rehearsal took over a few batches are not judged."""
    rows = [Row(**row) for row in found["rows"]]
    if found["device"] == "cpu" and part.is_timed:
        ran = {"verdict": "", "remark": "a few batches: its code ran"}
        rows = [row if row.verdict == "failed" else replace(row, **ran) for row in rows]
    return rows


def hand_over(evidence: Path, text: str) -> None:
    """Put table and evidence where the machine's owner collects files: two files, whatever the parts left."""
    out = os.environ.get("OUT")
    if out is None:
        return
    folder = Path(out)
    (folder / "RESULTS.md").write_text(text, encoding="utf-8")
    draft = folder / "evidence.draft"
    with tarfile.open(draft, "w:gz") as tar:
        tar.add(evidence, arcname="evidence")
    shutil.move(draft, folder / "evidence.tar.gz")


def names(text: str) -> list[str]:
    chosen, known = text.split(","), [part.name for part in PARTS]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part {', '.join(unknown)}; the parts are {', '.join(known)}")
    return chosen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=int, default=540, help="for this call; what does not fit is left to the next")
    parser.add_argument("--parts", type=names, help=f"of {', '.join(part.name for part in PARTS)}; done ones again")
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, (os.cpu_count() or 1) // 4),
        help="parts at a time, and commands of one, where nothing is timed",
    )
    parser.add_argument("--evidence", type=Path, default=HERE / "evidence", help="folder, ignored by git")
    parser.add_argument("--results", type=Path, default=HERE / "RESULTS.md")
    parser.add_argument("--report", action="store_true", help="run nothing; write the table of what is done")
    sys.exit(main(parser.parse_args()))
