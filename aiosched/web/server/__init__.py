"""HTTP: the socket, checks of every request, errors, ETags, the exposition of metrics."""
