"""Every probe keeps the contract, by its own examples; a new file in probes/ is tested by itself."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module, resources
from pathlib import Path

import pytest
from training_checklist import check, instruments, probes
from training_checklist.__main__ import main
from training_checklist.catalogue import Catalogue
from training_checklist.finding import FAILED, REMARK, WARNING
from training_checklist.lab import examples, jobs
from training_checklist.lab.shared import Subject, of_each
from training_checklist.probe import CannotJudge, Fix, Hit, Probe, kept
from training_checklist.reporting.sarif import location
from training_checklist.reporting.wording import in_words
from typed import assert_works, said_in

PROBES = [probes.load(name) for name in probes.names()]
ITEMS = {path.name.removesuffix(".yaml") for path in (resources.files("training_checklist") / "conf/debug").iterdir()}
FAULTY = [(probe, each) for probe in PROBES for each in (probe.faulty, *probe.also_faulty)]
HEALTHY = [(probe, each) for probe in PROBES for each in (probe.healthy, *probe.also_healthy)]
NUMBERS = [(probe, name) for probe in PROBES for name, each in probe.thresholds.items()]


@pytest.fixture(autouse=True)
def no_figure(monkeypatch):
    """Examples of watch draw nothing: it takes a second each time."""
    monkeypatch.setattr("training_checklist.experiments.watch.watch.draw", lambda *_: "")


def by_id(probe):
    return probe.id


@pytest.mark.parametrize("name", probes.names())
def test_file_of_a_probe_is_named_after_it_and_an_item_asks_it(name):
    probe = probes.load(name)
    assert probe.id == name
    assert probes.heading(name) == (name, probe.item, probe.question)
    assert probe in Catalogue().of_item(probe.item)


def test_no_probe_draws_as_it_is_imported():
    """In a project's run it is imported after the seed is set."""
    code = "import torch; from training_checklist import instruments, probes; state = torch.get_rng_state(); "
    code += "after = {name: probes.load(name) and torch.get_rng_state() for name in probes.names()}; "
    code += "print([name for name, each in after.items() if not torch.equal(state, each)])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[]"]


@pytest.mark.parametrize(("probe", "example"), FAULTY, ids=[probe.id for probe, _ in FAULTY])
def test_faulty_example_is_found_and_said_in_full(probe, example, root, tmp_path):
    found = examples.findings(probe, example)
    assert found, "nothing is found in the faulty example"
    for finding in found:
        assert (finding.rule, finding.severity in (FAILED, WARNING, REMARK)) == (probe.id, True)
        assert finding.what.strip()
        assert re.match(r"[a-z0-9\"'`(]", finding.why), f"{finding.why!r} goes on from what was seen: lower case"
        assert finding.fix.advice or finding.fix.overrides or finding.fix.items or finding.command
        assert set(finding.fix.items) <= ITEMS
        # Commands are made in one place, for whatever program the project starts.
        assert "python " not in f"{finding.what} {finding.why} {finding.fix.advice}"
        assert has_a_line(finding, example), finding.where
        if isinstance(example, jobs.Job):
            assert_works(finding.command, example.write(tmp_path))
        else:
            assert_works(in_words(finding, probe.item, None), root)
            assert_works(said_in(root, finding, probe.item), root)


def has_a_line(finding, example):
    """Whether SARIF can name a line of a file that is there: where a program runs, that of its start stands in."""
    if not isinstance(example, jobs.Job):
        return location(finding) is not None
    file, line = (finding.spots or [("train.py", 1)])[0]
    return 1 <= line <= ({**jobs.FILES, **example.files})[file].count("\n")


@pytest.mark.parametrize(("probe", "example"), HEALTHY, ids=[probe.id for probe, _ in HEALTHY])
def test_healthy_example_is_judged_and_silent(probe, example):
    assert examples.findings(probe, example) == []


