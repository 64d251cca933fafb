"""A Flower app that starts a FedValue valuation at every SuperNode."""
