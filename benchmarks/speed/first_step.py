"""One optimizer step with the imports of the project and nothing else: what its start-up is compared with."""

import os

import pytorch_lightning  # noqa: F401, imported for its time
import torch
import torchmetrics  # noqa: F401
from bare import cnn
from torch.nn.functional import cross_entropy

network = cnn()
optimizer = torch.optim.Adam(network.parameters())
cross_entropy(network(torch.rand(64, 1, 28, 28)), torch.zeros(64, dtype=torch.int64)).backward()
optimizer.step()
os._exit(0)  # as the project's process ends: without the time that an interpreter takes to clean up