@pytest.mark.parametrize(("probe", "name"), NUMBERS, ids=[f"{probe.id}-{name}" for probe, name in NUMBERS])
def test_threshold_decides_and_says_why_it_is_this_one(probe, name):
    """Made looser the faulty example is missed, and made tighter the healthy one is found; either way may be looser."""
    threshold = probe.thresholds[name]
    assert len(threshold.reason.split()) > 4
    pair = threshold.faulty or probe.faulty, threshold.healthy or probe.healthy

    def found(value):
        items = [examples.run(probe, example, {name: value}) for example in pair]
        assert [item.error for item in items] == [None, None]
        return tuple(any(finding.severity != REMARK for finding in item.findings) for item in items)

    assert found(threshold.value) == (True, False)
    values = threshold.value * threshold.factor, threshold.value / threshold.factor
    outcomes = dict(zip(values, map(found, values), strict=True))
    assert set(outcomes.values()) == {(False, False), (True, True)}, (
        f"found in (faulty, healthy), by value: {outcomes}; one value must miss both, and the other one find both"
    )


def test_threshold_of_one_name_is_one_number_in_all_probes_of_an_item():
    values = {}
    for probe, name in NUMBERS:
        known = probe.thresholds[name]
        assert values.setdefault((probe.item, name), (known.value, known.reason)) == (known.value, known.reason)


def compared(node):
    """Yield the names that a comparison is made with, and not those of what it takes parts of or calls."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, (ast.Call, ast.Subscript)):
        for child in ast.iter_child_nodes(node):
            yield from compared(child)


def is_number(node):
    """Whether a value is a number, or made of numbers: 2**24."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def test_every_file_of_a_probe_lies_in_the_folder_of_its_topic():
    files = {path.stem for path in Path(probes.__file__).parent.glob("*.py")}
    assert files == {"__init__"}, "a probe is probes/topic/name.py"


def test_number_that_decides_is_a_threshold():
    """A constant of a probe bounds the work, and is called MOST, or is what a float type keeps: ROUNDING."""
    decide = []
    for file in Path(probes.__file__).parent.glob("*/*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = {name for node in ast.walk(tree) if isinstance(node, ast.Compare) for name in compared(node)}
        for node in (each for each in tree.body if isinstance(each, ast.Assign) and is_number(each.value)):
            [name] = map(ast.unparse, node.targets)
            decide += [f"{file.name}: {name}"] * (name in names and not name.startswith(("MOST", "ROUNDING")))
    assert decide == []


def verdict_of(probe, asked, examine, net):
    """Return what the item of a probe comes to, in which some probes are asked."""
    if isinstance(probe.healthy, jobs.Job):
        return jobs.run(probe.item, asked, probe.healthy, {})
    if probe.item == "distributed":  # a call has one process
        return examples.run(probe, probe.healthy, asked=map(probes.load, asked)).verdict("")
    return examine(probe.item, net())


def broken(*_):
    raise ZeroDivisionError("of a probe")


@pytest.mark.parametrize("probe", PROBES, ids=by_id)
def test_detector_that_raises_is_a_tool_error_with_its_name_and_the_others_judge(examine, net, monkeypatch, probe):
    neighbour = next(each for each in PROBES if each.item == probe.item and each.id != probe.id)
    changed = replace(probe, detect=broken)
    if probe.detect is kept:
        changed = replace(probe, listener=type("Broken", (probe.listener,), {"after": broken}), detect=kept)
    loaded = {probe.id: changed, neighbour.id: neighbour}
    monkeypatch.setattr(probes, "names", lambda: loaded)
    monkeypatch.setattr(probes, "load", loaded.__getitem__)
    verdict = verdict_of(probe, loaded, examine, net)
    assert verdict.status == "tool error"
    assert f"probe {probe.id}: ZeroDivisionError: of a probe" in verdict.error
    assert "ZeroDivisionError" in verdict.unjudged[probe.id]
    assert neighbour.id in {*verdict.judged, *verdict.unjudged}
    assert neighbour.id not in verdict.unjudged or "ZeroDivisionError" not in verdict.unjudged[neighbour.id]


def test_probe_that_memory_is_too_short_for_cannot_judge(examine, net, monkeypatch):
    def short(*_):
        raise MemoryError

    probe = next(each for each in PROBES if each.item == "gradcheck")
    loaded = {probe.id: replace(probe, detect=short)}
    monkeypatch.setattr(probes, "names", lambda: loaded)
    monkeypatch.setattr(probes, "load", loaded.__getitem__)
    verdict = verdict_of(probe, loaded, examine, net)
    assert (verdict.error, "too little memory" in verdict.unjudged[probe.id]) == (None, True)


@pytest.mark.parametrize("probe", {probe.item: probe for probe in PROBES}.values(), ids=lambda probe: probe.item)
def test_every_probe_of_an_item_is_judged_or_says_why_not(examine, net, probe):
    asked = {each.id for each in PROBES if each.item == probe.item}
    verdict = verdict_of(probe, asked, examine, net)
    known = {*verdict.judged, *verdict.unjudged} & {*probes.names()}
    assert {name for name in known if probes.load(name).item == probe.item} == asked
    assert all(verdict.unjudged.values())


PAGE = (Path(__file__).parents[1] / "docs/add_a_probe.md").read_text(encoding="utf-8")
WHOLE = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "PROBE = Probe(" in block]


