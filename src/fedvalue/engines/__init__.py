"""Where work runs: threads of this machine, processes, or a Dask cluster."""
