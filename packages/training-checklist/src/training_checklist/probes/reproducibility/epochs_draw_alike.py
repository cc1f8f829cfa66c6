import numpy

from training_checklist.instruments import SeededRuns, worker_draws
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe
from training_checklist.probes.reproducibility.workers_draw_alike import loading


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    for draws in worker_draws(seeded):
        if draws.second == draws.first and draws.first[0] != draws.first[1] and not draws.persistent:
            what = "every epoch draws the same augmentation: the workers begin in the same state each time"
            yield Hit(what, draws.place)


PROBE = Probe(
    question="Do the DataLoader's workers draw different random numbers in each epoch?",
    why="the network sees each sample in one version only, as if it were not augmented",
    severity=WARNING,
    fix=Fix(
        "draw with torch.rand or numpy.random.rand, which Lightning seeds for each worker and epoch, or seed by "
        "torch.initial_seed() in worker_init_fn, which is another one in each epoch"
    ),
    detect=detect,
    faulty=loading(lambda: numpy.random.rand, worker_init_fn=numpy.random.seed),
    healthy=loading(lambda: numpy.random.rand),
)
