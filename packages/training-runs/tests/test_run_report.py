import json
import re
from html.parser import HTMLParser

import pytest
from training_runs.records.runs import read_record
from training_runs.reports.report import SPLITS, by_split


class Page(HTMLParser):
    """The text of a page, where it points to, and which tags are left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.targets, self.open = [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.targets += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def report(folder) -> Page:
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def page(shown) -> Page:
    return report(shown)


def shown_in(page) -> list[str]:
    return [target for target in page.targets if target.startswith("data:image/svg+xml;base64,")]


def links_of(page) -> list[str]:
    return [target for target in page.targets if not target.startswith("data:")]


def test_report_shows_all_without_another_file_or_network_and_links_log_and_config_beside_it(page, shown):
    assert shown_in(page)
    assert links_of(page) == ["train.log", ".hydra/config.yaml", ".hydra/overrides.yaml", "run.json"]
    assert all((shown / link).is_file() for link in links_of(page))


def test_report_fits_a_phone(shown):
    assert '<meta name="viewport" content="width=device-width' in (shown / "report.html").read_text(encoding="utf-8")


def test_report_has_every_figure(page, shown):
    assert len(shown_in(page)) == len(list((shown / "figures").glob("*.svg"))) == 4


def test_report_has_the_metrics_of_the_run_as_a_table_of_splits(page, shown):
    metrics = read_record(shown)["metrics"]
    rows = [
        " ".join([name, *(f"{metrics[f'{split}/{name}']:.4f}" for split in SPLITS)]) for name in ("accuracy", "loss")
    ]
    assert " ".join(["Metrics", *SPLITS, *rows, "Figures"]) in page.text


def test_metric_of_no_split_is_in_a_column_of_its_own():
    assert by_split({"val/loss": 0.5, "score": 2.0}) == [
        {"": "loss", "val": 0.5, "value": None},
        {"": "score", "val": None, "value": 2.0},
    ]


def test_report_shows_the_config_where_it_is_not_the_default(page):
    differences = page.text[page.text.index("Config that differs") : page.text.index("Run it again")]
    assert "optimizer.lr 0.002 0.001" in differences
    assert "data.val_size 500 5000" in differences
    assert "optimizer._target_" not in differences


def test_report_has_the_command_of_the_run_and_its_environment(page, shown):
    record = read_record(shown)
    assert f"python train.py {' '.join(record['overrides'][:3])}" in page.text
    assert re.search(r"rerun=\S*" + shown.name, page.text)
    assert f"torch {record['packages']['torch']}" in page.text


def test_failed_run_has_a_report_with_the_error_and_no_markup_of_it(train, tmp_path):
    with pytest.raises(SystemExit):
        train("+trainer.callbacks=null", "model.net.dropout=0.1", "data.val_size=9999", "+note='<script>'")
    [path] = tmp_path.glob("outputs/**/report.html")
    failed = report(path.parent)
    assert "failed" in failed.text
    assert "data.val_size=9999 must lie between" in failed.text


@pytest.mark.parametrize("folder", [".scratch", "debug/.paths-1/run"])
def test_trial_has_no_report_and_names_no_directory_that_will_be_gone(train, tmp_path, capfd, folder):
    run = tmp_path / "outputs/train/day" / folder
    train(f"hydra.run.dir={run}", "trainer.max_epochs=1", "model.net.dropout=0.1")
    assert read_record(run)["state"] == "finished"
    assert not (run / "report.html").exists()
    printed = capfd.readouterr().out
    assert "val/accuracy" in printed
    assert "outputs/train/day" not in printed


def test_verdicts_of_debug_items_are_in_the_report(train):
    run = train("+debug=watch", "model.net.dropout=0.1")  # the one item that is the run itself
    verdicts = report(run)
    [item] = json.loads((run / "debug" / "report.json").read_text(encoding="utf-8"))["items"]
    assert f"watch {item['verdict']}" in verdicts.text


def test_run_that_a_debug_item_ends_names_no_way_on(train, capfd):
    train("+debug=config", "model.net.dropout=0.1")
    printed = capfd.readouterr()
    assert "config" in printed.out
    assert "to go on from" not in printed.out + printed.err


def test_sweep_has_a_report_with_a_link_to_that_of_every_job(tmp_path, sweep):
    sweep("seed=0,1")
    [folder] = {path.parents[1] for path in tmp_path.glob("multirun/**/run.json")}
    page = report(folder)
    links = links_of(page)
    assert links == ["0/report.html", "1/report.html"]
    assert all((folder / link).is_file() for link in links)
    assert [path.name for path in (folder / "figures").glob("*.svg")] == ["swept_keys.svg"]
    assert len(page.targets) == 3
    assert "over 2 seeds" in page.text
    scores = [read_record(folder / job)["metrics"]["val/accuracy"] for job in "01"]
    best = scores.index(max(scores))
    winner = page.text[page.text.index("Best job") : page.text.index("Jobs")]
    assert f"job {best}: " in winner
    assert winner.strip().endswith(f"seed={best}")


def test_job_of_a_sweep_that_was_refused_has_a_report_with_the_reason(tmp_path, sweep):
    with pytest.raises(SystemExit):
        sweep("model.net.dropout=0.1,5")
    [refused] = tmp_path.glob("multirun/**/1")
    page = report(refused)
    assert "model.net.dropout=5 must be" in page.text
    assert f"python train.py {' '.join(read_record(refused)['overrides'][:3])}" in page.text
