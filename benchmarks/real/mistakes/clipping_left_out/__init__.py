"""A Trainer whose arguments are written out one by one."""

SOURCE = "torchmd/torchmd-net fcdc10c"
WRONG = "The option for gradient clipping is read by nothing: the Trainer is made without it."
NAMED = {"config/unread-key": "gradient_clipping"}
MEND = {"train.py": {"callbacks=callbacks,": "gradient_clip_val=cfg.gradient_clipping, callbacks=callbacks,"}}
