"""What probes stand on: things that are made once, when the first probe asks, and that all who ask share."""
