"""What generate.py writes."""
