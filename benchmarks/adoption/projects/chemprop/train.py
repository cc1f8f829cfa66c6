import hydra
import numpy as np
from chemprop import data, featurizers, models, nn
from hydra.utils import instantiate
from lightning import pytorch as pl
from omegaconf import DictConfig
from rdkit.Chem import Crippen, MolFromSmiles


def molecules() -> list[data.MoleculeDatapoint]:
    """Chains with a ring and a functional group, and their octanol-water coefficient by Crippen's rule."""
    ends = ["O", "N", "C(=O)O", "C#N", "Cl", "F", "C(=O)N", "S"]
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCOC1"]
    smiles = [
        "C" * length + branch + ring + end
        for length in range(1, 9)
        for branch in ("", "C(C)", "C(=O)")
        for ring in rings
        for end in ends
    ]
    return [data.MoleculeDatapoint.from_smi(smi, np.array([Crippen.MolLogP(MolFromSmiles(smi))])) for smi in smiles]


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    all_data = molecules()
    split = data.make_split_indices([point.mol for point in all_data], "random", (0.8, 0.1, 0.1), seed=cfg.seed)
    train_data, val_data, test_data = (part[0] for part in data.split_data_by_indices(all_data, *split))
    featurizer = featurizers.SimpleMoleculeMolGraphFeaturizer()
    train_dset = data.MoleculeDataset(train_data, featurizer)
    scaler = train_dset.normalize_targets()
    val_dset = data.MoleculeDataset(val_data, featurizer)
    val_dset.normalize_targets(scaler)
    test_dset = data.MoleculeDataset(test_data, featurizer)
    train_loader = data.build_dataloader(train_dset, batch_size=cfg.batch_size)
    val_loader = data.build_dataloader(val_dset, batch_size=cfg.batch_size, shuffle=False)
    test_loader = data.build_dataloader(test_dset, batch_size=cfg.batch_size, shuffle=False)

    output_transform = nn.UnscaleTransform.from_standard_scaler(scaler)
    mpnn = models.MPNN(
        nn.BondMessagePassing(d_h=cfg.hidden),
        nn.MeanAggregation(),
        nn.RegressionFFN(input_dim=cfg.hidden, output_transform=output_transform),
        batch_norm=True,
        metrics=[nn.metrics.RMSE(), nn.metrics.MAE()],
        warmup_epochs=1,
    )
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(mpnn, train_loader, val_loader)
    trainer.test(dataloaders=test_loader, weights_only=False)


if __name__ == "__main__":
    main()
