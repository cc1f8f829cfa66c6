"""What the project is compared with: a training loop without any framework. python bare.py --help

The network, optimizer and normalisation are the project's; images lie in memory as uint8 and a batch is one indexing
operation. No logging, no checkpoint, no metric but the accuracy on the validation set after each epoch.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from turns import Turns

MEAN, STD = 0.2860, 0.3530  # of Fashion-MNIST, in units of 0..1
VAL_SIZE = 5000


def read(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Return images (N, 1, 28, 28) uint8 and labels (N,) int64 of IDX files."""
    images = np.fromfile(folder / f"{part}-images-idx3-ubyte", dtype=np.uint8, offset=16).reshape(-1, 1, 28, 28)
    labels = np.fromfile(folder / f"{part}-labels-idx1-ubyte", dtype=np.uint8, offset=8)
    return torch.from_numpy(images), torch.from_numpy(labels).long()


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5), nn.ReLU()),
        *(nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)),
        *(nn.Flatten(), nn.Linear(576, 10)),
    )


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def normalised(images: Tensor) -> Tensor:
    return (images.float() - MEAN * 255) / (STD * 255)


def in_memory(images: Tensor, labels: Tensor, batch_size: int, shuffle: bool) -> Iterator[tuple[Tensor, Tensor]]:
    device = images.device
    order = torch.randperm(len(labels), device=device) if shuffle else torch.arange(len(labels), device=device)
    for index in order.split(batch_size):
        yield normalised(images[index]), labels[index]


def usual(folder: Path, dataset: str, batch_size: int) -> "torch.utils.data.DataLoader":
    """The way of most tutorials: a torchvision dataset with a transform for each sample."""
    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])
    samples = getattr(datasets, dataset)(folder.parents[1], train=True, transform=transform)
    train = torch.utils.data.Subset(samples, range(VAL_SIZE, len(samples)))
    return torch.utils.data.DataLoader(train, batch_size, shuffle=True)


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor, batch_size: int) -> float:
    network.eval()
    batches = in_memory(images, labels, batch_size, shuffle=False)
    correct = sum((network(batch).argmax(dim=1) == target).sum() for batch, target in batches)
    network.train()
    return float(correct) / len(labels)


def main(arguments: argparse.Namespace) -> None:
    torch.manual_seed(42)
    device = torch.device(arguments.device)
    (images, labels), test = read(arguments.data, "train"), read(arguments.data, "t10k")
    images, labels = images.to(device), labels.to(device)  # all of them on the GPU, where there is one
    train, val = (images[VAL_SIZE:], labels[VAL_SIZE:]), (images[:VAL_SIZE], labels[:VAL_SIZE])
    network = {"cnn": cnn, "linear": linear}[arguments.network]().to(device)
    optimizer = torch.optim.Adam(network.parameters())
    forward = torch.compile(network, mode=arguments.compile) if arguments.compile else network
    autocast = partial(torch.autocast, device.type, torch.bfloat16, enabled=arguments.bf16)
    turns = Turns()
    for epoch in range(arguments.epochs):
        if arguments.loop == "usual":
            batches = usual(arguments.data, arguments.dataset, arguments.batch_size)
        else:
            batches = in_memory(*train, arguments.batch_size, shuffle=True)
        for step, (batch, target) in enumerate(batches):
            if step == arguments.limit:
                break
            if step % arguments.stretch == 0:
                synchronize(device)
                turns.next(epoch=epoch - (step == 0))
            with autocast():
                loss = F.cross_entropy(forward(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with autocast():
            accuracy(network, *val, arguments.batch_size)
    synchronize(device)
    turns.next(epoch=arguments.epochs - 1)
    test_accuracy = accuracy(network, *(part.to(device) for part in test), arguments.batch_size)
    turns.finish(accuracy=test_accuracy)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the four IDX files, unpacked")
    parser.add_argument("--dataset", default="FashionMNIST", help="torchvision's name of the data")
    parser.add_argument("--loop", choices=["bare", "usual"], default="bare")
    parser.add_argument("--network", choices=["cnn", "linear"], default="cnn")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=-1, help="batches of an epoch; -1 takes all")
    parser.add_argument("--stretch", type=int, default=50, help="batches of a turn")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", metavar="MODE", help="torch.compile with this mode, such as default")
    main(parser.parse_args())
