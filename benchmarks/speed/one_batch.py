"""One batch trained, validated and tested with the imports of the project and nothing else, and its weights saved."""

import sys
from pathlib import Path

import pytorch_lightning  # noqa: F401, imported for its time
import torch
import torchmetrics  # noqa: F401
from bare import cnn, normalised, read
from torch.nn.functional import cross_entropy

folder = Path(sys.argv[1])  # with the unpacked files
network = cnn()
optimizer = torch.optim.Adam(network.parameters())
(images, labels), (test_images, test_labels) = read(folder, "train"), read(folder, "t10k")
cross_entropy(network(normalised(images[:64])), labels[:64]).backward()
optimizer.step()
network.eval()
with torch.no_grad():
    for image, label in ((images[-64:], labels[-64:]), (test_images[:64], test_labels[:64])):
        print(float((network(normalised(image)).argmax(dim=1) == label).float().mean()))
torch.save(network.state_dict(), folder / "weights.pt")
