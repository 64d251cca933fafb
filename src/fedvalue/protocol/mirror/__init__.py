"""The protocol `mirror`: masked codes to both servers, both count, the answers must agree."""
