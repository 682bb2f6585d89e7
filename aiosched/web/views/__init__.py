"""What pages need beyond rows: layouts of graphs, indexes of logs, live changes, health."""
