"""Commands about people and what they did."""
