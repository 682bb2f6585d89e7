"""Resources for people: logins, accounts, secrets."""
