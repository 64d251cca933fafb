"""Result -> view -> HTML and plots. Nothing is computed from data here; `decisions` gives the advice."""
