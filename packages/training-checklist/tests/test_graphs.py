"""Batches that are no stack of samples: graphs, whose nodes stand one after the other, and padded ones."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset
from training_checklist.diagnosis.diagnose import diagnose

FEATURES = 5


def graphs(seed):
    """Rings of 4 to 8 nodes; the target is a sum over the nodes."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(48):
        nodes = int(torch.randint(4, 9, (), generator=random))
        features = torch.randn(nodes, FEATURES, generator=random)
        ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
        found.append({"x": features, "edges": torch.cat([ring, ring.flip(0)], 1), "y": features[:, 0].sum()})
    return found


def one_after_the_other(samples, counted_on=True):
    sizes = torch.tensor([len(sample["x"]) for sample in samples])
    before = (sizes.cumsum(0) - sizes) * counted_on
    edges = [sample["edges"] + start for sample, start in zip(samples, before, strict=True)]
    owner = torch.repeat_interleave(torch.arange(len(samples)), sizes)
    y = torch.stack([sample["y"] for sample in samples])
    return {"x": torch.cat([sample["x"] for sample in samples]), "edges": torch.cat(edges, 1), "owner": owner, "y": y}


def not_counted_on(samples):
    return one_after_the_other(samples, counted_on=False)


def padded(samples):
    most = max(len(sample["x"]) for sample in samples)
    x = torch.zeros(len(samples), most, FEATURES)
    joined, mask = torch.zeros(len(samples), most, most), torch.zeros(len(samples), most)
    for i, sample in enumerate(samples):
        x[i, : len(sample["x"])] = sample["x"]
        joined[i][sample["edges"][0], sample["edges"][1]] = 1.0
        mask[i, : len(sample["x"])] = 1.0
    return {"x": x, "joined": joined, "mask": mask, "y": torch.stack([sample["y"] for sample in samples])}


class Messages(LightningModule):
    """Every option is a way to let samples of a batch take part in each other's answers."""

    normalised, masked = False, True

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(FEATURES, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, batch):
        hidden = torch.relu(self.first(batch["x"]))
        if "joined" in batch:
            hidden = torch.relu(self.second(hidden + batch["joined"] @ hidden))
            kept = batch["mask"][:, :, None] if self.masked else torch.ones_like(hidden)
            return self.head((hidden * kept).sum(1)).squeeze(1)
        source, target = batch["edges"]
        hidden = torch.relu(self.second(hidden + torch.zeros_like(hidden).index_add(0, target, hidden[source])))
        if self.normalised:
            hidden = hidden.softmax(0)
        whole = hidden.new_zeros(len(batch["y"]), 16).index_add(0, batch["owner"], hidden)
        return self.head(whole).squeeze(1)

    def training_step(self, batch, batch_idx):
        return ((self(batch) - batch["y"]) ** 2).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


CASES = {
    "one after the other": (one_after_the_other, {}, ""),
    "padded": (padded, {}, ""),
    "nodes are not counted on": (not_counted_on, {}, "hidden[source]"),
    "over all of the batch": (one_after_the_other, {"normalised": True}, "hidden.softmax(0)"),
    "padding is added up": (padded, {"masked": False}, ".sum(1)"),
}


@pytest.mark.parametrize("case", CASES)
def test_samples_are_answered_alike_alone_and_among_others(examine, case):
    collate, options, line = CASES[case]

    class Graphs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(graphs(0), 8, shuffle=True, collate_fn=collate)

        def val_dataloader(self):
            return DataLoader(graphs(1), 8, collate_fn=collate)

    verdict = examine("trace", type("Case", (Messages,), options)(), Graphs())
    found = [each for each in verdict.findings if each.rule == "network/answers-depend-on-others"]
    assert len(found) == bool(line)
    if line:
        written = Path(found[0].place.file).read_text(encoding="utf-8").splitlines()
        assert line in written[found[0].place.line - 1]


@pytest.mark.parametrize("kept", [True, False])
def test_some_samples_are_compared_with_their_own_targets(examine, kept):
    class Some(Messages):
        def training_step(self, batch, batch_idx):
            known = batch["y"] > 0
            targets = batch["y"].unsqueeze(1)[known]
            return ((self(batch)[known] - (targets.squeeze(1) if kept else targets)) ** 2).mean()

    class Graphs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(graphs(0), 16, shuffle=True, collate_fn=one_after_the_other)

        val_dataloader = train_dataloader

    found = [each for each in examine("trace", Some(), Graphs()).findings if "pairing" in each.rule]
    assert len(found) == (not kept)


@pytest.mark.parametrize("told", [True, False])
def test_graphs_are_weighted_alike_in_what_is_logged(examine, told):
    class Logging(Messages):
        def validation_step(self, batch, batch_idx):
            loss = self.training_step(batch, batch_idx)
            self.log("val/loss", loss, batch_size=len(batch["y"]) if told else None)

    class Graphs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(graphs(0), 8, shuffle=True, collate_fn=one_after_the_other)

        def val_dataloader(self):
            return DataLoader(graphs(1), 8, collate_fn=one_after_the_other)

    verdict = examine("learning", Logging(), Graphs(), limit_val_batches=4)
    found = [each for each in verdict.findings if "inferred" in each.rule]
    assert len(found) == (not told)
    if found:
        assert found[0].place.source.startswith('self.log("val/loss"')


