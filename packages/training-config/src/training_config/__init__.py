"""What a Hydra config says, read without building anything: whether it fits the code, where its values come from, what
in it is a secret. Nothing here imports torch."""
