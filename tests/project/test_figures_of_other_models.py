def test_model_that_returns_no_probabilities_is_drawn_without_them(train, monkeypatch):
    from digit_classifier.models import ImageClassifier

    monkeypatch.setattr(ImageClassifier, "test_step", lambda self, batch, batch_idx: None)
    monkeypatch.setattr(ImageClassifier, "on_test_epoch_end", lambda self: None)
    run = train("callbacks=[checkpoint,figures]")
    assert {path.stem for path in (run / "figures").iterdir()} == {"learning_curves"}
