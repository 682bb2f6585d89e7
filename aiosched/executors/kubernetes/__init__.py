"""The engine Kubernetes: a pod for each attempt. Needs `pip install 'aiosched[kubernetes]'`."""
