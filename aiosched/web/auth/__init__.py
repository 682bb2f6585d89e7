"""Who asks, and what they may do: logins, sessions, tokens, roles."""
