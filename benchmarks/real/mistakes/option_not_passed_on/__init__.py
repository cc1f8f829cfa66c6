"""A network whose config says that it does not start from pretrained weights."""

SOURCE = "openvinotoolkit/anomalib 702acc1c6"
WRONG = "model.pretrained is passed on to nothing: the network always starts from the weights that are its default."
NAMED = {"run/key-never-read": "model.pretrained"}
MEND = {
    "train.py": {"Features(width=model.width)": "Features(width=model.width, pretrained=model.pretrained)"},
}
