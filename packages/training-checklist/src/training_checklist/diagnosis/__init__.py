"""What an exception means: where it arose, what may have led to it, what to do."""
