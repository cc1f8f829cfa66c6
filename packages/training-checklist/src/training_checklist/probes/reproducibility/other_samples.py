import torch
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, SeededRuns, labelled, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

LOADERS = {"batch": "train_dataloader", "validation batch": "val_dataloader"}
OTHER_ORDER = "a sampler or shuffle draws from a generator that has no seed, or cuts up the order of a set"
ITERABLE = (
    "the data come in another order, or with other values: by a generator that has no seed, "
    "the order of a set or of files, or workers that race"
)
OTHER_VALUES = {  # by whether the dataset gives the same for one position after one seed
    True: "the dataset gives the same for one position after the same seed: other samples stand there in the other "
    "run, by a split with no seed or a listing in no fixed order",
    False: "the dataset gives other values for one position even after the same seed: it draws from a generator of its "
    "own",
    None: "the dataset draws from a generator that has no seed, or other samples stand there, by a split with no seed",
}


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    runs = seeded.parted
    loader = None if runs is None else LOADERS.get(runs.kind())
    if runs is None or loader is None:
        return
    row, drawn_alike = runs.parted[0], runs.drawn_alike(loader)
    why = {True: OTHER_VALUES[runs.steady(loader)], False: OTHER_ORDER, None: ITERABLE}[drawn_alike]
    place, why = runs.at(Place(loader=loader, batch=row.step, note=shown(runs.one.generators)), why)
    first = f"first {row.name} of step {row.step}: {runs.numbers()}"
    if drawn_alike:
        fix = Fix(
            "draw with torch.rand or numpy.random.rand, which are seeded; random_split(..., "
            "generator=torch.Generator().manual_seed(cfg.seed)); sort what is listed; transforms with generators of "
            "their own take a seed, as albumentations.Compose(..., seed=cfg.seed)"
        )
        what = "two runs with one seed draw the same positions of the dataset, and the values there differ"
        yield Hit(f"{what}, {first}", place, why, fix)
    else:
        how = "their samplers draw other positions" if drawn_alike is False else "the data are iterable"
        yield Hit(f"two runs with one seed get other batches, {first}; {how}", place, why)


def shuffled(is_seeded: bool) -> Example:
    def loader() -> DataLoader:
        generator = torch.Generator()
        if not is_seeded:
            generator.seed()
        return DataLoader(labelled(), 16, shuffle=True, generator=generator)

    return Example(loader=loader)


PROBE = Probe(
    question="Do two runs with one seed read the same samples in the same order, with the same values?",
    why="what a run has learnt cannot be had once more",
    fix=Fix("generator=torch.Generator().manual_seed(cfg.seed) for the loader; sort what is listed"),
    detect=detect,
    aliases=("reproducibility/sample-values-differ",),
    faulty=shuffled(False),
    healthy=shuffled(True),
)
