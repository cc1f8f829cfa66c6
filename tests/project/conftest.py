"""What the generated project's own code promises beyond what its owner's tests hold on to."""

from in_project import fixtures

globals().update(fixtures())
