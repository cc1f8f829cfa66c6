"""What training-config promises, of configs that a test writes and of those of a generated project."""

from in_project import fixtures

globals().update(fixtures())
