"""What several commands share: options, output, the session with the database."""
