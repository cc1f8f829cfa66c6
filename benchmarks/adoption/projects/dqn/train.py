"""Deep Q-learning on a small grid, with the replay buffer as an IterableDataset."""

from collections import deque, namedtuple

import hydra
import lightning as L
import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

Experience = namedtuple("Experience", ["state", "action", "reward", "done", "new_state"])


class Grid:
    """Walk from a random field of a grid to its corner; -0.01 a step, 1 at the goal."""

    def __init__(self, size=5, horizon=30, seed=0):
        self.size, self.horizon = size, horizon
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.position = self.rng.integers(0, self.size, 2)
        self.steps = 0
        return self.observation()

    def observation(self):
        return (self.position / (self.size - 1)).astype("float32")

    def step(self, action):
        move = ((0, 1), (0, -1), (1, 0), (-1, 0))[action]
        self.position = np.clip(self.position + move, 0, self.size - 1)
        self.steps += 1
        at_goal = bool((self.position == self.size - 1).all())
        return self.observation(), 1.0 if at_goal else -0.01, at_goal or self.steps >= self.horizon


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def append(self, experience):
        self.buffer.append(experience)

    def sample(self, count):
        indices = np.random.choice(len(self.buffer), count, replace=False)
        states, actions, rewards, dones, new_states = zip(*(self.buffer[i] for i in indices), strict=True)
        return (
            np.array(states),
            np.array(actions),
            np.array(rewards, dtype=np.float32),
            np.array(dones),
            np.array(new_states),
        )


class RLDataset(IterableDataset):
    def __init__(self, buffer, sample_size):
        self.buffer, self.sample_size = buffer, sample_size

    def __iter__(self):
        yield from zip(*self.buffer.sample(self.sample_size), strict=True)


class Agent:
    def __init__(self, env, buffer):
        self.env, self.buffer = env, buffer
        self.state = self.env.reset()

    @torch.no_grad()
    def play_step(self, net, epsilon, device):
        if np.random.random() < epsilon:
            action = np.random.randint(4)
        else:
            action = int(net(torch.tensor(self.state, device=device)[None]).argmax(1))
        new_state, reward, done = self.env.step(action)
        self.buffer.append(Experience(self.state, action, reward, done, new_state))
        self.state = self.env.reset() if done else new_state
        return reward, done


def qnet(hidden):
    return nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 4))


class DQN(L.LightningModule):
    def __init__(self, hidden, lr, gamma, sync_rate, eps_start, eps_end, eps_last_frame, warm_start, capacity,
                 episode_length, batch_size):  # fmt: skip
        super().__init__()
        self.save_hyperparameters()
        self.net = qnet(hidden)
        self.target_net = qnet(hidden)
        self.target_net.load_state_dict(self.net.state_dict())
        self.buffer = ReplayBuffer(capacity)
        self.agent = Agent(Grid(), self.buffer)
        self.total_reward = 0.0
        self.episode_reward = 0.0
        self.moves = 0
        for _ in range(warm_start):
            self.agent.play_step(self.net, 1.0, self.device)

    def forward(self, x):
        return self.net(x)

    def dqn_mse_loss(self, batch):
        states, actions, rewards, dones, next_states = batch
        q = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_q = self.target_net(next_states).max(1)[0]
            next_q[dones] = 0.0
        return nn.MSELoss()(q, rewards + self.hparams.gamma * next_q)

    def training_step(self, batch, nb_batch):
        frame = self.global_step
        fraction = min(frame / self.hparams.eps_last_frame, 1.0)
        epsilon = self.hparams.eps_start + fraction * (self.hparams.eps_end - self.hparams.eps_start)
        reward, done = self.agent.play_step(self.net, epsilon, self.device)
        self.episode_reward += reward
        self.moves += 1
        loss = self.dqn_mse_loss(batch)
        if done:
            self.total_reward = self.episode_reward
            self.episode_reward = 0.0
            self.log("moves_to_goal", float(self.moves))
            self.moves = 0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log_dict({"reward": reward, "train_loss": loss, "epsilon": epsilon})
        self.log("total_reward", self.total_reward, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        dataset = RLDataset(self.buffer, self.hparams.episode_length)
        return DataLoader(dataset=dataset, batch_size=self.hparams.batch_size)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig):
    L.seed_everything(cfg.seed)
    model = DQN(**cfg.agent)
    callbacks = [instantiate(c) for c in (cfg.get("callbacks") or {}).values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model)


if __name__ == "__main__":
    main()
