"""Small values and tables that everything else uses: states, ids, retries, messages to executors."""
