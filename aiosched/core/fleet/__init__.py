"""Who does how much: the load of partitions, and how schedulers share them."""
