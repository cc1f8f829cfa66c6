import os

from torch.utils.data import DataLoader, DistributedSampler

from training_checklist.instruments import Example, Ranks, samples
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(ranks: Ranks, limits: Limits) -> Hits:
    shares = ranks.shares
    pairs = [
        (one, two, loader, other)
        for one, two, loader, other in shares.of_one_dataset()
        if loader.splits and other.splits and loader.drawn and loader.drawn != other.drawn
    ]
    if not pairs:
        raise CannotJudge("no epoch of a sampler that cuts up one dataset has been read")
    if any(len({*each.drawn}) < len(each.drawn) for _, _, *loaders in pairs for each in loaders):
        raise CannotJudge("samples are drawn with replacement: a rank has some of its own twice, too")
    for one, two, loader, other in pairs:
        common = set(loader.drawn) & set(other.drawn)
        if len(common) > shares.world_size:  # a DistributedSampler repeats fewer, to fill up
            what = f"{len(common)} of their {len(loader.drawn)} first samples are the same"
            place = shares.where(f"{one} and {two}")
            yield Hit(f"ranks {one} and {two} get shares of the data that overlap: {what}", place)
            return


def shuffled(by_rank: bool) -> Example:
    def loader() -> DataLoader:
        data, rank = samples(), int(os.environ["RANK"])
        return DataLoader(data, 4, sampler=DistributedSampler(data, 2, rank, seed=rank * by_rank))

    return Example(loader=loader)


PROBE = Probe(
    question="Does each sample go to one rank only (do the samplers of all ranks shuffle alike)?",
    why="some samples are seen twice in an epoch, and others never",
    fix=Fix("one seed for the sampler on all ranks, and set_epoch with one number: they cut up one order"),
    detect=detect,
    faulty=shuffled(True),
    healthy=shuffled(False),
)
