"""Which jobs of a sweep are started, and how often."""

from hydra.core.utils import JobReturn, JobStatus
from training_runs.records.runs import write_record
from training_runs.sweeps.unfinished_jobs import launch_to_end, runs_of


class Machines:
    """Runs jobs as told: of each the states that it comes to, one after another; "lost" leaves no word, and
    "refused" a record without a start.
    """

    def __init__(self, folder, states):
        self.folder, self.states = folder, {number: [*told] for number, told in states.items()}
        self.starts = {number: [] for number in states}

    def __call__(self, numbers):
        for number in numbers:
            state = self.states[number].pop(0)
            folder = self.folder / str(number)
            folder.mkdir(exist_ok=True)
            record = {"state": "failed" if state == "refused" else state, "overrides": [], "metrics": {}}
            if state != "refused":
                self.starts[number].append({"started": "2026-01-01T00:00:00+00:00"})
                record["starts"] = self.starts[number]
            if state != "lost":
                write_record(folder, record)
        return {number: JobReturn(status=JobStatus.COMPLETED) for number in numbers}


def test_job_that_failed_is_started_as_often_as_asked_and_others_are_not(tmp_path):
    machines = Machines(tmp_path, {0: ["finished"], 1: ["failed"] * 3, 2: ["running", "finished"]})
    assert launch_to_end(machines, [0, 1, 2], tmp_path, retries=2).keys() == {0, 1, 2}
    assert machines.states == {0: [], 1: [], 2: []}


def test_job_that_was_refused_is_not_started_again(tmp_path, capsys):
    machines = Machines(tmp_path, {0: ["refused"], 1: ["finished"]})
    launch_to_end(machines, [0, 1], tmp_path, retries=1)
    assert "started again" not in capsys.readouterr().out


def test_jobs_that_never_begin_are_given_up(tmp_path):
    machines = Machines(tmp_path, {0: ["lost"]})
    launch_to_end(machines, [0], tmp_path, retries=1)
    assert machines.states == {0: []}


def test_job_lost_before_it_began_is_started_once_more_while_others_begin(tmp_path):
    machines = Machines(tmp_path, {0: ["lost", "finished"], 1: ["finished"]})
    launch_to_end(machines, [0, 1], tmp_path, retries=1)
    assert machines.states == {0: [], 1: []}


def test_numbers_are_cut_where_one_does_not_follow_the_other():
    assert [*runs_of([7, 1, 2, 5, 6])] == [[1, 2], [5, 6, 7]]
