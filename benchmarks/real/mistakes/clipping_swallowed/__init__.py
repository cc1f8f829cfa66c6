"""A Trainer of the project's own, with the arguments that it uses most."""

SOURCE = "ai4co/rl4co b79e5f1"
WRONG = "The project's Trainer takes gradient_clip_val and does not pass it on: nothing is ever clipped."
NAMED = {
    "gradients/not-clipped": "gradient_clip_val",
    "config/unread-key": "gradient_clip_val",
    "config/value-without-effect": "gradient_clip_val",
}
NEEDS = "what `config` reads of code: an argument that a subclass of Trainer takes and never uses counts as read"
