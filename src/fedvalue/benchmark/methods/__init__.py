"""What is compared: one small class per way to value data. `registry` lists them by name."""
