"""A Trainer of the project's own, with the arguments that it uses most."""

SOURCE = "ai4co/rl4co b79e5f1"
WRONG = "The project's Trainer takes gradient_clip_val and does not pass it on: nothing is ever clipped."
NAMED = {
    "gradients/not-clipped": "gradient_clip_val",
    "config/unread-key": "gradient_clip_val",
}
NEEDS = (
    "a comparison of what the config says of the Trainer with the Trainer that was made of it: a subclass takes the "
    "argument, so that the config fits, and passes nothing on"
)
MEND = {
    "train.py": {"            **others,": "            gradient_clip_val=gradient_clip_val,\n            **others,"}
}
