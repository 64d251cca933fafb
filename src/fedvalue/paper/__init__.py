"""The paper: its experiments and the trained models that it compares with."""
