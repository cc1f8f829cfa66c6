"""The command for a machine with a GPU: what it goes through, and what it makes of what it finds."""

import argparse
import json
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

GPU = Path(__file__).parents[1] / "benchmarks" / "gpu"
# They need no GPU of NVIDIA's, or are two others at once.
NOT_THERE = {"auto", "cpu", "mps", "fsdp2", "ddp_bf16"}


@pytest.fixture(scope="module")
def gpu():
    """The modules of the benchmark by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(GPU)
        import bench
        import main
        import parts
        import watching
        import wheels

        yield argparse.Namespace(bench=bench, main=main, parts=parts, watching=watching, wheels=wheels)


@pytest.fixture
def bench(gpu, tmp_path):
    """A bench whose commands would have a minute."""
    soon = time.monotonic() + 60
    return gpu.bench.Bench("cpu", tmp_path / "project", tmp_path, tmp_path / "evidence", soon, jobs=1)


@pytest.fixture
def settle(gpu, bench):
    """`settle(function)`: what is written down of a part that does so, if anything."""
    bench.evidence.mkdir()

    def run(function):
        part = gpu.parts.Part("some part", function, 1)
        gpu.main.settle(part, bench)
        path = gpu.main.state(bench.evidence, part)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    return run


def raising(error: BaseException):
    def part(bench):
        raise error

    return part


def test_every_trainer_preset_is_a_part(gpu, template):
    presets = {path.stem for path in (template / "{{cookiecutter.project}}" / "conf" / "trainer").glob("*.yaml")}
    assert set(gpu.parts.PRESETS) == presets - NOT_THERE


def test_every_measure_of_speed_is_a_part(gpu):
    words = (GPU / "speed.py").read_text(encoding="utf-8")
    measures = [part.run.keywords["measure"] for part in gpu.parts.PARTS if part.name.startswith("speed ")]
    assert len(measures) == 6
    assert all(f'"{measure}": ' in words for measure in measures)


def test_parts_have_files_of_their_own(gpu, tmp_path):
    assert len({gpu.main.state(tmp_path, part) for part in gpu.parts.PARTS}) == len(gpu.parts.PARTS)


def test_part_that_fails_is_a_row_and_the_others_go_on(gpu, settle):
    for error, said in ((gpu.bench.Broken("train.py: no"), "train.py: no"), (KeyError("facts"), "KeyError: 'facts'")):
        [row] = settle(raising(error))["rows"]
        assert (row["verdict"], row["remark"]) == ("failed", said)


def test_part_without_time_is_left_to_the_next_call(gpu, settle):
    assert settle(raising(gpu.bench.TimeUp())) is None


def test_part_that_is_done_is_not_run_again(gpu, tmp_path, monkeypatch):
    ran = []
    parts = [gpu.parts.Part(name, lambda bench: ran.append(bench.part) or []) for name in ("first", "second")]
    monkeypatch.setattr(gpu.main, "generate", lambda folder: folder)
    arguments = argparse.Namespace(device="cpu", seconds=60, jobs=1, parts=None)
    gpu.main.go_through(arguments, parts[:1], tmp_path)
    gpu.main.go_through(arguments, parts, tmp_path)
    assert ran == ["first", "second"]


def test_parts_that_time_something_come_last_and_alone(gpu, tmp_path, monkeypatch):
    running, seen = [], []

    def part(bench):
        running.append(bench.part)
        seen.append((bench.part, *running))
        running.remove(bench.part)
        return []

    parts = [gpu.parts.Part(name, part) for name in ("speed fp32", "first", "second")]
    monkeypatch.setattr(gpu.main, "generate", lambda folder: folder)
    gpu.main.go_through(argparse.Namespace(device="cpu", seconds=60, jobs=2, parts=None), parts, tmp_path)
    assert len(seen) == 3
    assert seen[-1] == ("speed fp32", "speed fp32")


def test_command_that_takes_too_long_is_ended(gpu, tmp_path):
    endless = [sys.executable, "-c", "import signal; signal.pause()"]
    finished = gpu.bench.run(endless, tmp_path, {}, seconds=0.1)
    assert (finished.code, finished.last) == (None, "stopped after 0 s")


def test_rehearsal_says_that_nothing_was_verified(gpu, tmp_path):
    first, second = gpu.parts.PARTS[:2]
    row = {"what": "training", "value": "1.0", "verdict": "met"}
    for part, device in ((first, "cpu"), (second, "cpu")):
        content = {"device": device, "seconds": 1.0, "rows": [row | {"stand_in": "no GPU"}]}
        gpu.main.state(tmp_path, part).write_text(json.dumps(content), encoding="utf-8")
    assert "**Nothing here was verified on a GPU.**" in gpu.main.report(tmp_path)
    assert "| training | 1.0 |  | cpu stand-in: met | no GPU |" in gpu.main.report(tmp_path)
    gpu.main.state(tmp_path, first).write_text(json.dumps({"device": "cuda", "seconds": 1.0, "rows": [row]}))
    assert f"On a GPU: {first.name}. The others were rehearsed on a CPU." in gpu.main.report(tmp_path)


def test_results_are_of_the_parts_that_there_are(gpu):
    text = (GPU / "RESULTS.md").read_text(encoding="utf-8")
    assert f"{len(gpu.parts.PARTS)} of {len(gpu.parts.PARTS)} parts are done" in text


@pytest.mark.parametrize(("samples", "limit", "verdict"), [([1.0, 1.2, 1.05], 1.1, "met"), ([1.2], 1.1, "missed")])
def test_measure_is_judged_by_its_median(gpu, samples, limit, verdict):
    told = {"what": "epoch, fp32", "samples": samples, "limit": limit, "unit": "x", "remark": ""}
    row = gpu.parts.as_row(told, "60,000 images")
    assert (row.verdict, row.target, row.remark) == (verdict, "≤ 1.1", "60,000 images")


def test_measure_without_a_target_is_not_judged(gpu):
    told = {"what": "images/s", "samples": [812.0], "limit": None, "unit": "", "remark": "14 workers"}
    assert gpu.parts.as_row(told, "") == gpu.bench.Row("images/s", "812.000", remark="14 workers")


def test_kernels_that_overlap_count_once(gpu):
    assert gpu.watching.covered([(0, 4), (2, 5), (10, 11), (10, 10.5)]) == 6


def test_carried_wheels_are_all_that_a_machine_with_torch_can_lack(gpu):
    carried = gpu.wheels.wanted("3.12")
    assert {"hydra-core", "omegaconf", "antlr4-python3-runtime", "pytorch-lightning", "cookiecutter"} <= set(carried)
    assert not {"torch", "torchvision", "triton", "nvidia-cublas", "numpy", "pytest"} & set(carried)


def test_wheel_is_installed_where_its_package_lacks_or_is_too_old_for_another(gpu, tmp_path, monkeypatch):
    wheels = {}
    for name, needs in {"absent": ["old>=2", "new>=2; python_version < '3'"], "old": [], "new": []}.items():
        wheels[name] = tmp_path / f"{name}-2.0-py3-none-any.whl"
        with ZipFile(wheels[name], "w") as wheel:
            lines = [f"Name: {name}", *(f"Requires-Dist: {need}" for need in needs)]
            wheel.writestr(f"{name}-2.0.dist-info/METADATA", "\n".join(lines) + "\n\n")
    monkeypatch.setattr(gpu.wheels, "LIBRARIES", [])
    monkeypatch.setattr(gpu.wheels, "installed", {"old": "1.5", "new": "1.5"}.get)
    assert set(gpu.wheels.to_install(wheels)) == {"absent", "old"}
    library = tmp_path / "pyproject.toml"
    library.write_text('[project]\ndependencies = ["new>=2"]\n', encoding="utf-8")
    monkeypatch.setattr(gpu.wheels, "LIBRARIES", [library])
    assert set(gpu.wheels.to_install(wheels)) == {"absent", "old", "new"}
