"""The scheduler's side of engines: attempts that run elsewhere and outlive the scheduler that sent them."""