@pytest.mark.parametrize(("module", "text"), [*zip(("sigmoid_before_argmax", "constant_column"), WHOLE, strict=True)])
def test_probe_of_the_page_has_a_page_and_examples_in_a_project(tmp_path, monkeypatch, capsys, module, text):
    package = tmp_path / f"own_{module}"
    package.mkdir()
    (package / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    probe = import_module(f"{package.name}.{module}").PROBE
    assert [each.rule for each in examples.findings(probe, probe.faulty)] == [probe.id]
    assert examples.findings(probe, probe.healthy) == []
    assert main(["explain", f"{package.name}.{module}"]) == 0
    assert capsys.readouterr().out.startswith(f"# {probe.id}\n\n**{probe.question}**")


def test_probe_of_the_page_is_asked_in_a_project(net, data, tmp_path, monkeypatch):
    (tmp_path / "sigmoid_before_argmax.py").write_text(WHOLE[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    class Sure(net):
        def loss(self, batch):
            self(batch[0]).sigmoid().argmax(1)
            return super().loss(batch)

    checks = {"rules": ["sigmoid_before_argmax"]}
    [finding] = check(Sure(), data(), items=["trace"], checks=checks)["trace"].findings
    assert (finding.rule, finding.what) == ("network/sigmoid-before-argmax", "argmax is given what a sigmoid returns")


def test_every_instrument_is_there():
    for module, names in instruments.MODULES.items():
        held = vars(import_module(f"training_checklist.{module}"))
        assert [name for name in names if getattr(instruments, name) is not held[name]] == []


@pytest.mark.parametrize(("things", "unknown"), [(["a", "dark", "b"], "it is dark"), (["a"], "")])
def test_of_several_things_those_that_cannot_be_judged_keep_their_reason(things, unknown):
    def look(thing, limits):
        if thing == "dark":
            raise CannotJudge("it is dark")
        if thing == "b":
            yield Hit("b")

    detect = of_each(lambda lab: lab.things, "nothing is there")(look)
    probe = Probe(id="own/thing", item="own", question="?", why="-", fix=Fix("-"), detect=detect)
    lab = Subject()
    lab.things = things
    found, reason = probe.look(lab, {})
    assert ([each.what for each in found], reason) == (["b"] if "b" in things else [], unknown)
    lab.things = ["dark"]
    with pytest.raises(CannotJudge, match="it is dark"):
        probe.look(lab, {})


def test_one_probe_can_be_asked_for_alone():
    assert [probe.id for probe in probes.of_topics("network/one-output")] == ["network/one-output"]


def test_probes_that_are_imported_leave_a_process_that_can_be_forked():
    """Where torch has split work among threads, each further item costs a new interpreter."""
    program = f"""
import sys
import torch
torch.set_num_threads(2)
sys.path[:] = {sys.path!r}
from training_checklist.catalogue import Catalogue
from training_checklist.starting.fork import is_safe

assert len([*Catalogue().values()]) > 1
assert is_safe()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
