import os

from torch.utils.data import DataLoader

from training_checklist.instruments import Example, Ranks, samples
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(ranks: Ranks, limits: Limits) -> Hits:
    together = zip(*ranks.shares.loaders, strict=False)
    sized = [loaders for loaders in together if all(each.batches is not None for each in loaders)]
    if not sized:
        raise CannotJudge("no training DataLoader knows its number of batches")
    for loaders in sized:
        counts = [loader.batches for loader in loaders]
        fewest = counts.index(min(counts))
        told = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(counts))
        note = f"{loaders[fewest].sampler} over {loaders[fewest].dataset}"
        if len(set(counts)) > 1:
            place = Place(rank=str(fewest), loader="train_dataloader", note=note)
            yield Hit(f"the ranks have different numbers of batches: {told}", place)


def cut(fewer: int) -> Example:
    """Make one in which rank 1 has so many samples fewer."""

    def loader() -> DataLoader:
        return DataLoader(samples()[: 32 - fewer * int(os.environ["RANK"])], 4)

    return Example(loader=loader, trainer={"use_distributed_sampler": False})


PROBE = Probe(
    question="Does every rank have the same number of batches?",
    why="the rank with the fewest ends its epoch first, and the others wait for its gradients for ever",
    fix=Fix("give all ranks as many batches: a DistributedSampler, or drop_last=True"),
    detect=detect,
    faulty=cut(8),
    healthy=cut(3),
)
