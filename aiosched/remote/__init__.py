"""Files in remote storage: the logs of attempts, and large XComs, in any store that fsspec knows."""
