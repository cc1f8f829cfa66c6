"""A Trainer of the project's own, with the arguments that it uses most."""

SOURCE = "ai4co/rl4co b79e5f1"
WRONG = "The project's Trainer takes gradient_clip_val and does not pass it on: nothing is ever clipped."
NAMED = {
    "run/argument-without-effect": "ProjectTrainer is given gradient_clip_val",
    "gradients/not-clipped": "gradient_clip_val",
    "config/unread-key": "gradient_clip_val",
}
MEND = {
    "train.py": {"            **others,": "            gradient_clip_val=gradient_clip_val,\n            **others,"}
}
