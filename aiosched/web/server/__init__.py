"""HTTP: the socket, checks of every request, errors, ETags, the Prometheus exposition."""
