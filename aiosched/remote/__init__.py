"""The logs of attempts, on this machine and in remote storage, and large XComs in any store that fsspec knows."""
