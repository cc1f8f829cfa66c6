"""A network whose config says that it does not start from pretrained weights."""

SOURCE = "openvinotoolkit/anomalib 702acc1c6"
WRONG = "model.pretrained is passed on to nothing: the network always starts from the weights that are its default."
NAMED = {"config/unread-key": "model.pretrained"}
NEEDS = "`config` takes a key for read whose last name the code has anywhere, and here it is an argument's"
MEND = {
    "train.py": {"Features(width=model.width)": "Features(width=model.width, pretrained=model.pretrained)"},
}
