"""Commands about people, their teams, and what they did."""
