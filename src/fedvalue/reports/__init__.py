"""Result -> view -> HTML and plots. Nothing is computed about data here; decisions are asked for."""