def test_stream_has_no_full_batches(examine):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(graphs(0))

    class Streams(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(Stream(), 8, collate_fn=one_after_the_other)

        val_dataloader = train_dataloader

    assert examine("learning", Messages(), Streams(), limit_val_batches=4).findings == []


@pytest.mark.parametrize("leaks", [True, False])
def test_target_among_the_numbers_of_a_graph(examine, leaks):
    def with_numbers(samples):
        batch = one_after_the_other(samples)
        noise = torch.stack([sample["x"][:2, 1] for sample in samples])
        return batch | {"numbers": torch.cat([noise, 3 * batch["y"][:, None] - 1 if leaks else noise[:, :1]], 1)}

    class Described(Messages):
        def __init__(self):
            super().__init__()
            self.of_numbers = nn.Linear(3, 1)

        def forward(self, batch):
            return super().forward(batch) + self.of_numbers(batch["numbers"]).squeeze(1)

    class Graphs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader([*graphs(0), *graphs(2)], 16, shuffle=True, collate_fn=with_numbers)

        def val_dataloader(self):
            return DataLoader([*graphs(1), *graphs(3)], 16, collate_fn=with_numbers)

    found = [each for each in examine("limit_batches", Described(), Graphs()).findings if "target-among" in each.rule]
    assert len(found) == leaks


@pytest.mark.parametrize("bounded", [True, False])
def test_loss_that_is_written_out_asks_for_what_can_be_answered(examine, bounded):
    class Bounded(Messages):
        def forward(self, batch):
            answers = super().forward(batch)
            return torch.relu(answers) if bounded else answers

    class Graphs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(graphs(0), 16, shuffle=True, collate_fn=one_after_the_other)

        val_dataloader = train_dataloader

    found = [each for each in examine("trace", Bounded(), Graphs()).findings if "out-of-reach" in each.rule]
    assert len(found) == bounded


@pytest.mark.parametrize("split", ["train", "val"])
def test_loader_whose_samples_make_no_batch_is_named(split):
    class Graphs(LightningDataModule):
        def train_dataloader(self):
            collate = None if split == "train" else one_after_the_other
            return DataLoader(graphs(0), 8, collate_fn=collate)

        def val_dataloader(self):
            return DataLoader(graphs(1), 8)

    quiet = {"logger": False, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    trainer = Trainer(accelerator="cpu", max_epochs=1, **quiet)
    with pytest.raises(RuntimeError) as raised:
        trainer.fit(Messages(), Graphs())
    found = diagnose(raised.value)
    assert found.rule == "crash/unequal-samples"
    assert found.place.loader == f"{split}_dataloader"


class Graph:
    """An object that moves itself, as those of libraries for graphs do."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def to(self, *arguments: object, **options: object) -> "Graph":
        return self


@pytest.mark.parametrize("item", ["overfit", "gradcheck", "learning", "trace", "memory"])
@pytest.mark.parametrize("nested", [tuple, list, dict])
def test_step_may_write_what_it_computes_into_a_graph_beside_its_targets(examine, net, data, item, nested):
    class Writing(net):
        def loss(self, batch):
            graph, labels = batch.values() if isinstance(batch, dict) else batch
            graph.x = self(graph.x)  # as a graph goes through one layer after the other
            return functional.cross_entropy(graph.x, labels)

    def collate(samples):
        images, labels = zip(*samples, strict=True)
        parts = Graph(torch.stack(images)), torch.stack(labels)
        return dict(enumerate(parts)) if nested is dict else nested(parts)

    class Graphs(data):
        def train_dataloader(self):
            return DataLoader(self.part(1), 16, shuffle=True, collate_fn=collate)

        def val_dataloader(self):
            return DataLoader(self.part(2), 16, collate_fn=collate)

    assert examine(item, Writing(), Graphs()).status == "passed"


def test_batch_that_is_not_memorised_is_looked_at_as_it_was_before_the_step(examine, net, data):
    class Writing(net):
        def training_step(self, batch, batch_idx):
            [graph] = batch
            graph.x = self(graph.x)
            return functional.mse_loss(graph.x, torch.randn_like(graph.x))

        validation_step = None

    class Graphs(data):
        def train_dataloader(self):
            collate = lambda samples: [Graph(torch.stack([image for image, _ in samples]))]  # noqa: E731
            return DataLoader(self.part(1), 16, collate_fn=collate)

        val_dataloader = train_dataloader

    verdict = examine("overfit", Writing(), Graphs())
    assert verdict.status == "failed"
    assert verdict.error is None


class Nodes(LightningModule):
    """Answers for all nodes of a graph, which is a sparse buffer, and ranks pairs of a batch above drawn ones."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(24, 8)
        edges = torch.arange(24), torch.arange(24).roll(1)
        self.register_buffer("graph", torch.sparse_coo_tensor(torch.stack(edges), torch.ones(24), (24, 24)))

    def forward(self) -> Tensor:
        return self.vectors.weight + torch.sparse.mm(self.graph, self.vectors.weight)

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        first, second, others, counted = batch
        answers = self()
        near, far = ((answers[first] * answers[each]).sum(-1) for each in (second, others))
        return (functional.softplus(far - near) * counted).mean()

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.03)


class DrawnPairs(LightningDataModule):
    """Pairs of neighbours, with a node beside each that a generator of the collate function's own draws."""

    def train_dataloader(self) -> DataLoader:
        generator = torch.Generator().manual_seed(3)

        def collate(firsts: list[Tensor]) -> tuple[Tensor, ...]:
            first = torch.stack(firsts)
            others = torch.randint(24, (len(first),), generator=generator)
            return first, (first + 1) % 24, others, others != first

        return DataLoader(torch.arange(24).repeat(8), batch_size=16, shuffle=True, collate_fn=collate)


@pytest.mark.parametrize("item", ["limit_batches", "memory", "overfit", "learning", "gradients"])
def test_pairs_of_nodes_of_a_sparse_graph_are_no_finding(examine, item):
    verdict = examine(item, Nodes(), DrawnPairs())
    assert (verdict.findings, verdict.error) == ([], None)


@dataclass
class Whole:
    nodes: Tensor
    edges: Tensor
    labels: Tensor


class OfTheWholeGraph(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def training_step(self, batch: Whole, batch_idx: int) -> Tensor:
        hidden = torch.sparse.mm(batch.edges, self.first(batch.nodes)).relu()
        return nn.functional.cross_entropy(self.head(hidden), batch.labels)

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.03)


class OneGraph(LightningDataModule):
    def train_dataloader(self) -> DataLoader:
        random = torch.Generator().manual_seed(0)
        labels = torch.arange(40) % 4
        nodes = torch.eye(8)[labels] + 0.3 * torch.randn(40, 8, generator=random)
        edges = ((labels[:, None] == labels) / 10.0).to_sparse()
        return DataLoader([Whole(nodes, edges, labels)], batch_size=None)


@pytest.mark.parametrize("item", ["limit_batches", "trace", "gradients", "overfit", "learning"])
def test_batch_with_a_sparse_matrix_is_taken_as_it_is(examine, item):
    verdict = examine(item, OfTheWholeGraph(), OneGraph())
    assert (verdict.findings, verdict.error) == ([], None)


class Unordered:
    """What belongs to a graph, and cannot be gone through: as torch_geometric's HeteroData."""

    def __iter__(self) -> None:
        raise NotImplementedError


class Encoder(nn.Linear):
    """Hands on what it is given beside its input, as layers of a graph do."""

    def forward(self, nodes: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        return super().forward(nodes).relu(), *others


class WithOddParts(OfTheWholeGraph):
    """Says how many samples a batch has: Lightning could not tell."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(8, 8)

    def loss(self, batch: dict) -> Tensor:
        nodes, edges, _ = self.encoder(batch["nodes"], batch["edges"], batch["subgraphs"])
        return super().training_step(Whole(nodes, edges, batch["labels"]), 0)

    def training_step(self, batch: dict, batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss, batch_size=len(batch["nodes"]))
        return loss

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch), batch_size=len(batch["nodes"]))


def with_odd_parts(samples: list[tuple[Tensor, int]]) -> dict:
    nodes, labels = torch.stack([each for each, _ in samples]), torch.tensor([label for _, label in samples])
    subgraphs = torch.nested.nested_tensor([nodes[: index + 1] for index in range(len(nodes))])
    parts = {"scale": np.array(2.0), "form": Whole, "graph": Unordered(), "subgraphs": subgraphs}
    return parts | {"nodes": nodes, "edges": torch.eye(len(nodes)).to_sparse(), "labels": labels}


class GraphsWithOddParts(LightningDataModule):
    def drawn(self, seed: int, size: int) -> DataLoader:
        random = torch.Generator().manual_seed(seed)
        labels = torch.arange(size) % 4
        nodes = torch.eye(8)[labels] + 0.3 * torch.randn(size, 8, generator=random)
        return DataLoader(
            list(zip(nodes, labels.tolist(), strict=True)), 12, shuffle=not seed, collate_fn=with_odd_parts
        )

    def train_dataloader(self) -> DataLoader:
        return self.drawn(0, 120)

    def val_dataloader(self) -> DataLoader:
        return self.drawn(1, 60)


@pytest.mark.parametrize("item", ["limit_batches", "trace", "gradients", "overflow", "overfit", "learning"])
def test_batch_with_parts_that_cannot_be_gone_through_is_taken_as_it_is(examine, item):
    verdict = examine(item, WithOddParts(), GraphsWithOddParts())
    assert (verdict.findings, verdict.error) == ([], None)
