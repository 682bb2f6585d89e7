"""Authentication and authorisation: logins, sessions, tokens, roles."""
