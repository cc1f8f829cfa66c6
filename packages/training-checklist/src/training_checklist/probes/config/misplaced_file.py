from training_config.provenance import leaves
from training_config.walk import chosen

from training_checklist.instruments import Job, JobConfig, misplaced, override_of, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for file in misplaced(config):
        keys, option = [".".join(key) for key, _ in leaves(file.content)], file.option.replace("/", "=")
        yield Hit(
            f"{shown(keys, 6)} of {option} land in {file.package}.*, where nothing reads them",
            Place(file=file.file, line=1),
            why=f"{keys[0]} keeps {override_of(chosen(config.job, keys[0]))} of another file",
            fix=Fix(f"make '# @package _global_' the first line of {file.file}"),
        )


def noted(header: str) -> Job:
    return Job(("+experiment=noted",), {"conf/experiment/noted.yaml": f"{header}quiet: true\n"})


PROBE = Probe(
    question="Does each config file put its keys into a package in which the code reads them?",
    why="they change nothing there",
    fix=Fix("make '# @package _global_' the first line of the file"),
    detect=detect,
    faulty=noted(""),
    healthy=noted("# @package _global_\n"),
)
